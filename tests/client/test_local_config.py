from __future__ import annotations

import json
from dataclasses import asdict

import pytest

from pocketquery.client.local_config import LocalConfig
from pocketquery.client.views.typing_augmenters import Typo
from pocketquery.sdk.errors import InvalidInputError

MESSAGES = {"heavy_views": "heavy", "light_views": "light"}


def test_the_defaults_are_those_that_were_measured() -> None:
    config = LocalConfig()
    assert (config.steps, config.batch_size, config.learning_rate) == (10, 16, 1e-3)
    assert (config.nearest_prototypes, config.random_prototypes) == (50, 50)
    assert (config.temperature, config.anchor_weight, config.ema_rate) == (0.05, 5.0, 0.99)
    assert (config.typo_rate, config.opened_loss_weight, config.proximal) == (0.08, 0.0, 0.0)
    assert (config.hybrid_loss_weight, config.hybrid_candidates) == (0.0, 50)
    assert config.client_init == "global"


def test_the_scalars_of_a_step_are_the_configurations() -> None:
    config = LocalConfig(learning_rate=0.5, ema_rate=0.25, weight_decay=0.125)
    for name, value in asdict(config.hyperparameters).items():
        assert value == getattr(config, name), name


def test_the_views_are_made_as_it_says() -> None:
    config = LocalConfig(heavy_views=("typo", "word_drop"), typo_rate=0.25)
    plan = config.view_plan(4)
    assert plan.views == 4
    assert [augmenter.name for augmenter in plan.heavy] == ["typo", "word_drop"]
    assert plan.heavy[0] == Typo(0.25)
    with pytest.raises(InvalidInputError, match="telepathy"):
        LocalConfig(heavy_views=("telepathy",))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("steps", 0),
        ("steps", True),
        ("steps", 10**9),
        ("steps", 10**400),
        ("batch_size", 0),
        ("batch_size", 10**6),
        ("nearest_prototypes", 10**6),
        ("random_prototypes", 10**6),
        ("random_prototypes", 0.5),
        ("learning_rate", 1e30),
        ("learning_rate", 10**400),
        ("temperature", 1e-30),
        ("epsilon", 1e-300),
        ("anchor_weight", 1e30),
        ("opened_loss_weight", 1e30),
        ("weight_decay", 1e30),
        ("init_scale", 1e30),
        ("heavy_views", ("typo",) * 1000),
        ("batch_size", 2.5),
        ("nearest_prototypes", 0),
        ("random_prototypes", -1),
        ("learning_rate", 0.0),
        ("learning_rate", float("inf")),
        ("temperature", -0.05),
        ("anchor_weight", float("nan")),
        ("opened_loss_weight", -1.0),
        ("ema_rate", 1.5),
        ("beta1", 1.0),
        ("epsilon", 0.0),
        ("typo_rate", 2.0),
        ("proximal", 1.01),
        ("init_scale", -1.0),
        ("hybrid_loss_weight", -1.0),
        ("hybrid_candidates", 1),
        ("hybrid_candidates", 10**6),
        ("hybrid_sharpness", 0.0),
        ("hybrid_mistyped", 1.5),
        ("learning_rate", "fast"),
        ("learning_rate", True),
        ("client_init", "local"),
        ("limits", None),
        ("heavy_views", ()),
        ("heavy_views", "typo"),
        ("heavy_views", [3]),
        ("light_views", ["typo"]),
    ],
)
def test_a_value_out_of_range_is_named(name: str, value: object) -> None:
    with pytest.raises(InvalidInputError, match=MESSAGES.get(name, name)):
        LocalConfig(**{name: value})  # type: ignore[arg-type]


def test_a_step_has_one_place_for_what_is_to_be_found() -> None:
    with pytest.raises(InvalidInputError, match="one of them at most"):
        LocalConfig(opened_loss_weight=1.0, hybrid_loss_weight=0.5)


def test_what_is_off_is_not_said_and_every_release_takes_the_offer() -> None:
    known = LocalConfig(steps=7).to_dict()
    assert not any("hybrid" in name for name in known)
    assert LocalConfig.from_dict(known) == LocalConfig(steps=7)
    taught = LocalConfig(hybrid_loss_weight=1.0, hybrid_candidates=20)
    assert LocalConfig.from_dict(json.loads(json.dumps(taught.to_dict()))) == taught
    assert taught.to_dict()["hybrid_mistyped"] == 0.5

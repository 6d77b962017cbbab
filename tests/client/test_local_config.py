from __future__ import annotations

from dataclasses import asdict

import pytest

from pocketquery.client.local_config import LocalConfig
from pocketquery.sdk.errors import InvalidInputError


def test_the_defaults_are_those_of_the_design() -> None:
    config = LocalConfig()
    assert (config.steps, config.batch_size, config.learning_rate) == (10, 16, 1e-3)
    assert (config.nearest_prototypes, config.random_prototypes) == (50, 50)
    assert (config.temperature, config.anchor_weight, config.ema_rate) == (0.05, 0.5, 0.99)
    assert (config.typo_rate, config.opened_loss_weight, config.proximal) == (0.08, 0.0, 0.0)
    assert config.client_init == "global"


def test_the_scalars_of_a_step_are_the_configurations() -> None:
    config = LocalConfig(learning_rate=0.5, ema_rate=0.25, weight_decay=0.125)
    for name, value in asdict(config.hyperparameters).items():
        assert value == getattr(config, name), name


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("steps", 0),
        ("batch_size", 0),
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
        ("learning_rate", "fast"),
        ("learning_rate", True),
        ("client_init", "local"),
        ("limits", None),
    ],
)
def test_a_value_out_of_range_is_named(name: str, value: object) -> None:
    with pytest.raises(InvalidInputError, match=name):
        LocalConfig(**{name: value})  # type: ignore[arg-type]

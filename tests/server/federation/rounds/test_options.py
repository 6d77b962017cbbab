"""Options by name become checked settings."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pocketquery.client.local_config import LocalConfig
from pocketquery.sdk.errors import InvalidInputError
from pocketquery.server.federation.rounds.options import OPTIONS, FederationOptions
from pocketquery.server.federation.rounds.settings import RoundSettings


def test_the_defaults_are_those_of_the_parts() -> None:
    options = FederationOptions.of({})
    assert options == FederationOptions()
    assert (options.settings, options.local) == (RoundSettings(), LocalConfig())


def test_every_option_arrives_where_it_belongs() -> None:
    changed: dict[str, Any] = {
        "rounds": 3, "clients-per-round": 7, "over-selection": 2, "least-replies": 2,
        "deadline": 5.0, "clip-norm": 0.5, "weighting": "declared", "largest-weight": 9.0,
        "aggregation": "mean",
        "shards": 5, "optimizer": "fedadam", "server-learning-rate": 0.1, "steps": 4,
        "batch-size": 3, "learning-rate": 0.01, "anchor-weight": 0.25, "opened-weight": 1,
        "typo-rate": 0.2, "proximal": 0.1, "client-init": "ema", "compress": False, "seed": 8,
    }  # fmt: skip
    assert changed.keys() == {option.name for option in OPTIONS}
    before = json.dumps(FederationOptions.of({}).to_dict())
    for name, value in changed.items():
        assert json.dumps(FederationOptions.of({name: value}).to_dict()) != before, name
    found = FederationOptions.of(changed).to_dict()
    assert found["settings"]["over_selection"] == 2.0
    assert found["settings"]["optimizer"]["name"] == "fedadam"
    assert found["local"]["opened_loss_weight"] == 1.0


@pytest.mark.parametrize(
    "given",
    [{"rounds": "3"}, {"rounds": 0}, {"steps": 1.5}, {"compress": 1}, {"seed": -1},
     {"optimizer": "sgd"}, {"aggregation": "vote"}, {"learning-rate": -1.0}],
)  # fmt: skip
def test_what_is_no_setting_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError):
        FederationOptions.of(given)


def test_the_default_of_least_replies_gives_way_to_a_round_of_few() -> None:
    assert FederationOptions.of({"clients-per-round": 3}).settings.least_replies == 3
    assert FederationOptions.of({"clients-per-round": 30}).settings.least_replies == 5
    with pytest.raises(InvalidInputError, match="least_replies"):
        FederationOptions.of({"clients-per-round": 3, "least-replies": 4})


def test_a_server_draws_its_shards_anew_and_does_not_show_them() -> None:
    options = FederationOptions.of({"aggregation": "median", "shards": 5})
    first, second = options.with_secret_shards(), options.with_secret_shards()
    seeds = {one.settings.shard_seed for one in (options, first, second)}
    assert len(seeds) == 3
    assert first.to_dict() == options.to_dict()
    assert str(first.settings.shard_seed) not in json.dumps(first.to_dict())

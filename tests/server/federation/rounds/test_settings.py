from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest

from pocketquery.sdk.errors import InvalidInputError
from pocketquery.server.federation.rounds.server_optimizers import FedAdam
from pocketquery.server.federation.rounds.settings import RoundSettings


def test_the_defaults_are_valid_and_come_back_from_json() -> None:
    for settings in (
        RoundSettings(),
        RoundSettings(aggregation="median", shards=5, shard_seed=-3, optimizer=FedAdam()),
    ):
        assert RoundSettings.from_dict(json.loads(json.dumps(settings.to_dict()))) == settings


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("clients_per_round", 0),
        ("clients_per_round", 2.0),
        ("clients_per_round", True),
        ("clients_per_round", np.int64(20)),  # no JSON could be written of it
        ("clip_norm", np.float64(1.0)),
        ("largest_step", -1.0),
        ("in_flight", -1),
        ("mode", "later"),
        ("least_replies", 0),
        ("least_replies", 21),
        ("over_selection", 0.9),
        ("over_selection", math.nan),
        ("deadline_seconds", 0),
        ("deadline_seconds", math.inf),
        ("clip_norm", 0.0),
        ("clip_norm", -1.0),
        ("clip_norm", "1"),
        ("norm_slack", 0.5),
        ("largest_weight", math.nan),
        ("aggregation", "krum"),
        ("weighting", "fair"),
        ("shards", 0),
        ("shard_seed", 2**63),
        ("shard_seed", "secret"),
        ("trim", 0.5),
        ("remembered_rounds", 0),
    ],
)
def test_a_setting_out_of_range_is_named(name: str, value: Any) -> None:
    with pytest.raises(InvalidInputError, match=name):
        RoundSettings(**{name: value})


@pytest.mark.parametrize("aggregation", ["median", "trimmed_mean"])
def test_robust_aggregation_needs_shards(aggregation: Any) -> None:
    with pytest.raises(
        InvalidInputError, match=f"shards, for {aggregation}, is 2, expected a whole number from 3"
    ):
        RoundSettings(aggregation=aggregation, shards=2)


def test_settings_whose_sums_could_overflow_are_refused() -> None:
    assert (
        RoundSettings(
            clients_per_round=10_000, largest_weight=1000.0, clip_norm=2.0, weighting="declared"
        ).bits()
        == 37
    )
    with pytest.raises(InvalidInputError, match="lower clients_per_round"):
        RoundSettings(clients_per_round=10**6, largest_weight=1e6, weighting="declared")
    # A weight that does not count takes no bits.
    assert RoundSettings(clients_per_round=10**6, largest_weight=1e6).bits() == 40


def test_more_are_asked_than_wanted() -> None:
    assert RoundSettings(clients_per_round=10, over_selection=1.25).asked() == 13


def test_settings_of_another_release_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="noise"):
        RoundSettings.from_dict({"noise": 1.0})

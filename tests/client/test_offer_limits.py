"""What a device accepts of an offer, whoever makes it."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketquery.client.local_config import LocalConfig
from pocketquery.client.offer import Offer
from pocketquery.client.offer_limits import OfferLimits
from pocketquery.client.training.monitors import MonitorLimits
from pocketquery.sdk.errors import InvalidInputError
from pocketquery.server.federation.rounds.settings import RoundSettings

DEFAULT = OfferLimits()


def refusal(queries: int = 40, clip: float = 1.0, **changes: Any) -> str | None:
    return DEFAULT.refusal(LocalConfig(**changes), clip, queries)


def test_what_the_package_offers_by_default_is_accepted() -> None:
    for clip in (RoundSettings().clip_norm, Offer(0, b"").clip_norm):
        for queries in (32, 40, 2000):
            assert refusal(queries, clip) is None


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("steps", {"steps": 1}),
        ("steps", {"steps": 101, "batch_size": 16, "queries": 2000}),
        ("batch_size", {"batch_size": 1, "steps": 50}),
        ("distinct queries", {"queries": 31}),
        ("distinct queries", {"queries": 0}),
        ("showings of a query", {"steps": 25, "queries": 32}),
        ("clip_norm", {"clip": 1e30}),
        ("clip_norm", {"clip": float("nan")}),
        ("learning_rate", {"learning_rate": 0.1}),
        ("weight_decay", {"weight_decay": 10.0}),
        ("proximal", {"proximal": 0.99}),
        ("opened_loss_weight", {"opened_loss_weight": 1000.0}),
        ("hybrid_loss_weight", {"hybrid_loss_weight": 1.1}),
        ("typo_rate", {"typo_rate": 0.0}),
        ("dropout_view", {"heavy_views": ("typo", "dropout_view")}),
        ("temperature", {"temperature": 1e-3}),
        ("limits.drift", {"limits": MonitorLimits(drift=2.0)}),
        ("limits.rank_kept", {"limits": MonitorLimits(rank_kept=0.0)}),
        ("limits.spread_kept", {"limits": MonitorLimits(spread_kept=0.0)}),
    ],
)
def test_what_could_isolate_a_query_is_named(name: str, changes: dict[str, Any]) -> None:
    reason = refusal(**changes)
    assert reason is not None
    assert name in reason
    queries, clip = changes.pop("queries", 40), changes.pop("clip", 1.0)
    none = OfferLimits.none().refusal(LocalConfig(**changes), clip, max(queries, 1))
    assert none is None or clip != clip  # NaN is within no limit


@given(
    steps=st.integers(1, 200),
    batch=st.integers(1, 64),
    queries=st.integers(0, 300),
    least=st.integers(1, 100),
)
def test_accepted_offers_hide_queries(steps: int, batch: int, queries: int, least: int) -> None:
    limits = replace(DEFAULT, least_queries=least)
    if limits.refusal(LocalConfig(steps=steps, batch_size=batch), 1.0, queries) is None:
        assert queries >= least
        assert steps * batch >= least
        assert steps * batch <= limits.most_repetitions * queries


@pytest.mark.parametrize("name", [one.name for one in fields(OfferLimits)])
@pytest.mark.parametrize("value", [-1, float("nan"), float("inf"), "1", None, True])
def test_a_limit_that_is_none_is_refused(name: str, value: Any) -> None:
    with pytest.raises(InvalidInputError, match=name):
        OfferLimits(**{name: value})

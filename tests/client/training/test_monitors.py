from __future__ import annotations

import math

import numpy as np
import pytest

from pocketquery.client.training.monitors import (
    MonitorLimits,
    effective_rank,
    measure,
    std_ratio,
    violation,
)
from pocketquery.sdk.arrays import Floats
from pocketquery.sdk.errors import InvalidInputError


def sphere(n: int, d: int, seed: int = 0) -> Floats:
    points = np.random.default_rng(seed).standard_normal((n, d))
    return unit(points.astype(np.float32))


def unit(vectors: Floats) -> Floats:
    units: Floats = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return units


def test_the_spread_of_the_even_sphere_is_one() -> None:
    assert std_ratio(sphere(2000, 64)) == pytest.approx(1.0, abs=0.01)


def test_the_spread_of_a_point_is_zero() -> None:
    assert std_ratio(np.repeat(sphere(1, 64), 20, axis=0)) == pytest.approx(0.0, abs=1e-6)


def test_the_rank_by_hand() -> None:
    """Centred, these four have two singular values alike; of two unequal ones exp(entropy)."""
    square = np.array([[1, 0, 0], [-1, 0, 0], [0, 1, 0], [0, -1, 0]], np.float32)
    assert effective_rank(square) == pytest.approx(2.0)
    uneven = square * np.array([3, 1, 1], np.float32)
    entropy = -(0.75 * math.log(0.75) + 0.25 * math.log(0.25))
    assert effective_rank(uneven) == pytest.approx(math.exp(entropy))


def test_the_rank_of_a_line_and_of_a_point_is_one() -> None:
    line = np.outer(np.arange(5), [1, 2, 2]).astype(np.float32)
    assert effective_rank(line) == pytest.approx(1.0, abs=1e-5)
    assert effective_rank(np.ones((5, 3), np.float32)) == 1.0


def test_the_rank_does_not_depend_on_scale_order_or_rotation() -> None:
    points = sphere(40, 8)
    turn = np.linalg.qr(np.random.default_rng(1).standard_normal((8, 8)))[0].astype(np.float32)
    expected = effective_rank(points)
    for same in (points * 7, points[::-1], points @ turn, points + 3):
        assert effective_rank(same) == pytest.approx(expected, rel=1e-4)


def test_the_same_vectors_are_healthy() -> None:
    points = sphere(16, 32)
    health = measure(points, points)
    assert health.drift == pytest.approx(0.0, abs=1e-6)
    assert (health.rank_kept, health.spread_kept) == (1.0, 1.0)
    assert violation(health, MonitorLimits()) is None


@pytest.mark.parametrize("n", [1, 2])
def test_few_queries_can_be_judged(n: int) -> None:
    points = sphere(n, 32)
    assert violation(measure(points, points), MonitorLimits()) is None


def test_the_same_query_many_times_is_no_collapse() -> None:
    points = np.repeat(sphere(1, 32), 8, axis=0)
    assert violation(measure(points, points), MonitorLimits()) is None


def test_a_rotation_is_drift() -> None:
    points = sphere(16, 32)
    found = violation(measure(-points, points), MonitorLimits())
    assert found is not None
    assert found.startswith("drift: queries moved 2.000")


def test_total_collapse_keeps_the_rank_and_loses_the_spread() -> None:
    """Objectives, 1.7: near a point the noise that is left has full rank."""
    shipped = sphere(16, 32)
    collapsed = unit(shipped.mean(axis=0) + 0.01 * sphere(16, 32, 1))
    health = measure(collapsed, shipped)
    assert health.rank_kept > 0.9
    found = violation(health, MonitorLimits(drift=2.0))
    assert found is not None
    assert found.startswith("collapse: the spread")


def test_dimensional_collapse_keeps_the_spread_and_loses_the_rank() -> None:
    shipped = sphere(32, 64)
    collapsed = unit(shipped[:, :2] @ sphere(2, 64, 1))
    health = measure(collapsed, shipped)
    assert health.spread_kept > 0.8
    found = violation(health, MonitorLimits(drift=2.0))
    assert found is not None
    assert found.startswith("collapse: the effective rank")


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_not_finite_is_bad(bad: float) -> None:
    points = sphere(4, 8)
    broken = points.copy()
    broken[2, 3] = bad
    assert violation(measure(broken, points), MonitorLimits()) == "the vectors are not finite"


@pytest.mark.parametrize(
    "limits", [{"rank_kept": -0.1}, {"spread_kept": 1.5}, {"drift": 0.0}, {"drift": float("nan")}]
)
def test_limits_out_of_range_are_refused(limits: dict[str, float]) -> None:
    with pytest.raises(InvalidInputError, match=next(iter(limits))):
        MonitorLimits(**limits)

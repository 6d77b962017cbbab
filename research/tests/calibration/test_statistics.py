"""Shift and scale: the simulation of a second language with its own offset and units."""

from __future__ import annotations

import numpy as np
import pytest

from pocketquery.sdk.arrays import Doubles
from pocketquery.server.evaluation.geometry import unit_rows
from pocketquery_research.calibration.statistics import Statistics, fit_statistics
from pocketquery_research.evaluation.translation import two_way


def simulated(seed: int) -> tuple[Doubles, Doubles, Doubles, Doubles]:
    """1,000 pairs, and 2,000 other sentences of either language to fit on, 32 dimensions.

    The second language is a noisy copy with a scale for every dimension and an offset.
    """
    rng = np.random.default_rng(seed)
    scale = np.exp(1.2 * rng.normal(size=32))
    offset = 8 * scale * rng.normal(size=32)

    def second(first: Doubles) -> Doubles:
        moved: Doubles = (first + 0.5 * rng.normal(size=first.shape)) * scale + offset
        return moved

    left, fitting, other = (rng.normal(size=(rows, 32)) for rows in (1000, 2000, 2000))
    return left, second(left), fitting, second(other)


def accuracies(seed: int) -> dict[str, float]:
    left, right, fit_left, fit_right = simulated(seed)
    found = {"raw": two_way(left, right).accuracy}
    for divisor in ("std", "variance"):
        one, other = (fit_statistics(rows, divisor) for rows in (fit_left, fit_right))
        found["shift"] = two_way(one.shifted(left), other.shifted(right)).accuracy
        found[divisor] = two_way(one.scaled(left), other.scaled(right)).accuracy
    return found


def test_shift_helps_the_standard_deviation_completes_and_the_variance_falls_short() -> None:
    found = accuracies(seed=8)
    assert found["raw"] < 0.3
    assert found["shift"] > 0.8
    assert found["std"] > 0.98
    assert found["variance"] < 0.8


@pytest.mark.parametrize("seed", range(6))
def test_the_order_holds_for_other_draws(seed: int) -> None:
    found = accuracies(seed)
    assert found["raw"] < found["shift"] - 0.1
    assert found["shift"] < found["std"]
    assert found["variance"] < found["std"] - 0.03
    assert found["std"] > 0.98


def test_by_hand() -> None:
    fitted = fit_statistics(np.array([[0.0, 4.0], [2.0, 10.0]]))
    np.testing.assert_allclose(fitted.mean, [1, 7])
    np.testing.assert_allclose(fitted.spread, [1, 3])
    np.testing.assert_allclose(fitted.scaled(np.array([[4.0, 19.0]])), [[0.6, 0.8]])
    np.testing.assert_allclose(fitted.shifted(np.array([[4.0, 11.0]])), [[0.6, 0.8]])


def test_a_dimension_that_hardly_varies_is_not_blown_up() -> None:
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(500, 4)) * [1, 1, 1, 1e-9]
    fitted = fit_statistics(vectors)
    assert fitted.spread[3] == pytest.approx(0.05 * np.median(vectors.std(axis=0)))


def test_constant_vectors_give_no_nan() -> None:
    vectors = np.ones((10, 3), dtype=np.float32)
    fitted = fit_statistics(vectors)
    assert np.isfinite(fitted.scaled(vectors)).all()
    assert np.isfinite(fitted.shifted(vectors)).all()


def test_rows_have_unit_length_and_zero_stays_zero() -> None:
    rows = unit_rows(np.array([[3.0, 4.0], [0.0, 0.0]]))
    np.testing.assert_allclose(rows.tolist(), [[0.6, 0.8], [0.0, 0.0]])
    fitted = Statistics(np.zeros(2), np.ones(2))
    scaled = fitted.scaled(np.random.default_rng(0).normal(size=(9, 2)))
    np.testing.assert_allclose((scaled**2).sum(axis=1), np.ones(9))

"""Epsilon of private rounds: known values to three digits, monotony, and what is refused."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pocketquery.client.private.noise import counted_on
from pocketquery.sdk.errors import InvalidInputError, MissingExtraError
from pocketquery.server.private.accounting import (
    epsilon_of_zcdp,
    least_honest,
    rho_of,
)
from pocketquery.server.private.budget import Season

_DELTA = 1e-6

# Epsilon at delta 1e-6 after P participations (zCDP), and of Gaussian noise by the exact formula.
_AFTER = {
    1: ((5.22, 4.89), (7.77, 7.29), (13.38, 12.60), (20.55, 19.42), (32.24, 30.58)),
    2: ((2.42, 2.25), (3.54, 3.31), (5.93, 5.55), (8.85, 8.31), (13.38, 12.60)),
    4: ((1.14, 1.06), (1.66, 1.54), (2.73, 2.55), (4.01, 3.75), (5.93, 5.55)),
    8: ((0.55, 0.50), (0.79, 0.73), (1.29, 1.20), (1.87, 1.74), (2.73, 2.55)),
}
_TIMES = (1, 2, 5, 10, 20)


@pytest.mark.parametrize("multiplier", _AFTER)
def test_epsilon_after_participations(multiplier: int) -> None:
    """Every cell of the table; the least that the same noise could cost is a little below."""
    for times, (devices, least) in zip(_TIMES, _AFTER[multiplier], strict=True):
        assert epsilon(multiplier, times, _DELTA) == _three(devices)
        assert _exact(multiplier, times, _DELTA) == _three(least)


def test_epsilon_of_the_defaults() -> None:
    """Multiplier 2.4, one participation, delta 1e-6."""
    assert epsilon(2.4, 1, _DELTA) == _three(1.98)


@pytest.mark.parametrize(
    ("fleet", "once", "five_times"),
    [(1e3, 1.65, 4.28), (1e4, 2.00, 5.02), (1e5, 2.30, 5.66), (1e6, 2.56, 6.23)],
)
def test_epsilon_at_a_delta_of_the_fleet(fleet: float, once: float, five_times: float) -> None:
    """Delta = N^-1.1, multiplier 2."""
    delta = fleet**-1.1
    assert epsilon(2.0, 1, delta) == _three(once)
    assert epsilon(2.0, 5, delta) == _three(five_times)


@pytest.mark.parametrize(
    ("group", "neighbours", "threshold", "expected"),
    [
        (100, 84, 51, (3.37, 2.76, 1.58)),
        (1_000, 200, 121, (7.71, 6.25, 3.52)),
        (1_000, 84, 51, (12.67, 10.18, 5.63)),
    ],
)
def test_a_deviating_server_leaves_less_noise(
    group: int, neighbours: int, threshold: int, expected: tuple[float, ...]
) -> None:
    """Multipliers 2, 2.4 and 4, one participation."""
    for multiplier, value in zip((2.0, 2.4, 4.0), expected, strict=True):
        charge = Season("spring", noise_multiplier=multiplier).charge(
            0, counted_on=counted_on(group), least_honest=least_honest(neighbours, threshold)
        )
        assert epsilon_of_zcdp(charge.cost("M"), _DELTA) == _three(value)


def test_the_least_honest_of_a_sum() -> None:
    """The specification's table of groups."""
    assert [least_honest(k, t) for k, t in ((19, 12), (84, 51), (200, 121))] == [9, 35, 81]


@settings(deadline=None, max_examples=30)
@given(
    st.floats(0.3, 30), st.floats(1.01, 2), st.integers(1, 20), st.sampled_from((1e-8, 1e-6, 1e-4))
)
def test_epsilon_falls_with_noise_and_grows_with_participations(
    multiplier: float, factor: float, times: int, delta: float
) -> None:
    """The zCDP bound is never below the exact value for Gaussian noise."""
    found = epsilon(multiplier, times, delta)
    louder = epsilon(multiplier * factor, times, delta)
    assert louder < found < epsilon(multiplier, times + 1, delta)
    assert _exact(multiplier, times, delta) <= found


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: epsilon(0.0, 1, _DELTA), "noise_multiplier is 0.0"),
        (lambda: epsilon(math.nan, 1, _DELTA), "noise_multiplier is nan"),
        (lambda: epsilon(2.0, 0, _DELTA), "participations is 0"),
        (lambda: epsilon(2.0, 1, 0.0), "delta is 0.0"),
        (lambda: epsilon(2.0, 1, 1.0), "delta is 1.0"),
        (lambda: epsilon_of_zcdp(-1.0, _DELTA), "rho is -1.0"),
        (lambda: least_honest(84, 42), "threshold is 42, expected a whole number from 43 to 84"),
        (lambda: least_honest(84, 85), "threshold is 85"),
        (lambda: rho_of(-2.0), "noise_multiplier is -2.0"),
    ],
)
def test_bad_values_are_refused(call: Callable[[], float], message: str) -> None:
    """Each with what was found."""
    with pytest.raises(InvalidInputError, match=message):
        call()


def test_without_the_extra_the_error_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that runs no private rounds needs no accountant."""
    monkeypatch.setitem(sys.modules, "dp_accounting", None)
    with pytest.raises(MissingExtraError, match=r'"dp-accounting".*pocketquery\[privacy\]'):
        epsilon_of_zcdp(0.1, _DELTA)


def epsilon(multiplier: float, times: int, delta: float) -> float:
    return epsilon_of_zcdp(rho_of(multiplier, times), delta)


def _exact(multiplier: float, times: int, delta: float) -> float:
    """Of as much Gaussian noise, by the formula of Balle and Wang (ICML 2018, theorem 8)."""
    import dp_accounting

    return float(dp_accounting.get_epsilon_gaussian(multiplier / math.sqrt(times), delta))


def _three(value: float) -> object:
    """Equal to three digits, as the tables print them."""
    return pytest.approx(value, rel=0, abs=0.0051)

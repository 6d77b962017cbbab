from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketquery.client.store.expiry import Age, is_set

NOW = 1_800_000_000.0
times = st.one_of(st.floats(), st.floats(1.6e9, 2.5e9))


def test_a_clock_that_goes_forward_is_counted() -> None:
    age = Age().at(NOW, 100.0)
    assert age == Age(0.0, NOW)
    assert age.at(NOW + 30, 100.0).at(NOW + 90, 100.0) == Age(90.0, NOW + 90)


def test_a_jump_forward_counts_as_the_most_of_one_step() -> None:
    assert Age(5.0, NOW).at(NOW + 1e8, 100.0) == Age(105.0, NOW + 1e8)


def test_a_jump_backwards_counts_nothing_and_time_goes_on_from_there() -> None:
    back = Age(5.0, NOW).at(NOW - 1e7, 100.0)
    assert back == Age(5.0, NOW - 1e7)
    assert back.at(NOW - 1e7 + 20, 100.0).seconds == 25.0


@pytest.mark.parametrize("now", [0.0, -1.0, 1e9, math.nan, math.inf, -math.inf, 1.8e12])
def test_a_clock_that_is_not_set_is_not_read(now: float) -> None:
    assert not is_set(now)
    assert Age(5.0, NOW).at(now, 100.0) == Age(5.0, NOW)


def test_a_clock_that_is_lost_at_every_start_costs_nothing() -> None:
    age = Age().at(NOW, 1000.0)
    for start in range(1, 50):
        age = age.at(0.0, 1000.0).at(NOW + start, 1000.0)
    assert age.seconds == 49.0


@given(st.lists(times), st.floats(1.0, 1e9))
def test_age_never_shrinks_and_never_leaps(clock: list[float], most: float) -> None:
    age = Age()
    for now in clock:
        later = age.at(now, most)
        assert age.seconds <= later.seconds <= (age.seconds + most) * (1 + 1e-12)
        age = later

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pocketquery.client.store.expiry import Age, is_set
from pocketquery.client.store.file import ROUNDS
from pocketquery.client.store.store import QueryStore

NOW = 1_800_000_000.0
HOUR = 3_600.0
DAY = 86_400.0
HALF = 45 * DAY
times = st.one_of(st.floats(), st.floats(1.6e9, 2.5e9))


def after(readings: Sequence[float], age: Age | None = None, most: float = HALF) -> Age:
    age = age or Age()
    for now in readings:
        age = age.at(now, most)
    return age


def test_a_clock_that_goes_forward_is_counted() -> None:
    age = Age().at(NOW, HALF)
    assert (age.seconds, age.stamp) == (0.0, 0.0)
    assert after([NOW + 30, NOW + 90], age).seconds == 90.0
    assert after([NOW + DAY, NOW + 1.5 * DAY], age).seconds == 1.5 * DAY


def test_what_was_counted_is_not_counted_again() -> None:
    to_and_fro = [NOW, NOW + 0.9 * DAY] * 50
    assert after(to_and_fro).seconds <= 0.9 * DAY + 50 * HOUR
    assert after([NOW, *[NOW + 60, NOW] * 500]).seconds <= 501 * 60


def test_a_leap_counts_once_the_clock_kept_to_it_for_a_day_by_half_a_lifetime() -> None:
    leapt = NOW + 400 * DAY
    age = after([NOW, leapt])
    assert age.seconds == HOUR
    assert after([leapt + 0.9 * DAY], age).seconds == 2 * HOUR
    believed = after([leapt + DAY], age)
    assert believed.seconds == 2 * HOUR + HALF
    assert after([leapt + DAY + 60], believed).seconds == believed.seconds + 60
    assert after([leapt + 2 * DAY], believed).seconds >= 2 * HALF


def test_a_leap_that_is_taken_back_counts_nothing_and_neither_does_the_next() -> None:
    readings = [NOW, *[time for n in range(60) for time in (NOW + 4e8, NOW + n)]]
    assert after(readings).seconds <= 60 * HOUR
    again = [NOW, *[time for n in range(9) for time in (NOW + n * DAY, NOW + n * DAY + 4e8)]]
    assert after(again).seconds <= 8 * DAY + 9 * HOUR


def test_a_query_kept_during_a_leap_does_not_age_by_what_passed_before() -> None:
    leapt = NOW + 400 * DAY
    age = after([NOW, leapt])
    kept = age.stamp
    later = after([leapt + n * DAY for n in range(1, 20)], age)
    assert later.seconds - kept <= 19 * DAY + HOUR


@pytest.mark.parametrize("now", [0.0, -1.0, 1e9, math.nan, math.inf, -math.inf, 1.8e12])
def test_a_clock_that_is_not_set_says_nothing_of_the_date(now: float) -> None:
    assert not is_set(now)
    age = after([NOW, NOW + 5])
    assert after([now], age).seconds <= 5 + HOUR
    assert after([now, NOW + 10], age).seconds <= 10 + 2 * HOUR
    assert after([now, NOW + 3 * DAY], age).seconds == after([NOW + 3 * DAY], age).seconds or (
        after([now, NOW + 3 * DAY], age).seconds <= 5 + 2 * HOUR
    )


def test_a_clock_that_is_lost_at_every_start_costs_next_to_nothing() -> None:
    age = after([NOW])
    for start in range(1, 50):
        age = age.at(0.0, HALF, opening=True).at(NOW + start * DAY, HALF)
    assert 49 * DAY <= age.seconds <= 49 * DAY + 2 * HOUR


@pytest.mark.parametrize("now", [0.0, NOW, NOW - 9e7])
def test_a_clock_that_stands_still_keeps_nothing_for_ever(now: float) -> None:
    age = after([NOW])
    for _ in range(90 * 24 + 1):
        age = age.at(now, HALF, opening=True)
    assert age.seconds >= 90 * DAY


@pytest.mark.parametrize("start", [0.0, NOW - 9e7])
def test_a_clock_that_begins_anew_at_every_start_counts_the_time_it_runs(start: float) -> None:
    age = after([NOW])
    for _ in range(100):
        for minutes in range(0, 300, 30):
            age = age.at(start + 60 * minutes, HALF, opening=minutes == 0)
    assert 100 * 270 * 60 <= age.seconds <= 100 * (270 * 60 + 2 * HOUR)


def test_a_clock_that_was_ahead_at_first_is_put_right_once_it_kept_to_it_for_a_day() -> None:
    wrong = NOW + 5_000 * DAY
    age = after([wrong, wrong + 60, NOW])
    assert (age.seconds, age.origin, age.landed) == (60.0, wrong, NOW)
    assert after([NOW + 0.9 * DAY, wrong + 120], age) == Age(60.0 + 2 * HOUR, wrong + 120, wrong)
    right = after([NOW + DAY], age)
    assert right == Age(60.0 + HOUR, NOW + DAY, NOW + DAY - 60.0 - HOUR)
    assert after([NOW + n * DAY for n in range(2, 90)], right).seconds == 88 * DAY + 60 + HOUR
    # An hour before the beginning is nothing, and nor is a day in which it goes to and fro.
    assert after([NOW, NOW - HOUR, NOW + DAY]) == Age(DAY, NOW + DAY, NOW)
    assert after([NOW, NOW - 2 * DAY, NOW + HOUR, NOW - 0.9 * DAY]).origin == NOW


def test_what_was_kept_while_the_clock_was_ahead_goes_in_time(tmp_path: Path) -> None:
    path = tmp_path / "queries.sqlite"
    with QueryStore.open(path, clock=lambda: NOW + 5_000 * DAY) as store:
        store.give_consent()
        store.add("what is this rash")
    kept = []
    for day in range(95):
        with QueryStore.open(path, clock=lambda: NOW + day * DAY) as store:  # noqa: B023
            kept.append(len(store))
    assert kept[:90] == [1] * 90
    assert kept[94] == 0


def rounds_file(folder: Path, written: float) -> Path:
    """What a round left beside the store, by a clock that showed ``written``."""
    path = folder / ROUNDS
    path.write_bytes(b"residual")
    os.utime(path, (written, written))
    return path


@pytest.mark.parametrize(
    ("wrong", "first"), [(0.0, 30), (-600 * DAY, 16), (3_000 * DAY, 31), (-NOW, 31)]
)
def test_what_was_made_of_queries_expires(tmp_path: Path, wrong: float, first: int) -> None:
    """Where the clock was wrong then, it is believed to be older by half of their age at most."""
    path, epochs, there = tmp_path / "queries.sqlite", [], []
    for day in range(80):
        with QueryStore.open(path, max_age_days=30, clock=lambda: NOW + day * DAY) as store:  # noqa: B023
            if not store.consent:
                store.give_consent()
            store.add(f"on day {day}")
            epochs.append(store.epoch)
        there.append((tmp_path / ROUNDS).exists())
        if day == 0:
            rounds_file(tmp_path, NOW + wrong)
    assert there[1:first] == [True] * (first - 1)
    assert there[first:] == [False] * (80 - first)
    assert len(set(epochs[1:first])) == 1
    assert len({epochs[1], *epochs[first:]}) == 2


def test_what_was_made_of_queries_goes_with_the_last(
    tmp_path: Path,
) -> None:
    path = tmp_path / "queries.sqlite"
    with QueryStore.open(path, max_age_days=1, clock=lambda: 0.0) as store:
        store.give_consent()
        store.add("what is this rash")
        epoch = store.epoch
    rounds = rounds_file(tmp_path, 0.0)
    kept = []
    for _ in range(30):  # each an hour, though the clock begins in 1970 at every start
        with QueryStore.open(path, clock=lambda: 0.0) as store:
            kept.append((len(store), rounds.exists(), store.epoch == epoch))
    assert kept[:24] == [(1, True, True)] * 24
    assert kept[25:] == [(0, False, False)] * 5


def test_what_is_computed_again_gets_a_new_age(tmp_path: Path) -> None:
    path = tmp_path / "queries.sqlite"
    for day in range(0, 300, 5):
        with QueryStore.open(path, clock=lambda: NOW + day * DAY) as store:  # noqa: B023
            store.give_consent()
            store.add("how to knit")
            if day % 50 == 0:
                rounds = rounds_file(tmp_path, NOW + day * DAY)
        assert rounds.exists()


@given(st.lists(st.tuples(times, st.booleans())), st.floats(1.0, 1e9))
def test_age_never_shrinks_and_never_leaps(clock: list[tuple[float, bool]], most: float) -> None:
    age = Age()
    for now, opening in clock:
        later = age.at(now, most, opening=opening)
        assert (
            age.seconds <= later.seconds <= (age.seconds + 2 * HOUR + max(DAY, most)) * (1 + 1e-12)
        )
        age = later


excursions = st.lists(
    st.tuples(
        st.floats(0.0, 3 * DAY),  # time that really passes
        st.one_of(st.floats(-1e9, -1.0), st.floats(1.0, 1e9)),  # how wrong the clock is then
        st.lists(st.floats(0.0, 0.3 * DAY), min_size=1, max_size=3),  # readings of the wrong clock
    ),
    max_size=6,
)


@settings(deadline=None)
@given(excursions)
def test_a_wandering_clock_ages_by_a_day(
    found: list[tuple[float, float, list[float]]],
) -> None:
    true, age = NOW, Age().at(NOW, HALF)
    read = 0
    for passed, wrong, steps in found:
        true += passed
        age = age.at(true, HALF)
        for step in steps:
            true += step
            age = age.at(true + wrong, HALF)
        age = age.at(true, HALF)
        read += 2 + len(steps)
        assert age.seconds <= true - NOW + DAY + read * HOUR


@settings(max_examples=12, deadline=None)
@given(excursions, st.sampled_from([0.0, 2 * DAY, 30 * DAY, 1e9]))
def test_no_wrong_clock_loses_what_is_new_or_keeps_what_is_old(
    tmp_path_factory: pytest.TempPathFactory,
    found: list[tuple[float, float, list[float]]],
    ahead: float,
) -> None:
    now = NOW + ahead  # when the store is made
    path: Path = tmp_path_factory.mktemp("aging") / "queries.sqlite"
    with QueryStore.open(path, clock=lambda: now) as store:
        store.give_consent()
        store.add("first")
        true = NOW
        for number, (passed, wrong, steps) in enumerate(found):
            true = now = true + passed
            store.add(f"query {number}")
            for step in steps:
                true += step
                now = true + wrong
                store.add(f"query {number} while the clock was wrong")
            now = true
            store.add("another")
        assert len(store) == 1 + sum(2 + len(steps) for _, _, steps in found)
        for _ in range(45 if ahead else 32):  # and then the clock is right
            now += 3 * DAY
            store.add("another")
        assert {example.query for example in store.examples()} == {"another"}

from __future__ import annotations

import numpy as np
import pytest

from pocketquery.sdk.errors import InvalidInputError
from pocketquery.server.evaluation import bootstrap_difference, bootstrap_ratio

RNG = np.random.default_rng(0)
THEIRS = RNG.uniform(0, 1, 200)
NOISE = RNG.normal(0, 0.1, 200)


def test_equal_systems_have_a_ratio_of_exactly_one() -> None:
    interval = bootstrap_ratio([(THEIRS, THEIRS)])
    assert (interval.estimate, interval.low, interval.high) == (1, 1, 1)


def test_a_constant_factor_is_found_without_spread() -> None:
    interval = bootstrap_ratio([(0.9 * THEIRS, THEIRS)])
    assert interval.low == pytest.approx(0.9)
    assert interval.high == pytest.approx(0.9)


def test_the_difference_is_that_of_normal_theory() -> None:
    ours = THEIRS + NOISE
    interval = bootstrap_difference([(ours, THEIRS)])
    half = 1.96 * NOISE.std() / np.sqrt(200)
    assert interval.estimate == pytest.approx(NOISE.mean())
    assert interval.low == pytest.approx(NOISE.mean() - half, abs=0.1 * half)
    assert interval.high == pytest.approx(NOISE.mean() + half, abs=0.1 * half)


def test_pairing_counts() -> None:
    ours = THEIRS + NOISE
    paired = bootstrap_difference([(ours, THEIRS)])
    shuffled = bootstrap_difference([(RNG.permutation(ours), THEIRS)])
    assert paired.high - paired.low < 0.5 * (shuffled.high - shuffled.low)


def test_collections_are_averaged() -> None:
    pairs = [(0.8 * THEIRS, THEIRS), (np.ones(30), np.ones(30))]
    assert bootstrap_ratio(pairs).estimate == pytest.approx(0.9)
    assert bootstrap_difference(pairs).estimate == pytest.approx(-0.1 * THEIRS.mean())


def test_equal_seeds_give_equal_intervals() -> None:
    pairs = [(THEIRS + NOISE, THEIRS)]
    first = bootstrap_ratio(pairs, samples=500, seed=3)
    assert first == bootstrap_ratio(pairs, samples=500, seed=3)
    assert first != bootstrap_ratio(pairs, samples=500, seed=4)


def test_ninety_five_percent_of_the_intervals_hold_the_truth() -> None:
    rng = np.random.default_rng(1)
    held = 0
    for trial in range(200):
        theirs = rng.uniform(0, 1, 100)
        interval = bootstrap_difference(
            [(theirs + rng.normal(0.05, 0.2, 100), theirs)], samples=300, seed=trial
        )
        held += interval.low <= 0.05 <= interval.high
    assert 0.89 <= held / 200 <= 0.99


@pytest.mark.parametrize(
    ("pairs", "found"),
    [
        ([], "no collections"),
        ([(np.ones(3), np.ones(4))], r"shapes \(3,\) and \(4,\)"),
        ([(np.ones(0), np.ones(0))], r"shapes \(0,\)"),
        ([(np.ones(3), np.zeros(3))], "mean 0"),
    ],
)
def test_what_cannot_be_compared_is_refused(
    pairs: list[tuple[np.ndarray[tuple[int], np.dtype[np.float64]], ...]], found: str
) -> None:
    with pytest.raises(InvalidInputError, match=found):
        bootstrap_ratio(pairs)  # type: ignore[arg-type]

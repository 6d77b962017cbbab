"""Discrete Gaussian noise: its law, its bookkeeping, and that a secret decides it."""

from __future__ import annotations

import itertools
import math
from bisect import bisect_right
from fractions import Fraction
from hashlib import sha256

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketquery.client.private.encoding import Encoding, choose_encoding
from pocketquery.client.private.masks import Keystream
from pocketquery.client.private.noise import Table, counted_on, delta, draw, rho, sigma
from pocketquery.sdk.errors import InvalidInputError

SMALL = Encoding(2304, 32, 10, 0.0125, 1.0)
WORD = 2**64


class Fixed(Keystream):
    """Gives the words it was made with."""

    def __init__(self, values: list[int]) -> None:
        super().__init__(bytes(32))
        self._values = b"".join(v.to_bytes(8, "little") for v in values)

    def read(self, size: int) -> bytes:
        assert size == len(self._values)
        return self._values


def stream(name: object) -> Keystream:
    return Keystream(sha256(f"{name}".encode()).digest())


def density(deviation: float, reach: int) -> list[float]:
    whole = [math.exp(-(k**2) / (2 * deviation**2)) for k in range(-reach, reach + 1)]
    return [value / math.fsum(whole) for value in whole]


def test_known_answers() -> None:
    assert delta(SMALL) == pytest.approx(1.000774, abs=5e-7)
    assert delta(SMALL) / SMALL.step == pytest.approx(1024.79, abs=5e-3)
    assert counted_on(1000) == 640
    assert sigma(2.0, SMALL, 640) == pytest.approx(81.017, abs=5e-4)
    # opendp 0.16 of 81.017 * sqrt(640) and 1,024.79 steps says .1249993.
    assert rho(2.0, SMALL, 640) == pytest.approx(0.1249993, rel=1e-5)
    assert rho(2.4, SMALL, 640) == pytest.approx(1 / (2 * 2.4**2), rel=1e-12)


@pytest.mark.parametrize(("group", "expected"), [(100, 64), (1000, 640), (20, 12), (3, 1)])
def test_two_thirds_of_a_group_are_counted_on(group: int, expected: int) -> None:
    assert counted_on(group) == expected


def test_rho_pays_for_noise_that_is_too_coarse() -> None:
    """The theorem's formula with the terms in another order, where they matter."""
    m, z = 50, 0.005
    deviation = sigma(z, SMALL, m)
    tau = 10 * math.fsum(
        math.exp(-2 * math.pi**2 * deviation**2 * j / (j + 1)) for j in reversed(range(1, m))
    )
    first = math.sqrt(1 / z**2 + tau * 2304 / 2)
    second = 1 / z + tau * math.sqrt(2304)
    assert tau > 1e-3
    assert rho(z, SMALL, m) == pytest.approx(min(first, second) ** 2 / 2, rel=1e-9)
    assert rho(z, SMALL, m) > 1 / (2 * z**2)


def test_at_two_steps_the_discrete_sum_costs_nothing() -> None:
    z = 2.0 * math.sqrt(640) * SMALL.step / delta(SMALL)
    assert sigma(z, SMALL, 640) == pytest.approx(2.0)
    assert rho(z, SMALL, 640) == pytest.approx(1 / (2 * z * z), rel=1e-12)


@pytest.mark.parametrize("deviation", [2.0, 7.3, 80.0])
def test_the_table_is_the_law(deviation: float) -> None:
    table = Table.of(deviation)
    assert table.reach == math.ceil(13 * deviation)
    entries = [
        Fraction(int(high) * WORD + int(low), WORD**2)
        for high, low in zip(table.high, table.low, strict=True)
    ]
    entries = [Fraction(0), *entries, Fraction(1)]
    found = [float(right - left) for left, right in itertools.pairwise(entries)]
    expected = density(deviation, table.reach)
    assert found == pytest.approx(expected, rel=1e-9, abs=2.0**-125)
    mirrored = [float(a + b - 1) for a, b in zip(entries, reversed(entries), strict=True)]
    assert max(map(abs, mirrored)) < 2.0**-120


@pytest.mark.parametrize("deviation", [2.0, 7.3, 80.0])
def test_a_million_draws_follow_the_law(deviation: float) -> None:
    """Chi-squared over all values that a thousand draws are expected of; five standard errors."""
    count = 1_000_000
    table = Table.of(deviation)
    found = draw(table, stream(deviation), count)
    assert found.dtype == np.int64
    assert np.abs(found).max() <= table.reach
    observed = np.bincount(found + table.reach, minlength=2 * table.reach + 1)
    expected = count * np.array(density(deviation, table.reach))
    often = expected >= 10
    observed_all = np.append(observed[often], observed[~often].sum())
    expected_all = np.append(expected[often], expected[~often].sum())
    statistic = float(((observed_all - expected_all) ** 2 / expected_all).sum())
    degrees = int(often.sum())
    assert abs(statistic - degrees) < 5 * math.sqrt(2 * degrees)
    variance = float(np.square(found.astype(np.float64)).mean())
    assert variance == pytest.approx(deviation**2, rel=5 * math.sqrt(2 / count))
    assert abs(found.mean()) < 5 * deviation / math.sqrt(count)


def test_the_sum_of_640_has_the_variance_that_rho_counts_on() -> None:
    deviation = sigma(2.0, SMALL, 640)
    table = Table.of(deviation)
    count = 500
    total = np.zeros(count, np.int64)
    for device in range(640):
        total += draw(table, stream(f"device {device}"), count)
    variance = float(np.square(total.astype(np.float64)).mean())
    counted = (delta(SMALL) / SMALL.step) ** 2 / (2 * rho(2.0, SMALL, 640))
    assert variance == pytest.approx(counted, rel=5 * math.sqrt(2 / count))


def test_the_same_secret_draws_the_same() -> None:
    table = Table.of(80.0)
    first, again, other = (draw(table, stream(name), 100) for name in ("a", "a", "b"))
    assert first.tolist() == again.tolist()
    assert first.tolist() != other.tolist()
    assert first.tolist()[:40] == draw(table, stream("a"), 40).tolist()


words = st.sampled_from([0, 1, 2, WORD - 2, WORD - 1]) | st.integers(0, WORD - 1)


@given(
    st.lists(st.tuples(words, words), min_size=2, max_size=10),
    st.lists(st.tuples(words, words), min_size=1, max_size=10),
    st.data(),
)
def test_ties_of_the_upper_half_are_decided_by_the_lower(
    entries: list[tuple[int, int]], uniform: list[tuple[int, int]], data: st.DataObject
) -> None:
    """Against Python's own search in integers of 128 bits, at the entries themselves, too."""
    entries = sorted(entries)[: len(entries) // 2 * 2]
    uniform += data.draw(st.lists(st.sampled_from(entries), max_size=5))
    high, low = (np.array(part, np.uint64) for part in zip(*entries, strict=True))
    table = Table(2.0, len(entries) // 2, high, low)
    found = draw(table, Fixed([word for pair in uniform for word in pair]), len(uniform))
    expected = [bisect_right(entries, pair) - table.reach for pair in uniform]
    assert found.tolist() == expected


def test_the_ends_of_the_law_can_be_drawn() -> None:
    table = Table.of(2.0)
    assert draw(table, Fixed([0, 0, WORD - 1, WORD - 1]), 2).tolist() == [-26, 26]


@pytest.mark.parametrize("deviation", [0.0, -1.0, 1.99, 1e6, math.nan, math.inf])
def test_noise_outside_what_is_accounted_for_is_refused(deviation: float) -> None:
    with pytest.raises(InvalidInputError, match="standard deviation"):
        Table.of(deviation)


def test_every_chosen_encoding_has_a_table() -> None:
    for group in (20, 100, 1000, 10_000):
        for size in (2304, 36_864):
            found = choose_encoding(size, group, 1.0, 0.0125, 2.4)
            assert sigma(2.4, found, counted_on(group)) >= 2

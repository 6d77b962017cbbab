from __future__ import annotations

import math
import random
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

from pocketquery.sdk.errors import InvalidInputError
from pocketquery.server.federation.rounds.running_sum import MOST_BITS, RunningSum, fraction_bits

Vector = NDArray[np.float32]

vectors = hnp.arrays(np.float32, 3, elements=st.floats(-2, 2, width=32))
weights = st.floats(0.001, 256)
weighted = st.lists(st.tuples(vectors, weights), min_size=1, max_size=8)


def summed(items: list[tuple[Vector, float]], size: int = 3) -> RunningSum:
    total = RunningSum.empty(size)
    for values, weight in items:
        total = total.add(values, weight)
    return total


def vector(*values: float) -> Vector:
    return np.array(values, np.float32)


def same(left: RunningSum, right: RunningSum) -> bool:
    rest = (left.weight, left.count, left.reach) == (right.weight, right.count, right.reach)
    return rest and left.totals.tobytes() == right.totals.tobytes()


def test_a_mean_by_hand() -> None:
    total = summed([(vector(1, 2), 1.0), (vector(4, -1), 2.0)], size=2)
    assert total.mean().tolist() == [3.0, 0.0]
    assert total.count == 2


@given(weighted, st.randoms(use_true_random=False))
def test_the_order_does_not_matter_to_the_bit(
    items: list[tuple[Vector, float]], rng: random.Random
) -> None:
    shuffled = list(items)
    rng.shuffle(shuffled)
    assert same(summed(items), summed(shuffled))


@given(weighted, st.integers(0, 8))
def test_the_sum_of_two_parts_is_the_sum_of_all(
    items: list[tuple[Vector, float]], cut: int
) -> None:
    assert same(summed(items[:cut]).merge(summed(items[cut:])), summed(items))


@given(weighted)
def test_the_mean_is_the_exact_one_to_rounding(items: list[tuple[Vector, float]]) -> None:
    mean = summed(items).mean()
    total = sum((Fraction(weight) for _, weight in items), Fraction(0))
    for place in range(3):
        exact = sum(
            (Fraction(float(values[place])) * Fraction(weight) for values, weight in items),
            Fraction(0),
        )
        assert abs(Fraction(float(mean[place])) - exact / total) < Fraction(1, 2**25)


@given(weighted, st.sampled_from([0.25, 2.0, 8.0]))
def test_only_the_ratio_of_the_weights_matters(
    items: list[tuple[Vector, float]], scale: float
) -> None:
    scaled = [(values, weight * scale) for values, weight in items]
    np.testing.assert_allclose(summed(scaled).mean(), summed(items).mean(), rtol=1e-6, atol=1e-7)


@given(weighted)
def test_no_total_is_beyond_its_reach(items: list[tuple[Vector, float]]) -> None:
    total = summed(items)
    assert np.abs(total.totals).max() <= total.reach


@given(weighted)
def test_merging_all_at_once_is_merging_one_after_the_other(
    items: list[tuple[Vector, float]],
) -> None:
    parts = [RunningSum.of(values, weight) for values, weight in items]
    first = summed(items[:1])
    held = first.totals.copy()
    one_by_one = first
    for part in parts:
        one_by_one = one_by_one.merge(part)
    assert same(first.merge_all(parts), one_by_one)
    assert same(first.merge_all([]), first)
    assert (first.totals == held).all()


@given(
    hnp.arrays(np.float32, 40, elements=st.floats(-2, 2, width=32)),
    st.floats(0.001, 2.0**20),
    st.floats(0.0, 1.0),
)
def test_each_value_is_rounded_to_the_nearest_integer_half_to_even(
    values: Vector, weight: float, factor: float
) -> None:
    found = RunningSum.of(values, weight, factor)
    scale = found.weight * factor
    wanted = [round(float(value) * scale) for value in values]
    assert found.totals.tolist() == wanted
    assert max(map(abs, wanted)) <= found.reach


@pytest.mark.parametrize("bits", [24, 40])
def test_halves_are_rounded_to_even(bits: int) -> None:
    halves = np.array([0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 2.0**23 - 0.5], np.float32)
    for above in (0.0, 2.0**51):  # the last is beyond what is rounded by adding
        values = np.append(halves, above).astype(np.float64)
        found = RunningSum.of(values, 1.0, 2.0**-bits, bits=bits)
        assert found.totals.tolist() == [0, 2, 2, 0, -2, -2, 2**23, int(above)]


def test_adding_leaves_the_old_sum_as_it_was() -> None:
    empty = RunningSum.empty(2)
    one = empty.add(vector(1, 1), 1.0)
    one.add(vector(1, 1), 1.0)
    assert empty.count == 0
    assert not empty.totals.any()
    assert one.mean().tolist() == [1.0, 1.0]


def test_a_factor_scales_values_and_not_weight() -> None:
    total = RunningSum.empty(1).add(vector(8), 3.0, 0.25)
    assert total.mean().tolist() == [2.0]


def test_a_sum_that_could_overflow_is_refused_before_it_does() -> None:
    total = RunningSum.empty(1, MOST_BITS)
    for _ in range(31):  # 32 would be 2**63
        total = total.add(vector(-1024), 256.0)
    with pytest.raises(InvalidInputError, match="fewer bits"):
        total.add(vector(-1024), 256.0)
    assert total.totals.tolist() == [-31 * 2**58]
    with pytest.raises(InvalidInputError, match="fewer bits"):
        total.merge(total)


@given(st.floats(1.0, 2.0**38), st.integers(1, 50))
def test_bits_chosen_for_a_bound_never_overflow(bound: float, parts: int) -> None:
    total = RunningSum.empty(2, fraction_bits(bound))
    each = vector(1, -1)
    for _ in range(parts):
        total = total.add(each, bound / parts)
    np.testing.assert_allclose(total.mean(), each, rtol=1e-5)


def test_bits_are_bounded_at_either_end() -> None:
    assert fraction_bits(1.0) == MOST_BITS
    assert fraction_bits(math.ldexp(1, 30)) == 32
    with pytest.raises(InvalidInputError, match="lower clients_per_round"):
        fraction_bits(2.0**39)


def test_the_mean_of_nothing_and_a_sum_of_other_bits_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="no vector"):
        RunningSum.empty(1).mean()
    with pytest.raises(InvalidInputError, match="bits"):
        RunningSum.empty(1, 40).merge(RunningSum.empty(1, 30))

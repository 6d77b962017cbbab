from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

from pocketquery.sdk.errors import InvalidInputError
from pocketquery.server.federation.rounds import shards as module
from pocketquery.server.federation.rounds.running_sum import RunningSum
from pocketquery.server.federation.rounds.shards import Aggregation, combine, shard_of, trimmed

means_of_shards = hnp.arrays(
    np.float32, st.tuples(st.integers(3, 9), st.just(4)), elements=st.floats(-2, 2, width=32)
)


def shards_with(means: NDArray[np.float32]) -> list[RunningSum]:
    """One shard a row, of two equal updates each."""
    made = [RunningSum.empty(means.shape[1]) for _ in means]
    return [shard.add(row, 1.0).add(row, 1.0) for shard, row in zip(made, means, strict=True)]


@given(st.lists(st.tuples(st.integers(0, 4), st.floats(-1, 1), st.floats(0.01, 9)), min_size=1))
def test_the_mean_does_not_depend_on_the_shards_to_the_bit(
    updates: list[tuple[int, float, float]],
) -> None:
    many = [RunningSum.empty(1)] * 5
    one = RunningSum.empty(1)
    for shard, value, weight in updates:
        vector = np.array([value], np.float32)
        many[shard] = many[shard].add(vector, weight)
        one = one.add(vector, weight)
    assert combine(many, "mean").tobytes() == combine([one], "mean").tobytes()


@given(means_of_shards)
def test_the_median_is_numpys(means: NDArray[np.float32]) -> None:
    found = combine(shards_with(means), "median")
    np.testing.assert_allclose(found, np.median(means.astype(np.float64), axis=0), atol=1e-9)


@given(means_of_shards, st.floats(0, 0.49))
def test_the_trimmed_mean_is_that_of_the_sorted_middle(
    means: NDArray[np.float32], trim: float
) -> None:
    cut = max(1, int(trim * len(means)))
    if 2 * cut < len(means):
        middle = np.sort(means.astype(np.float64), axis=0)[cut : len(means) - cut].mean(axis=0)
        found = combine(shards_with(means), "trimmed_mean", trim)
        np.testing.assert_allclose(found, middle, atol=1e-9)


@pytest.mark.parametrize("aggregation", ["median", "trimmed_mean"])
@given(means=means_of_shards, seed=st.integers(0, 99))
def test_the_order_of_shards_does_not_matter(
    aggregation: Aggregation, means: NDArray[np.float32], seed: int
) -> None:
    shuffled = np.random.default_rng(seed).permutation(means)
    one, other = (combine(shards_with(rows), aggregation) for rows in (means, shuffled))
    assert one.tobytes() == other.tobytes()


@pytest.mark.parametrize("aggregation", ["median", "trimmed_mean"])
def test_a_hostile_shard_moves_the_mean_and_not_the_robust_ones(aggregation: Aggregation) -> None:
    honest = np.random.default_rng(0).normal(1, 0.1, (7, 3)).astype(np.float32)
    attacked = np.vstack([honest, np.full((1, 3), -1000, np.float32)])
    assert (combine(shards_with(attacked), "mean") < -100).all()
    found = combine(shards_with(attacked), aggregation)
    assert (found >= honest.min(axis=0)).all()
    assert (found <= honest.max(axis=0)).all()


def test_long_vectors_are_aggregated_slice_by_slice(monkeypatch: pytest.MonkeyPatch) -> None:
    means = np.random.default_rng(1).normal(size=(5, 23)).astype(np.float32)
    whole = combine(shards_with(means), "median")
    monkeypatch.setattr(module, "_SLICE", 4)
    assert combine(shards_with(means), "median").tobytes() == whole.tobytes()


def test_shards_without_updates_do_not_count() -> None:
    filled = shards_with(np.array([[1], [2], [9]], np.float32))
    assert combine([RunningSum.empty(1), *filled], "median").tolist() == [2.0]


def test_too_few_shards_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="at least 3"):
        combine(shards_with(np.array([[1], [2]], np.float32)), "median")
    with pytest.raises(InvalidInputError, match="no vector"):
        combine([RunningSum.empty(1)] * 2, "mean")


def test_at_least_one_shard_is_trimmed_and_one_is_left() -> None:
    assert [trimmed(count, 0.1) for count in (3, 4, 10, 30)] == [1, 1, 1, 3]
    assert [trimmed(count, 0.49) for count in (3, 4, 10)] == [1, 1, 4]


def test_nonces_are_dealt_evenly_and_by_the_seed() -> None:
    nonces = [f"{number:032x}" for number in range(3000)]
    counts = Counter(shard_of(nonce, 6, seed=1) for nonce in nonces)
    assert set(counts) == set(range(6))
    assert min(counts.values()) > 400
    moved = sum(shard_of(nonce, 6, seed=1) != shard_of(nonce, 6, seed=-2) for nonce in nonces)
    assert moved > 2000
    assert [shard_of(nonce, 1, seed=3) for nonce in nonces[:5]] == [0] * 5

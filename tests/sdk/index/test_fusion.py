from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pocketquery.sdk.index.search import fuse

SCORES = st.lists(
    st.tuples(st.floats(-1, 1, width=32), st.floats(0, 50, width=32)), min_size=1, max_size=30
)


def arrays(pairs: list[tuple[float, float]]) -> tuple[np.ndarray, np.ndarray]:
    dense, lexical = np.array(pairs, np.float32).T
    return dense, lexical


def test_hand_computed() -> None:
    fused = fuse(np.array([0.8, 0.4, 0.6], np.float32), np.array([0, 10, 5], np.float32))
    np.testing.assert_allclose(fused, [0.5, 0.5, 0.5], atol=1e-6)
    fused = fuse(np.array([0.8, 0.4, 0.4], np.float32), np.array([10, 5, 0], np.float32))
    np.testing.assert_allclose(fused, [1.0, 0.25, 0.0], atol=1e-6)


@given(SCORES)
def test_scores_lie_between_0_and_1(pairs: list[tuple[float, float]]) -> None:
    fused = fuse(*arrays(pairs))
    assert fused.shape == (len(pairs),)
    assert ((fused >= 0) & (fused <= 1)).all()


@given(SCORES)
def test_who_is_better_in_both_is_not_worse_fused(pairs: list[tuple[float, float]]) -> None:
    fused = fuse(*arrays(pairs))
    for i, (dense, lexical) in enumerate(pairs):
        for j, (other_dense, other_lexical) in enumerate(pairs):
            if dense >= other_dense and lexical >= other_lexical:
                assert fused[i] >= fused[j]


@given(SCORES, st.permutations(range(30)))
def test_order_does_not_matter(pairs: list[tuple[float, float]], shuffled: list[int]) -> None:
    order = [position for position in shuffled if position < len(pairs)]
    dense, lexical = arrays(pairs)
    np.testing.assert_array_equal(fuse(dense, lexical)[order], fuse(dense[order], lexical[order]))


def test_one_ranking_without_differences_leaves_the_other() -> None:
    dense = np.array([0.1, 0.9, 0.5], np.float32)
    assert np.argsort(-fuse(dense, np.zeros(3, np.float32))).tolist() == [1, 2, 0]


def test_no_candidates() -> None:
    assert fuse(np.zeros(0, np.float32), np.zeros(0, np.float32)).shape == (0,)

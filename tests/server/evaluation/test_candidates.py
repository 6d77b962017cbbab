"""Re-ranking metrics: hand-computed values, ties at chance, what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketquery.sdk.errors import InvalidInputError
from pocketquery.server.evaluation.candidates import score_candidates


def falling(relevance: list[int]) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Scores that keep the given order."""
    relevant = np.array(relevance, dtype=bool)
    return [-np.arange(len(relevant), dtype=np.float64)], [relevant]


def test_the_hand_computed_ranking() -> None:
    means = score_candidates(*falling([0, 1, 0, 1, 1])).means()
    assert means["p@1"] == 0
    assert means["p@5"] == pytest.approx(0.6)
    assert means["mrr"] == pytest.approx(0.5)
    assert means["map"] == pytest.approx(0.53333, abs=1e-5)


def test_precision_divides_by_k_even_where_there_are_fewer() -> None:
    assert score_candidates(*falling([1, 1])).means()["p@5"] == pytest.approx(0.4)


def test_queries_without_a_relevant_candidate_are_left_out_and_counted() -> None:
    scores, relevance = falling([1, 0])
    found = score_candidates([*scores, *scores], [*relevance, np.zeros(2, dtype=bool)])
    assert found.left_out == 1
    assert len(found.per_query["map"]) == 1


def test_constant_scores_rank_at_chance() -> None:
    relevance = [np.array([True] + [False] * 9)] * 4000
    found = score_candidates([np.zeros(10)] * 4000, relevance).means()
    assert found["p@1"] == pytest.approx(0.1, abs=0.02)


@given(st.lists(st.tuples(st.integers(-9, 9), st.booleans()), min_size=1, max_size=12))
def test_only_the_order_counts(rows: list[tuple[int, bool]]) -> None:
    scores = np.array([score for score, _ in rows], dtype=np.float64)
    relevant = np.array([r for _, r in rows])
    if not relevant.any():
        return
    one = score_candidates([scores], [relevant]).means()
    assert one == score_candidates([3 * scores + 7], [relevant]).means()
    assert all(0 <= value <= 1 for value in one.values())


@pytest.mark.parametrize(
    ("scores", "relevance", "message"),
    [
        (np.zeros(2), np.ones(3, dtype=bool), "one of each"),
        (np.array([np.nan, 1.0]), np.ones(2, dtype=bool), "NaN"),
        (np.zeros(2), np.zeros(2, dtype=bool), "no query"),
    ],
)
def test_bad_input_is_named(scores: np.ndarray, relevance: np.ndarray, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        score_candidates([scores], [relevance])

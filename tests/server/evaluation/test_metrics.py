from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketquery.server.evaluation import METRICS, Scores, score_rankings


def score(ranking: Sequence[str], grades: dict[str, int]) -> dict[str, float]:
    return score_rankings({"q": grades}, {"q": ranking}).means()


def test_binary_case_by_hand() -> None:
    # relevance 0, 1, 0, 1, 1 with three relevant documents
    found = score("abcde", {"b": 1, "d": 1, "e": 1})
    ideal = 1 + 1 / math.log2(3) + 1 / 2
    assert found["ndcg@10"] == pytest.approx(
        (1 / math.log2(3) + 1 / math.log2(5) + 1 / math.log2(6)) / ideal
    )
    assert found["ndcg@10"] == pytest.approx(0.67973, abs=1e-5)
    assert found["mrr@10"] == 0.5
    assert (found["recall@1"], found["recall@5"], found["recall@100"]) == (0, 1, 1)


def test_graded_case_by_hand_has_linear_gain() -> None:
    # grades 3, 2, 0, 1: 0.98544 with gain = grade, 0.99262 with gain = 2^grade - 1
    assert score("abcd", {"a": 3, "b": 2, "c": 0, "d": 1})["ndcg@10"] == pytest.approx(
        0.98544, abs=1e-5
    )


def test_cut_offs() -> None:
    ranking = [f"d{i}" for i in range(150)]
    found = score(ranking, {"d10": 1, "d19": 1, "d20": 1, "d99": 1, "d100": 1})
    assert found["ndcg@10"] == 0
    assert found["mrr@10"] == 0
    assert found["recall@20"] == pytest.approx(2 / 5)
    assert found["recall@100"] == pytest.approx(4 / 5)


def test_the_ideal_counts_relevant_documents_that_were_not_found() -> None:
    found = score(["a"], {"a": 1, "b": 1})
    assert found["ndcg@10"] == pytest.approx(1 / (1 + 1 / math.log2(3)))
    assert found["recall@100"] == 0.5


def test_queries_without_a_ranking_score_zero_and_count() -> None:
    judgements = {"1": {"a": 1}, "2": {"a": 1}, "3": {"a": 1}}
    scores = score_rankings(judgements, {"1": ["a"], "2": [], "9": ["a"]})
    assert scores.query_ids == ("1", "2", "3")
    assert scores.per_query["mrr@10"].tolist() == [1, 0, 0]
    assert scores.means()["mrr@10"] == pytest.approx(1 / 3)


def test_grades_of_zero_and_below_are_not_relevant() -> None:
    found = score("ab", {"a": -1, "b": 1, "c": 0})
    assert found["mrr@10"] == 0.5
    assert found["recall@1"] == 0
    assert found["recall@5"] == 1


def test_average_over_runs() -> None:
    runs = [Scores(("1", "2"), {"m": np.array([a, 1.0])}) for a in (0.0, 0.5)]
    assert Scores.average(runs).per_query["m"].tolist() == [0.25, 1.0]


@given(
    st.permutations([f"d{i}" for i in range(12)]),
    st.dictionaries(
        st.sampled_from([f"d{i}" for i in range(15)]), st.integers(1, 4), min_size=1, max_size=15
    ),
)
def test_agrees_with_the_definitions(ranking: list[str], grades: dict[str, int]) -> None:
    found = score(ranking, grades)
    gains = [grades.get(document, 0) for document in ranking[:10]]
    best = sorted(grades.values(), reverse=True)[:10]
    first = next((rank for rank, gain in enumerate(gains, 1) if gain), math.inf)
    assert found["ndcg@10"] == pytest.approx(discounted(gains) / discounted(best))
    assert found["mrr@10"] == pytest.approx(1 / first)
    for k in (1, 5, 20, 100):
        hits = sum(document in grades for document in ranking[:k])
        assert found[f"recall@{k}"] == pytest.approx(hits / len(grades))
    assert set(found) == set(METRICS)


def discounted(gains: Sequence[int]) -> float:
    return sum(gain / math.log2(rank + 1) for rank, gain in enumerate(gains, 1))

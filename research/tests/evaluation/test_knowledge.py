"""Knowledge retrieval: questions and entries counted, ties, what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from pocketquery.sdk.errors import InvalidInputError
from pocketquery_research.evaluation.knowledge import hits_at

QUESTIONS = np.array([[1.0, 0.0], [0.9, 0.1], [0.8, 0.2], [0.0, 1.0]], dtype=np.float32)
ENTRIES = ["a", "a", "b", "c"]
QUERY = np.array([[1.0, 0.0]], dtype=np.float32)


@pytest.mark.parametrize(
    ("k", "entry", "distinct", "hit"),
    [
        (1, "a", False, 1),
        (2, "b", False, 0),
        (3, "b", False, 1),
        (2, "b", True, 1),
        (2, "c", True, 0),
    ],
)
def test_k_counts_questions_or_distinct_entries(
    k: int, entry: str, distinct: bool, hit: int
) -> None:
    assert hits_at(k, QUERY, [entry], QUESTIONS, ENTRIES, distinct=distinct).tolist() == [hit]


def test_an_entry_without_a_question_is_never_hit() -> None:
    assert hits_at(4, QUERY, ["z"], QUESTIONS, ENTRIES).tolist() == [0]


def test_one_vector_for_all_hits_at_chance() -> None:
    questions = np.ones((10, 2), dtype=np.float32)
    entries = [str(i) for i in range(10)]
    hits = [
        hits_at(1, questions, entries, questions, entries, seed=seed).mean() for seed in range(200)
    ]
    assert np.mean(hits) == pytest.approx(0.1, abs=0.01)


def test_bad_input_is_named() -> None:
    with pytest.raises(InvalidInputError, match="k is 0"):
        hits_at(0, QUERY, ["a"], QUESTIONS, ENTRIES)
    with pytest.raises(InvalidInputError, match="4 question vectors have 1"):
        hits_at(1, QUERY, ["a"], QUESTIONS, ["a"])

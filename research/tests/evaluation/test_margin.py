"""The margin: by hand, against the plain loop, its error, and what it does not depend on."""

from __future__ import annotations

import numpy as np
import pytest

from pocketquery.sdk.arrays import Floats
from pocketquery.sdk.errors import InvalidInputError
from pocketquery_research.evaluation.margin import TRIPLES, margin


def vectors(*shape: int, seed: int = 0) -> Floats:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def unit(rows: Floats) -> Floats:
    scaled: Floats = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
    return scaled


def test_a_query_on_its_positive_and_across_its_negative_has_margin_one() -> None:
    found = margin(np.eye(2, dtype=np.float32), np.eye(2, dtype=np.float32), [[0], [1]], [[1], [0]])
    assert found.margin == 1
    assert found.standard_error == 0
    assert found.positive_share == 1
    assert found.triples == TRIPLES == 32768
    assert found.queries == 2
    # The cosine of a query and a document at random is 0 or 1, evenly: its deviation is 1/2.
    assert found.standardized == pytest.approx(2, abs=0.01)


def test_the_margin_of_all_triples_is_what_the_drawn_ones_come_to() -> None:
    queries, documents = vectors(20, 8), vectors(50, 8, seed=1)
    rng = np.random.default_rng(2)
    positives = [list(rng.choice(25, rng.integers(1, 4), replace=False)) for _ in range(20)]
    negatives = [list(rng.choice(range(25, 50), 3, replace=False)) for _ in range(20)]
    cosines = unit(queries) @ unit(documents).T
    exact, share = [], []
    for row in range(20):
        differences = [
            cosines[row, p] - cosines[row, n] for p in positives[row] for n in negatives[row]
        ]
        exact.append(np.mean(differences))
        share.append(np.mean(np.array(differences) > 0))
    found = margin(queries, documents, positives, negatives)
    assert found.margin == pytest.approx(np.mean(exact), abs=0.01)
    assert found.positive_share == pytest.approx(np.mean(share), abs=0.01)
    assert found.standardized == pytest.approx(np.mean(exact) / cosines.std(), abs=0.03)
    # Its error is that of a mean over 20 queries, not over 32,768 triples.
    assert found.standard_error == pytest.approx(np.std(exact) / 20**0.5, rel=0.15)
    assert margin(5 * queries, 0.3 * documents, positives, negatives).margin == pytest.approx(
        found.margin, abs=1e-6
    )
    assert margin(queries, documents, positives, negatives) == found
    assert margin(queries, documents, positives, negatives, seed=1) != found


def test_a_narrower_space_has_a_lower_margin_and_the_same_standardized_one() -> None:
    queries, documents = unit(vectors(200, 8)), vectors(400, 8, seed=1)
    documents[:200] += queries
    # One coordinate more, the same for all: every cosine c becomes (c + 9) / 10.
    cone = np.concatenate([queries, np.full((200, 1), 3, np.float32)], axis=1)
    narrow = np.concatenate([unit(documents), np.full((400, 1), 3, np.float32)], axis=1)
    positives, negatives = [[i] for i in range(200)], [[i + 200] for i in range(200)]
    wide_margin = margin(queries, documents, positives, negatives)
    narrow_margin = margin(cone, narrow, positives, negatives)
    assert narrow_margin.margin == pytest.approx(wide_margin.margin / 10, rel=1e-4)
    assert narrow_margin.standardized == pytest.approx(wide_margin.standardized, rel=1e-3)


def test_a_collapsed_encoder_separates_nothing() -> None:
    same = np.ones((4, 3), np.float32)
    found = margin(same, same, [[0]] * 4, [[1]] * 4)
    assert (found.margin, found.positive_share, found.standardized) == (0, 0, 0)


def test_queries_without_positive_or_negative_are_left_out() -> None:
    documents = np.array([[1, 0], [0, 1]], np.float32)
    queries = np.array([[1, 0], [0, 1], [-1, 0]], np.float32)
    found = margin(queries, documents, [[0], [], [0]], [[1], [0], []])
    assert found.queries == 1
    assert found.margin == 1


def test_what_does_not_fit_is_refused() -> None:
    q = np.eye(2, dtype=np.float32)
    with pytest.raises(InvalidInputError, match="no query has both"):
        margin(q, q, [[0], [1]], [[], []])
    with pytest.raises(InvalidInputError, match="expected one of each a query"):
        margin(q, q, [[0]], [[1], [0]])
    with pytest.raises(InvalidInputError, match="shape"):
        margin(q, np.ones((2, 3), np.float32), [[0], [1]], [[1], [0]])

from __future__ import annotations

import numpy as np
import pytest

from pocketquery.server.evaluation import rank_exactly
from pocketquery.server.evaluation.ranking import without_excluded


def test_ranks_by_inner_product() -> None:
    rng = np.random.default_rng(0)
    queries = rng.normal(size=(700, 8)).astype(np.float32)  # more than one block
    documents = rng.normal(size=(50, 8)).astype(np.float32)
    ids = [f"d{i}" for i in range(50)]
    found = rank_exactly(queries, documents, ids, 10)
    for query, ranking in zip(queries, found, strict=True):
        expected = np.argsort(-(documents @ query))[:10]
        assert ranking == [ids[i] for i in expected]


def test_a_collapsed_encoder_ranks_at_chance() -> None:
    constant = np.ones((20, 4), dtype=np.float32)
    ids = [str(i) for i in range(20)]
    firsts = [rank_exactly(constant[:1], constant, ids, 20, seed=s)[0][0] for s in range(400)]
    assert firsts.count("0") / 400 == pytest.approx(1 / 20, abs=0.04)
    again = rank_exactly(constant[:1], constant, ids, 20, seed=1)
    assert again == rank_exactly(constant[:1], constant, ids, 20, seed=1)
    assert sorted(again[0], key=int) == ids


def test_depth_beyond_the_documents() -> None:
    vectors = np.eye(3, dtype=np.float32)
    assert rank_exactly(vectors[:1], vectors, ["a", "b", "c"], 100)[0][0] == "a"
    assert len(rank_exactly(vectors[:1], vectors, ["a", "b", "c"], 100)[0]) == 3


def test_excluded_pairs_leave_the_ranking_of_their_query_only() -> None:
    excluded = frozenset({("1", "b")})
    assert without_excluded("1", ["a", "b", "c", "d"], excluded, 3) == ["a", "c", "d"]
    assert without_excluded("2", ["a", "b", "c", "d"], excluded, 3) == ["a", "b", "c"]

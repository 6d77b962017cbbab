from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from pocketquery.server.corpus.mining import rankers
from pocketquery.server.corpus.mining.rankers import Bm25Ranker, DenseRanker


def test_bm25_ranks_as_its_formula_does(monkeypatch: pytest.MonkeyPatch) -> None:
    passages = ["alpha beta alpha", "beta gamma", "gamma gamma gamma delta", "epsilon"]
    # With k1 = 1.2, b = 0.75 and a fourth passage that has none of the terms:
    # "alpha" is in one passage, "gamma" in two, so that the first passage is before the third.
    for segment in (10_000, 2):
        monkeypatch.setattr(rankers, "_SEGMENT", segment)
        found = Bm25Ranker(passages).rank(["alpha gamma", "delta", "zeta", ""], 10)
        assert [rows.tolist() for rows in found] == [[0, 2, 1], [2], [], []]


def test_bm25_stops_at_the_depth_and_knows_scripts_without_spaces() -> None:
    ranker = Bm25Ranker(["東京の大学", "京都の大学", "大阪"])
    assert [rows.tolist() for rows in ranker.rank(["東京", "大学"], 1)] == [[0], [0]]


@pytest.mark.parametrize("depth", [1, 4, 20, 100])
def test_the_dense_ranker_is_exact_and_ties_keep_the_order(depth: int) -> None:
    rng = np.random.default_rng(0)
    vectors = {
        name: np.round(rng.normal(size=(count, 3)), 1).astype(np.float32)
        for name, count in (("q", 600), ("p", 50))
    }

    def encode(texts: Sequence[str]) -> NDArray[np.float32]:
        return np.stack([vectors[text[0]][int(text[1:])] for text in texts])

    ranker = DenseRanker(encode, encode, [f"p{n}" for n in range(50)])
    found = list(ranker.rank([f"q{n}" for n in range(600)], depth))
    scores = vectors["q"] @ vectors["p"].T
    expected = np.argsort(-scores, axis=1, kind="stable")[:, :depth]
    assert len(found) == 600
    assert all(rows.tolist() == best.tolist() for rows, best in zip(found, expected, strict=True))


def test_no_passages() -> None:
    assert [rows.tolist() for rows in Bm25Ranker([]).rank(["a"], 5)] == [[]]

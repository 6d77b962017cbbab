"""Scores of every system on every test, item by item, and what is told of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from language_journey.encoders import SYSTEMS, Encoders
from language_journey.sets import Test
from numpy.typing import NDArray

from pocketquery.server.corpus.mining.rankers import Bm25Ranker
from pocketquery.server.evaluation import bootstrap_difference, rank_exactly, score_rankings

__all__ = ["GAINS", "Scores", "figures", "score"]

GAINS = {
    "mlm_over_random": ("mlm", "random"),
    "auto_mlm_over_mlm": ("auto_mlm", "mlm"),
    "ccp_over_mlm": ("ccp", "mlm"),
    "ccp_over_auto_mlm": ("ccp", "auto_mlm"),
    "ccp_over_random": ("ccp", "random"),
    "calibrated_over_ccp": ("ccp_calibrated", "ccp"),
    "calibrated_over_random": ("ccp_calibrated", "random_calibrated"),
    "rotated_over_calibrated": ("ccp_rotated", "ccp_calibrated"),
    "ccp_over_bm25": ("ccp", "bm25"),
    "bundle_over_ccp": ("bundle", "ccp"),
}
"""Differences that are told, each with its paired interval."""

_DEPTH = 10
_SAMPLES = 1000  # of the bootstrap

Scores = NDArray[np.float64]
"""Of every query."""


def score(test: Test, system: str, encoders: Encoders) -> Scores:
    """nDCG@10 or accuracy of every query, float64 (queries,)."""
    most = max(map(len, test.excluded), default=0)
    if system == "bm25":
        ranker = Bm25Ranker(test.documents)
        found = [list(map(int, rows)) for rows in ranker.rank(test.queries, _DEPTH + most)]
    else:
        found = _nearest(test, system, encoders, _DEPTH + most)
    excluded = test.excluded or [frozenset[int]()] * len(test.queries)
    rankings = [
        [row for row in rows if row not in out][:_DEPTH]
        for rows, out in zip(found, excluded, strict=True)
    ]
    if test.metric == "accuracy":
        right = [
            bool(rows) and rows[0] in own for rows, own in zip(rankings, test.right, strict=True)
        ]
        return np.array(right, dtype=np.float64)
    judgements = {str(query): {str(row): 1 for row in own} for query, own in enumerate(test.right)}
    named = {str(query): [str(row) for row in rows] for query, rows in enumerate(rankings)}
    return score_rankings(judgements, named).per_query["ndcg@10"]


def _nearest(test: Test, system: str, encoders: Encoders, depth: int) -> list[list[int]]:
    queries = encoders.vectors(system, test.queries, test.asked_in, queries=True)
    documents = encoders.vectors(system, test.documents, test.written_in)
    names = [str(row) for row in range(len(documents))]
    return [[int(name) for name in one] for one in rank_exactly(queries, documents, names, depth)]


def figures(test: Test, scores: Mapping[str, Scores]) -> dict[str, Any]:
    """The mean of every system with its interval, and the differences of :data:`GAINS`."""
    return {
        "metric": test.metric,
        "queries": len(test.queries),
        "candidates": len(test.documents),
        "chance": round(_chance(test), 4),
        "systems": {
            name: _interval(scores[name], np.zeros_like(scores[name]))
            for name in SYSTEMS
            if name in scores
        },
        "gains": {
            name: _interval(scores[one], scores[other])
            for name, (one, other) in GAINS.items()
            if one in scores and other in scores
        },
    }


def _interval(ours: Scores, theirs: Scores) -> list[float]:
    """Mean difference, and the ends of its interval of 95 %."""
    found = bootstrap_difference([(ours, theirs)], samples=_SAMPLES)
    return [round(value, 4) for value in (found.estimate, found.low, found.high)]


def _chance(test: Test) -> float:
    """The mean score of candidates in random order."""
    discounts = 1 / np.log2(np.arange(2, _DEPTH + 2))
    found = []
    for row, own in enumerate(test.right):
        pool = len(test.documents) - (len(test.excluded[row]) if test.excluded else 0)
        share = len(own) / pool
        ideal = discounts[: min(len(own), _DEPTH)].sum()
        found.append(share if test.metric == "accuracy" else share * discounts.sum() / ideal)
    return float(np.mean(found))

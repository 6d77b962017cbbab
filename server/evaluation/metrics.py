"""Retrieval metrics of rankings, query by query, computed by ir_measures (trec_eval)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pocketquery.sdk.errors import MissingExtraError
from pocketquery.server.corpus import Judgements

__all__ = ["METRICS", "DEPTH", "Scores", "score_rankings"]

_MEASURES = {  # our names -> those of ir_measures
    "ndcg@10": "nDCG@10",
    "mrr@10": "RR@10",
    "recall@1": "R@1",
    "recall@5": "R@5",
    "recall@20": "R@20",
    "recall@100": "R@100",
}

METRICS = tuple(_MEASURES)
"""Names of the metrics, in the order they are shown."""

DEPTH = 100
"""How many documents of a ranking the metrics look at."""


@dataclass(frozen=True)
class Scores:
    """Scores of one system; ``per_query[metric]`` is float64 (queries,) in ``query_ids``' order."""

    query_ids: tuple[str, ...]
    per_query: Mapping[str, NDArray[np.float64]]

    def means(self) -> dict[str, float]:
        """The mean over the queries of every metric."""
        return {metric: float(values.mean()) for metric, values in self.per_query.items()}

    @classmethod
    def average(cls, runs: Sequence[Scores]) -> Scores:
        """The scores averaged over runs of the same queries (as over seeds of noise)."""
        per_query = {
            metric: np.mean([run.per_query[metric] for run in runs], axis=0)
            for metric in runs[0].per_query
        }
        return cls(runs[0].query_ids, per_query)


def score_rankings(judgements: Judgements, rankings: Mapping[str, Sequence[str]]) -> Scores:
    """Score rankings (query id -> document ids, best first) against judgements.

    Every judged query counts; one without a ranking, or with an empty one, scores 0. Position is
    all that is scored, so ties must have been broken before. Gains of nDCG are the grades
    themselves (the convention of trec_eval and BEIR; not 2^grade - 1). It discounts by log2(rank +
    1), and its ideal is made of all judged documents. MRR is the reciprocal rank of the first
    relevant document, 0 below rank 10; recall divides by all relevant documents. Relevant: grade
    above 0.

    Raises:
        MissingExtraError: ir_measures is not installed.

    Source: Järvelin and Kekäläinen, "Cumulated gain-based evaluation of IR techniques" (2002);
    MacAvaney, Macdonald and Ounis, "Streamlining Evaluation with ir-measures" (2022).
    """
    query_ids = tuple(judgements)
    rows = {query: row for row, query in enumerate(query_ids)}
    run = {
        query: {document: float(-rank) for rank, document in enumerate(ranking)}
        for query, ranking in rankings.items()
        if query in rows
    }
    try:
        import ir_measures
    except ImportError as error:
        raise MissingExtraError.of("ir_measures", "server") from error
    names = {ir_measures.parse_measure(theirs): ours for ours, theirs in _MEASURES.items()}
    per_query = {name: np.zeros(len(query_ids)) for name in METRICS}
    for score in ir_measures.iter_calc(list(names), judgements, run):
        per_query[names[score.measure]][rows[score.query_id]] = score.value
    return Scores(query_ids, per_query)

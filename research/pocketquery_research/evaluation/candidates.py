"""Re-ranking given candidates: MAP, MRR and precision, query by query.

The protocol of AskUbuntu and SemEval (Lei et al., "Semi-supervised Question Retrieval with Gated
Convolutions", 2016): each query comes with the candidates of a first-stage ranker, each relevant or
not; queries without a relevant candidate are left out and counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pocketquery.sdk.errors import InvalidInputError

__all__ = ["CANDIDATE_METRICS", "CandidateScores", "score_candidates"]

CANDIDATE_METRICS = ("map", "mrr", "p@1", "p@5")


@dataclass(frozen=True)
class CandidateScores:
    """Scores of one system.

    Attributes:
        per_query: metric -> float64 (queries,), of the queries with a relevant candidate, in order.
        left_out: queries without one.
    """

    per_query: dict[str, NDArray[np.float64]]
    left_out: int

    def means(self) -> dict[str, float]:
        """The mean over the queries of every metric."""
        return {metric: float(values.mean()) for metric, values in self.per_query.items()}


def score_candidates(
    scores: Sequence[NDArray[np.floating]],
    relevance: Sequence[NDArray[np.bool_]],
    *,
    seed: int = 0,
) -> CandidateScores:
    """Rank each query's candidates by falling score and measure the ranking.

    With r_i the relevance at rank i of n and R the number of relevant candidates: MAP is the mean
    over relevant ranks of (r_1 + ... + r_i) / i, divided by R; MRR the reciprocal rank of the first
    relevant one; P@k is (r_1 + ... + r_k) / k, divided by k even where there are fewer candidates.
    Ties are broken by a seeded shuffle of the candidates: constant scores rank at chance.

    Args:
        scores: float (candidates,) for each query.
        relevance: bool (candidates,) for each query.
        seed: of the shuffle.

    Raises:
        InvalidInputError: shapes differ, a score is NaN, or no query has a relevant candidate.
    """
    rng = np.random.default_rng(seed)
    measures: list[tuple[float, ...]] = []
    for number, (values, relevant) in enumerate(zip(scores, relevance, strict=True)):
        _check(number, values, relevant)
        order = rng.permutation(len(values))
        ranked = relevant[order][np.argsort(-values[order], kind="stable")]
        if ranked.any():
            measures.append(_measure(ranked))
    if not measures:
        raise InvalidInputError("no query has a relevant candidate; expected judgements with some")
    columns = np.array(measures).T  # (metrics, queries)
    per_query = dict(zip(CANDIDATE_METRICS, columns, strict=True))
    return CandidateScores(per_query, len(scores) - len(measures))


def _measure(ranked: NDArray[np.bool_]) -> tuple[float, ...]:
    precision = ranked.cumsum() / np.arange(1, len(ranked) + 1)  # at every rank
    average = float(precision[ranked].mean())
    reciprocal = 1.0 / float(np.argmax(ranked) + 1)
    return average, reciprocal, float(ranked[0]), float(ranked[:5].sum() / 5)


def _check(number: int, values: NDArray[np.floating], relevant: NDArray[np.bool_]) -> None:
    if values.shape != relevant.shape or values.ndim != 1:
        raise InvalidInputError(
            f"query {number} has scores of shape {values.shape} and relevance of shape "
            f"{relevant.shape}; expected one of each for every candidate"
        )
    if np.isnan(values).any():
        raise InvalidInputError(f"query {number} has a score that is NaN; expected numbers")

"""Measuring retrieval: metrics, intervals, and a bundle beside its teacher and BM25."""

from pocketquery.client.bootstrap import (
    Interval,
    bootstrap_difference,
    bootstrap_ratio,
)
from pocketquery.server.evaluation.document_vectors import encode_documents
from pocketquery.server.evaluation.metrics import DEPTH, METRICS, Scores, score_rankings
from pocketquery.server.evaluation.ranking import rank_exactly
from pocketquery.server.evaluation.retrieval import (
    Evaluation,
    QueryEncoder,
    evaluate,
    mistyped,
    temporary_index,
)

__all__ = [
    "evaluate",
    "Evaluation",
    "QueryEncoder",
    "encode_documents",
    "temporary_index",
    "mistyped",
    "rank_exactly",
    "score_rankings",
    "Scores",
    "METRICS",
    "DEPTH",
    "bootstrap_ratio",
    "bootstrap_difference",
    "Interval",
]

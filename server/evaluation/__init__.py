"""Measuring retrieval: metrics, intervals, and a bundle beside its teacher and BM25."""

from pocketquery.client.bootstrap import (
    Interval,
    bootstrap_difference,
    bootstrap_ratio,
)
from pocketquery.server.evaluation.candidates import CandidateScores, score_candidates
from pocketquery.server.evaluation.document_vectors import encode_documents
from pocketquery.server.evaluation.duplicate_pairs import (
    DuplicatePair,
    read_duplicate_pairs,
    split_duplicates,
)
from pocketquery.server.evaluation.duplicates import (
    DuplicateReport,
    pair_scores,
    score_duplicates,
)
from pocketquery.server.evaluation.knowledge import hits_at
from pocketquery.server.evaluation.margin import Margin, margin
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
    "score_candidates",
    "CandidateScores",
    "hits_at",
    "score_duplicates",
    "DuplicateReport",
    "pair_scores",
    "read_duplicate_pairs",
    "split_duplicates",
    "DuplicatePair",
    "margin",
    "Margin",
]

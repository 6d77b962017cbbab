"""Telling duplicate questions by the cosine of their vectors: the threshold comes from dev.

*Query-BERT* reports F1 alone. On a balanced set "duplicate" for every pair has F1 0.667, and seven
of the report's eleven figures lie below; so here F1 never stands alone, and its threshold is never
chosen on the pairs it is measured on, as common evaluators do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pocketquery.sdk.arrays import Doubles
from pocketquery.sdk.errors import InvalidInputError
from pocketquery_research.evaluation.duplicate_pairs import DuplicatePair

__all__ = [
    "DuplicateReport",
    "average_precision",
    "best_threshold",
    "f1",
    "pair_scores",
    "roc_auc",
    "score_duplicates",
]

BoolArray = NDArray[np.bool_]


@dataclass(frozen=True)
class DuplicateReport:
    """How well scores tell duplicates.

    Attributes:
        threshold: chosen on dev; a pair above it is called a duplicate.
        f1: on test, at that threshold.
        oracle_f1: on test, at the best threshold of test itself: an upper bound, no result.
        accuracy: on test, at the threshold.
        auc: area under the ROC curve.
        average_precision: area under the precision-recall curve, in steps.
        positive_rate: share of duplicates in test.
        trivial_f1: of calling every pair a duplicate.
    """

    threshold: float
    f1: float
    oracle_f1: float
    accuracy: float
    auc: float
    average_precision: float
    positive_rate: float
    trivial_f1: float


class PairEncoder(Protocol):
    """Whatever turns texts into unit vectors, float (n, dim)."""

    def encode(self, texts: Sequence[str], /) -> NDArray[np.float32]: ...


def pair_scores(encoder: PairEncoder, pairs: Sequence[DuplicatePair]) -> tuple[Doubles, BoolArray]:
    """Cosines of the pairs' vectors, float64 (n,), and whether they are duplicates, bool (n,)."""
    first = encoder.encode([pair.first for pair in pairs])
    second = encoder.encode([pair.second for pair in pairs])
    scores = np.einsum("ij,ij->i", first, second).astype(np.float64)
    return scores, np.array([pair.duplicate for pair in pairs])


def score_duplicates(
    dev_scores: ArrayLike, dev_labels: ArrayLike, test_scores: ArrayLike, test_labels: ArrayLike
) -> DuplicateReport:
    """The report of test scores, with the threshold that has the best F1 on dev.

    Args:
        dev_scores: (n,), higher for likelier duplicates.
        dev_labels: (n,), true for duplicates.
        test_scores: (m,).
        test_labels: (m,).

    Raises:
        InvalidInputError: shapes differ, a score is not finite, or one of the two has duplicates
            only, or none.
    """
    scores, labels = _checked("dev", dev_scores, dev_labels)
    threshold = best_threshold(scores, labels)
    scores, labels = _checked("test", test_scores, test_labels)
    rate = float(labels.mean())
    trivial = 2 * rate / (1 + rate)
    return DuplicateReport(
        threshold=threshold,
        f1=f1(scores, labels, threshold),
        # Below all scores is a threshold, too, which best_threshold takes of equal ones alone.
        oracle_f1=max(f1(scores, labels, best_threshold(scores, labels)), trivial),
        accuracy=float(((scores > threshold) == labels).mean()),
        auc=roc_auc(scores, labels),
        average_precision=average_precision(scores, labels),
        positive_rate=rate,
        trivial_f1=trivial,
    )


def f1(scores: Doubles, labels: BoolArray, threshold: float) -> float:
    """2 TP / (2 TP + FP + FN) of calling what scores above ``threshold`` a duplicate."""
    called = scores > threshold
    right = int((called & labels).sum())
    return 2 * right / max(int(called.sum()) + int(labels.sum()), 1)


def best_threshold(scores: Doubles, labels: BoolArray) -> float:
    """The threshold of the highest F1, the lowest of several.

    Candidates are the midpoints of neighbouring distinct scores; where all scores are equal, one
    below them, which calls everything a duplicate.
    """
    ends, right, called = _counts(scores, labels)
    if len(ends) == 1:
        return float(ends[0] - 1)
    values = 2 * right[:-1] / (called[:-1] + labels.sum())  # cut after each distinct score but last
    best = len(values) - 1 - int(np.argmax(values[::-1]))
    return float((ends[best] + ends[best + 1]) / 2)


def roc_auc(scores: Doubles, labels: BoolArray) -> float:
    """Chance that a duplicate scores above another pair; equal scores count a half."""
    _, right, called = _counts(scores, labels)
    hits = np.diff(right, prepend=0)
    misses = np.diff(called - right, prepend=0)
    below = misses.sum() - np.cumsum(misses)  # negatives of a lower score
    return float((hits * (below + misses / 2)).sum() / (hits.sum() * misses.sum()))


def average_precision(scores: Doubles, labels: BoolArray) -> float:
    """Sum over distinct scores of precision times the gain in recall; equal scores count as one."""
    _, right, called = _counts(scores, labels)
    gains = np.diff(right, prepend=0) / right[-1]
    return float((gains * right / called).sum())


def _counts(scores: Doubles, labels: BoolArray) -> tuple[Doubles, Doubles, Doubles]:
    """Distinct scores, highest first; how many duplicates, and pairs, score as much or more."""
    distinct, place = np.unique(-scores, return_inverse=True)
    right: Doubles = np.cumsum(np.bincount(place, weights=labels))
    called: Doubles = np.cumsum(np.bincount(place)).astype(np.float64)
    return -distinct, right, called


def _checked(name: str, scores: ArrayLike, labels: ArrayLike) -> tuple[Doubles, BoolArray]:
    values, true = np.asarray(scores, dtype=np.float64), np.asarray(labels, dtype=bool)
    if values.shape != true.shape or values.ndim != 1:
        raise InvalidInputError(
            f"{name} has scores of the shape {values.shape} and labels of {true.shape}; expected "
            "one of each a pair"
        )
    if not np.isfinite(values).all():
        raise InvalidInputError(f"{name} has scores that are not finite; expected numbers")
    if true.all() or not true.any():
        raise InvalidInputError(
            f"of the {len(true)} pairs of {name}, {int(true.sum())} are duplicates; expected some "
            "that are and some that are not"
        )
    return values, true

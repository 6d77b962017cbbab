"""Duplicate questions: metrics by hand and against scikit-learn's, thresholds from dev only."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn import metrics

from pocketquery.sdk.errors import InvalidInputError
from pocketquery_research.evaluation.duplicate_pairs import DuplicatePair
from pocketquery_research.evaluation.duplicates import (
    average_precision,
    best_threshold,
    f1,
    pair_scores,
    roc_auc,
    score_duplicates,
)
from tests.tiny_models import bert_teacher, sentences

LABELS = np.array([True, False, True, True, False, False])
SCORES = np.array([0.9, 0.8, 0.7, 0.6, 0.5, 0.1])


def drawn(
    count: int, seed: int, ties: bool = False
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    rng = np.random.default_rng(seed)
    labels = rng.random(count) < 0.5
    scores = rng.normal(size=count) + labels
    return (scores.round(1) if ties else scores), labels


def test_the_metrics_by_hand() -> None:
    # Above 0.55: three duplicates of three, one other: F1 = 2 * 3 / (4 + 3).
    assert best_threshold(SCORES, LABELS) == pytest.approx(0.55)
    assert f1(SCORES, LABELS, 0.55) == pytest.approx(6 / 7)
    assert roc_auc(SCORES, LABELS) == pytest.approx(7 / 9)
    assert average_precision(SCORES, LABELS) == pytest.approx((1 + 2 / 3 + 3 / 4) / 3)


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_the_metrics_are_scikit_learns(seed: int, ties: bool) -> None:
    scores, labels = drawn(200, seed, ties)
    assert roc_auc(scores, labels) == pytest.approx(metrics.roc_auc_score(labels, scores))
    expected = metrics.average_precision_score(labels, scores)
    assert average_precision(scores, labels) == pytest.approx(expected)
    threshold = best_threshold(scores, labels)
    distinct = np.unique(scores)
    values = [metrics.f1_score(labels, scores > t) for t in (distinct[1:] + distinct[:-1]) / 2]
    assert f1(scores, labels, threshold) == pytest.approx(max(values))
    assert f1(scores, labels, 0.3) == pytest.approx(metrics.f1_score(labels, scores > 0.3))


def test_the_threshold_does_not_know_the_test_labels() -> None:
    dev, (scores, labels) = drawn(200, 0), drawn(200, 1)
    report = score_duplicates(*dev, scores, labels)
    permuted = score_duplicates(*dev, scores, np.random.default_rng(0).permutation(labels))
    assert permuted.threshold == report.threshold == best_threshold(*dev)
    assert permuted.f1 < report.f1 <= report.oracle_f1
    assert report.accuracy == pytest.approx(((scores > report.threshold) == labels).mean())


def test_the_oracle_bounds_a_threshold_that_calls_everything_a_duplicate() -> None:
    dev, test = [0.1, 0.6, 0.7], [0.9, 0.8, 0.7, 0.6]
    report = score_duplicates(dev, [False, True, True], test, [False, False, True, True])
    assert report.threshold < min(test)
    assert report.f1 == report.oracle_f1 == pytest.approx(2 / 3)


def test_on_a_balanced_set_the_trivial_f1_is_two_thirds() -> None:
    labels = np.array([True, False] * 10)
    constant = np.ones(20)
    report = score_duplicates(constant, labels, constant, labels)
    assert report.trivial_f1 == pytest.approx(2 / 3)
    assert report.f1 == pytest.approx(2 / 3)
    assert (report.auc, report.average_precision, report.positive_rate) == (0.5, 0.5, 0.5)


def test_only_the_order_of_scores_counts() -> None:
    dev, test = drawn(100, 2), drawn(100, 3)
    report = score_duplicates(*dev, *test)
    stretched = score_duplicates(3 * dev[0] + 5, dev[1], 3 * test[0] + 5, test[1])
    moved = replace(stretched, threshold=report.threshold)
    assert moved == report
    assert stretched.threshold == pytest.approx(3 * report.threshold + 5)


def test_pairs_are_scored_by_the_cosine_of_their_vectors() -> None:
    encoder, texts = bert_teacher(), sentences(3)
    pairs = [DuplicatePair(texts[0], texts[0], True), DuplicatePair(texts[1], texts[2], False)]
    scores, labels = pair_scores(encoder, pairs)
    assert scores[0] == pytest.approx(1, abs=1e-5)
    assert scores[1] < 0.999
    assert labels.tolist() == [True, False]


@pytest.mark.parametrize(
    ("scores", "labels", "message"),
    [
        ([1.0, 2.0], [True], "one of each a pair"),
        ([1.0, np.nan], [True, False], "not finite"),
        ([1.0, 2.0], [True, True], "2 are duplicates"),
        ([1.0, 2.0], [False, False], "0 are duplicates"),
        ([], [], "0 are duplicates"),
    ],
)
def test_what_cannot_be_scored_is_refused(
    scores: list[float], labels: list[bool], message: str
) -> None:
    with pytest.raises(InvalidInputError, match=message):
        score_duplicates(SCORES, LABELS, scores, labels)

"""Softmax regression on frozen vectors, against another library's."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

from pocketquery_research.evaluation.linear_probe import linear_probe


def blobs(seed: int, spread: float) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    rng = np.random.default_rng(seed)
    classes = rng.integers(4, size=200)
    centres = np.random.default_rng(9).normal(size=(4, 12))
    return (centres[classes] + rng.normal(scale=spread, size=(200, 12))).astype(np.float32), classes


def test_it_is_the_optimum_of_its_problem() -> None:
    vectors, classes = blobs(0, 1.5)
    unseen, right = blobs(1, 1.5)
    found = linear_probe(vectors, classes, unseen, count=4, decay=0.05)
    mean, spread = vectors.mean(axis=0), vectors.std(axis=0)
    reference = LogisticRegression(C=1 / (0.05 * 200), max_iter=1000, tol=1e-9)
    reference.fit((vectors - mean) / spread, classes)
    assert (found == reference.predict((unseen - mean) / spread)).mean() == 1
    assert 0.6 < (found == right).mean() < 1  # the problem is not trivial


def test_it_is_blind_to_scale_and_offset_of_the_features() -> None:
    vectors, classes = blobs(0, 1.0)
    unseen, _ = blobs(1, 1.0)
    scales = np.linspace(0.1, 9, 12, dtype=np.float32)
    plain = linear_probe(vectors, classes, unseen, count=4)
    moved = linear_probe(vectors * scales + 3, classes, unseen * scales + 3, count=4)
    assert (plain == moved).mean() == pytest.approx(1, abs=0.01)


def test_classes_that_were_never_seen_are_never_predicted() -> None:
    vectors, classes = blobs(0, 0.5)
    kept = classes != 2
    found = linear_probe(vectors[kept], classes[kept], vectors, count=6)
    assert set(found.tolist()) == {0, 1, 3}
    assert (found[kept] == classes[kept]).mean() > 0.99


def test_a_feature_that_never_varies_does_no_harm() -> None:
    vectors, classes = blobs(0, 0.5)
    vectors[:, 3] = 7
    unseen = vectors.copy()
    unseen[:, 3] = 7.5
    assert (linear_probe(vectors, classes, unseen, count=4) == classes).mean() > 0.99

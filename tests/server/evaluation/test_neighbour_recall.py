from __future__ import annotations

import numpy as np
import pytest

from pocketquery.sdk.errors import InvalidInputError
from pocketquery.server.evaluation import neighbour_recall as module
from pocketquery.server.evaluation.neighbour_recall import neighbour_recall

DOCUMENTS = [f"d{i // 10}" for i in range(400)]
PLACES = [i % 10 for i in range(400)]


def test_sentences_by_document_find_each_other_and_random_ones_do_not() -> None:
    rng = np.random.default_rng(0)
    topics = rng.normal(size=(40, 16)).repeat(10, axis=0)
    near = topics + 0.1 * rng.normal(size=(400, 16))
    assert neighbour_recall(near, DOCUMENTS, PLACES) > 0.98
    chance = neighbour_recall(rng.normal(size=(400, 16)), DOCUMENTS, PLACES)
    assert 0.05 < chance < 0.3
    assert neighbour_recall(np.ones((400, 4)), DOCUMENTS, PLACES) < 0.3  # collapsed


def test_by_hand_a_sentence_never_counts_for_itself() -> None:
    vectors = np.array([[1.0, 0.0], [1.0, 0.1], [0.0, 1.0], [0.9, 0.5]])
    names, places = ["a", "b", "a", "b"], [0, 0, 1, 1]
    # Nearest: 0 -> 1 (b), 1 -> 0 (a), 2 -> 3 (b), 3 -> 1 (b). Only the last is a neighbour.
    assert neighbour_recall(vectors, names, places, depth=1) == pytest.approx(1 / 4)
    assert neighbour_recall(vectors, names, places, depth=3) == 1
    # Places too far apart are no neighbours, and a sentence without one is not asked.
    far = neighbour_recall(vectors, names, [0, 0, 9, 1], depth=3)
    assert far == 1
    with pytest.raises(InvalidInputError, match="whole documents"):
        neighbour_recall(vectors, names, [0, 0, 9, 9])


def test_blocks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    vectors = np.random.default_rng(1).normal(size=(400, 8))
    whole = neighbour_recall(vectors, DOCUMENTS, PLACES)
    monkeypatch.setattr(module, "_BLOCK", 33)
    assert neighbour_recall(vectors, DOCUMENTS, PLACES) == whole


def test_lengths_must_agree() -> None:
    with pytest.raises(InvalidInputError, match="400 vectors, 3 documents"):
        neighbour_recall(np.ones((400, 2)), ["a"] * 3, PLACES)

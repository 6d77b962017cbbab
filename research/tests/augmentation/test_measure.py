from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from pocketquery.client.views.typing_augmenters import DropoutView, Typo
from pocketquery.client.views.word_augmenters import Shuffle, WordDrop
from pocketquery.sdk.errors import InvalidInputError
from pocketquery_research.augmentation.measure import audit


def letters(texts: Sequence[str]) -> NDArray[np.float32]:
    """Letter counts of length 1: an encoder that is blind to order."""
    counts = np.array([[text.count(c) for c in "abcdefgh"] for text in texts], np.float32)
    unit: NDArray[np.float32] = counts / np.linalg.norm(counts, axis=1, keepdims=True)
    return unit


def test_the_identity_is_seen_for_what_it_is() -> None:
    report = audit(DropoutView(), ["a b", "c d"], encode=letters)
    assert (report.name, report.texts, report.identity_rate) == ("dropout_view", 2, 1.0)
    assert (report.token_jaccard, report.length_ratio) == (1.0, 1.0)
    assert report.cosines == (*[0] * 19, 2)
    assert report.samples == (("a b", "a b"), ("c d", "c d"))


def test_a_shuffle_changes_the_text_and_none_of_its_words() -> None:
    report = audit(Shuffle(), ["ab cd", "ef", "gh a b"], encode=letters)
    assert report.identity_rate == pytest.approx(1 / 3)
    assert (report.token_jaccard, report.length_ratio) == (1.0, 1.0)
    assert sum(report.cosines[:19]) == 0


def test_a_drop_shortens() -> None:
    report = audit(WordDrop(0.0), ["aa bb cc dd"])
    assert report.token_jaccard == 0.75
    assert report.length_ratio == 8 / 11
    assert report.cosines == ()
    json.dumps(report.to_dict())


def test_twenty_samples_are_enough() -> None:
    assert len(audit(Typo(), ["some words"] * 50).samples) == 20


@pytest.mark.parametrize("texts", [[], ["a", " "]])
def test_without_texts_there_is_nothing_to_see(texts: list[str]) -> None:
    with pytest.raises(InvalidInputError, match="expected queries"):
        audit(Typo(), texts)

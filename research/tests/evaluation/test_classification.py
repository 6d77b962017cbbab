"""Zero-shot and few-shot classification: scores by hand, the protocol, and a real encoder."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.metrics import f1_score

from pocketquery.sdk.errors import InvalidInputError
from pocketquery.server.modeling import SentenceEncoder
from pocketquery_research.evaluation.classification import (
    few_shot,
    sample_rows,
    score_classes,
    zero_shot,
    zero_shot_classes,
)
from pocketquery_research.evaluation.fine_tuned_classifier import ClassifierConfig
from pocketquery_research.evaluation.labelled_texts import LabelledTexts
from tests.tiny_models import WORDS, bert_teacher


def test_scores_by_hand() -> None:
    found = score_classes(np.array([0, 0, 1, 1]), np.array([0, 1, 1, 2]), 4)
    assert found.accuracy == 0.5
    # F1: 2/3 (one of two predicted, all of one right), 1/2, 0; the fourth class does not occur.
    assert found.macro_f1 == pytest.approx((2 / 3 + 1 / 2 + 0) / 3)
    assert found.chance == 0.25


def test_scores_agree_with_the_common_library() -> None:
    rng = np.random.default_rng(0)
    predicted, right = rng.integers(7, size=(2, 300))
    right[rng.random(300) < 0.4] = predicted[rng.random(300) < 0.4][0]
    found = score_classes(predicted, right, 7)
    assert found.macro_f1 == pytest.approx(f1_score(right, predicted, average="macro"))
    assert found.accuracy == pytest.approx((predicted == right).mean())


def test_scores_of_nothing_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="0 predictions for 0 texts"):
        score_classes(np.zeros(0, np.int64), np.zeros(0, np.int64), 2)


def letters(texts: Sequence[str]) -> NDArray[np.float32]:
    """A hand-made encoder: the shares of a, b and c."""
    counts = np.array([[text.count(mark) for mark in "abc"] for text in texts], np.float32)
    return np.asarray(counts / np.linalg.norm(counts, axis=1, keepdims=True), np.float32)


def test_the_nearest_label_wins() -> None:
    found = zero_shot_classes(letters, ["a", "b", "cab"], ["aab", "abbb", "cba", "ccb"])
    assert found.tolist() == [0, 1, 2, 2]
    found = zero_shot_classes(letters, ["a", "b"], ["ac", "bc"], template="{} of c")
    assert found.tolist() == [0, 1]


@pytest.mark.parametrize(
    ("labels", "template", "message"),
    [(["a"], "{}", "there are 1 labels"), (["a", "b"], "about", 'the template is "about"')],
)
def test_labels_that_cannot_be_used(labels: list[str], template: str, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        zero_shot_classes(letters, labels, ["a"], template=template)


def test_a_real_encoder_knows_what_labels_mean() -> None:
    encoder = SentenceEncoder.load("demo")
    texts = {
        "play_music": ["put on some jazz", "I want to hear a song by the Beatles"],
        "GetWeather": ["will it rain tomorrow", "how hot is it outside"],
        "book_restaurant": ["a table for two at an Italian place", "reserve dinner for tonight"],
    }
    test = LabelledTexts.of(
        [text for some in texts.values() for text in some],
        [name for name, some in texts.items() for _ in some],
    )
    found = zero_shot(encoder.encode, test)
    assert found.accuracy == found.macro_f1 == 1
    assert found.chance == pytest.approx(1 / 3)


@pytest.mark.parametrize("per_class", [1, 3])
def test_samples_hold_as_many_of_each_class_and_differ(per_class: int) -> None:
    classes = np.array([0] * 9 + [2] * 5 + [1] * 3)
    drawn = [sample_rows(classes, per_class, np.random.default_rng(seed)) for seed in range(5)]
    for rows in drawn:
        assert np.bincount(classes[rows]).tolist() == [per_class] * 3
        assert len(set(rows.tolist())) == len(rows)
    assert len({tuple(rows) for rows in drawn}) > 1
    assert np.array_equal(drawn[0], sample_rows(classes, per_class, np.random.default_rng(0)))
    with pytest.raises(InvalidInputError, match="the smallest class has 3 texts"):
        sample_rows(classes, 4, np.random.default_rng(0))


def labelled(count: int, offset: int = 0) -> LabelledTexts:
    """The class is the first word."""
    texts = [f"{WORDS[i % 3]} of the {WORDS[(i * 5) % 27]}" for i in range(offset, count + offset)]
    return LabelledTexts.of(texts, [WORDS[i % 3] for i in range(offset, count + offset)])


@pytest.mark.parametrize("head", ["probe", "fine_tuning"])
def test_a_few_texts_of_each_class_are_learnt_from(head: str) -> None:
    encoder = bert_teacher(layers=1, width=32)
    config = ClassifierConfig(least_steps=120, learning_rate=3e-3, head_rate=1e-2)
    scores = few_shot(
        encoder,
        labelled(81),
        labelled(60, 100),
        per_class=8,
        head=head,
        samplings=2,
        config=config,
    )
    assert len(scores) == 2
    assert min(score.accuracy for score in scores) > 0.8
    assert {score.chance for score in scores} == {1 / 3}


def test_encoders_are_compared_on_the_same_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    from pocketquery_research.evaluation import classification

    drawn: list[list[int]] = []

    def spy(*arguments: Any) -> NDArray[np.int64]:
        drawn.append(sample_rows(*arguments).tolist())
        return np.array(drawn[-1])

    monkeypatch.setattr(classification, "sample_rows", spy)
    for seed in (0, 1):
        few_shot(bert_teacher(1, 16, seed=seed), labelled(81), labelled(9), per_class=4)
    assert drawn[:5] == drawn[5:]
    assert len({tuple(rows) for rows in drawn}) == 5
    few_shot(bert_teacher(1, 16), labelled(81), labelled(9), per_class=20)
    assert len(drawn) == 13  # three samplings above ten a class
    few_shot(bert_teacher(1, 16), labelled(81), labelled(9), per_class=4, samplings=1, seed=1)
    assert drawn[13] != drawn[0]  # other texts for another seed


def test_what_cannot_be_compared_is_refused() -> None:
    encoder = bert_teacher(1, 16)
    with pytest.raises(InvalidInputError, match="head is 'svm'"):
        few_shot(encoder, labelled(9), labelled(9), per_class=1, head="svm")
    with pytest.raises(InvalidInputError, match=r"the 3 classes .* are not the 2 of the test"):
        few_shot(encoder, labelled(9), labelled(2), per_class=1)

"""Classification with the classes' names alone, or with a few labelled texts of each.

*Generate to Understand for Representation*, the zero-shot and few-shot experiments.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from pocketquery.sdk.arrays import Encode
from pocketquery.sdk.errors import InvalidInputError
from pocketquery.sdk.validation import check, one_of
from pocketquery.server.modeling import SentenceEncoder
from pocketquery_research.evaluation.fine_tuned_classifier import (
    ClassifierConfig,
    fine_tuned_classes,
)
from pocketquery_research.evaluation.labelled_texts import LabelledTexts, label_text
from pocketquery_research.evaluation.linear_probe import linear_probe

__all__ = [
    "ClassScores",
    "few_shot",
    "sample_rows",
    "score_classes",
    "zero_shot",
    "zero_shot_classes",
]

HEADS = ("probe", "fine_tuning")

Classes = NDArray[np.int64]


@dataclass(frozen=True)
class ClassScores:
    """How well classes were told apart.

    Attributes:
        accuracy: share of the texts in the right class.
        macro_f1: mean F1 over the classes that occur or were predicted.
        chance: accuracy of a guess, one over the number of classes.
        right: which texts are in the right class, bool (texts,).
    """

    accuracy: float
    macro_f1: float
    chance: float
    right: NDArray[np.bool_] = field(repr=False, compare=False)


def score_classes(predicted: Classes, right: Classes, count: int) -> ClassScores:
    """Score predictions, both int64 (n,), among ``count`` classes.

    Raises:
        InvalidInputError: no texts, or not as many of the one as of the other.
    """
    if not len(right) or len(predicted) != len(right):
        raise InvalidInputError(
            f"{len(predicted)} predictions for {len(right)} texts; expected as many, at least one"
        )
    hits = np.bincount(right[predicted == right], minlength=count)
    both = np.bincount(predicted, minlength=count) + np.bincount(right, minlength=count)
    f1 = 2 * hits[both > 0] / both[both > 0]  # precision and recall in one fraction
    found = predicted == right
    return ClassScores(float(found.mean()), float(f1.mean()), 1 / count, found)


def zero_shot_classes(
    encode: Encode, labels: Sequence[str], texts: Sequence[str], *, template: str = "{}"
) -> Classes:
    """The label whose text is nearest to each text, int64 (len(texts),).

    Args:
        encode: texts to float32 (n, dimension), unit rows.
        labels: one text for each class.
        texts: to classify.
        template: around each label, with ``{}`` in its place: ``"a question about {}"``.

    Raises:
        InvalidInputError: fewer than two labels, or a template without a place for them.
    """
    if len(labels) < 2:
        raise InvalidInputError(f"there are {len(labels)} labels; expected at least two classes")
    if "{}" not in template:
        raise InvalidInputError(f'the template is "{template}"; expected {{}} where the label goes')
    named = encode([template.replace("{}", label) for label in labels])  # (classes, dimension)
    return np.asarray((encode(list(texts)) @ named.T).argmax(axis=1), dtype=np.int64)


def zero_shot(encode: Encode, test: LabelledTexts, *, template: str = "{}") -> ClassScores:
    """Classify ``test`` by its classes' names, put into words, and score that."""
    names = [label_text(name) for name in test.names]
    classes = zero_shot_classes(encode, names, test.texts, template=template)
    return score_classes(classes, test.classes, len(test.names))


def few_shot(
    encoder: SentenceEncoder,
    train: LabelledTexts,
    test: LabelledTexts,
    *,
    per_class: int,
    head: str = "probe",
    samplings: int | None = None,
    config: ClassifierConfig | None = None,
    seed: int = 0,
) -> list[ClassScores]:
    """Learn from a few labelled texts of each class, several times over; the scores of each.

    Which texts are sampled depends on ``seed``, the labels and ``per_class`` alone, so that
    encoders are compared on the same ones.

    Args:
        encoder: what is compared.
        train: where the labelled texts are sampled.
        test: what is classified, with the same classes.
        per_class: texts of each class; 10 is few-shot and 100 fine-tuning in the paper.
        head: ``"probe"`` (the encoder stays as it is) or ``"fine_tuning"`` (all of it is trained).
        samplings: how often; by default 5 up to 10 texts a class, else 3.
        config: the schedule of fine-tuning.
        seed: of the samples.

    Raises:
        InvalidInputError: an unknown head, other classes in ``test``, too few texts of a class.
    """
    check("head", head, one_of(*HEADS))
    if train.names != test.names:
        raise InvalidInputError(
            f"the {len(train.names)} classes of the training texts are not the {len(test.names)} "
            "of the test; expected the same (read the test with names=train.names)"
        )
    count = len(train.names)
    samples = [
        sample_rows(train.classes, per_class, np.random.default_rng([seed, number]))
        for number in range(samplings or (5 if per_class <= 10 else 3))
    ]
    encoded = None
    if head == "probe":
        used = np.unique(np.concatenate(samples))  # few of the texts, mostly
        encoded = encoder.encode([train.texts[row] for row in used]), encoder.encode(test.texts)
    scores = []
    for rows in samples:
        seen = train.classes[rows]
        if encoded is not None:
            vectors = encoded[0][np.searchsorted(used, rows)]
            found = linear_probe(vectors, seen, encoded[1], count=count)
        else:
            texts = [train.texts[row] for row in rows]
            found = fine_tuned_classes(encoder, texts, seen, test.texts, count=count, config=config)
        scores.append(score_classes(found, test.classes, count))
    return scores


def sample_rows(classes: Classes, per_class: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Rows with ``per_class`` of each class that occurs, int64, sorted.

    Raises:
        InvalidInputError: a class has fewer, or ``per_class`` is below 1.
    """
    numbers, counts = np.unique(classes, return_counts=True)
    if per_class < 1 or counts.min() < per_class:
        raise InvalidInputError(
            f"per_class is {per_class} and the smallest class has {counts.min()} texts; expected "
            "from 1 to that many"
        )
    drawn = [
        rng.choice(np.flatnonzero(classes == number), per_class, replace=False)
        for number in numbers
    ]
    return np.sort(np.concatenate(drawn)).astype(np.int64)

"""Fine-tuning an encoder to classify: it learns, repeats itself, and leaves the encoder alone."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from pocketquery.sdk.errors import InvalidInputError
from pocketquery.server.modeling import weights_fingerprint
from pocketquery_research.evaluation.fine_tuned_classifier import (
    ClassifierConfig,
    fine_tuned_classes,
)
from tests.tiny_models import WORDS, bert_teacher

# The class is the second word; the others say nothing.
SECOND = ("rock", "king", "leaf")
TEXTS = [f"{WORDS[i % 27]} {SECOND[i % 3]} of the {WORDS[(i * 7) % 27]}" for i in range(90)]
CLASSES = np.array([i % 3 for i in range(90)], dtype=np.int64)
CONFIG = ClassifierConfig(epochs=20, least_steps=1, learning_rate=3e-3, head_rate=1e-2)


@pytest.mark.parametrize("head", [None, nn.Sequential(nn.Linear(32, 8), nn.GELU())])
def test_it_learns_the_classes(head: nn.Sequential | None) -> None:
    encoder = bert_teacher(layers=1, width=32, head=head)
    before = weights_fingerprint(encoder.state_dict())
    options = {"count": 3, "config": CONFIG}
    found = fine_tuned_classes(encoder, TEXTS[:60], CLASSES[:60], TEXTS[60:], **options)  # type: ignore[arg-type]
    assert (found == CLASSES[60:]).mean() > 0.9
    assert weights_fingerprint(encoder.state_dict()) == before
    assert not encoder.training


def test_the_seed_decides_and_the_global_generator_is_left_alone() -> None:
    encoder = bert_teacher(layers=1, width=32)
    brief = ClassifierConfig(epochs=1, least_steps=4, learning_rate=1e-3)
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    first = fine_tuned_classes(encoder, TEXTS[:30], CLASSES[:30], TEXTS, count=3, config=brief)
    assert torch.equal(torch.rand(3), expected)
    again = fine_tuned_classes(encoder, TEXTS[:30], CLASSES[:30], TEXTS, count=3, config=brief)
    assert np.array_equal(first, again)
    other = ClassifierConfig(epochs=1, least_steps=4, learning_rate=1e-3, seed=1)
    moved = fine_tuned_classes(encoder, TEXTS[:30], CLASSES[:30], TEXTS, count=3, config=other)
    assert not np.array_equal(first, moved)


def test_nothing_to_classify_is_nothing_classified() -> None:
    encoder = bert_teacher(layers=1, width=32)
    found = fine_tuned_classes(
        encoder, TEXTS[:3], CLASSES[:3], [], count=3, config=ClassifierConfig(least_steps=1)
    )
    assert found.shape == (0,)
    with pytest.raises(InvalidInputError, match="epochs is 0"):
        ClassifierConfig(epochs=0)

"""SimCSE: what dropout does to the two views, and what the loss is without it."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch

from pocketquery.server.corpus.groups import Group
from pocketquery.server.modeling import SentenceEncoder
from pocketquery.server.objectives.shared.losses import cosines
from pocketquery.server.objectives.simcse import SimCse, SimCseConfig
from tests.tiny_models import bert_teacher, sentences

RNG = np.random.default_rng(0)


def build(encoder: SentenceEncoder, **options: object) -> SimCse:
    torch.manual_seed(0)
    return SimCse(encoder, SimCseConfig(**options))  # type: ignore[arg-type]


def test_without_dropout_the_views_are_one_and_the_loss_is_their_separation() -> None:
    encoder = bert_teacher()  # in evaluation mode
    objective = build(encoder)
    batch = objective.collate(sentences(6), RNG)
    found = objective.loss(encoder, batch)
    vectors = objective.project(encoder, batch["input_ids"], batch["attention_mask"])
    scores = cosines(vectors, vectors).double() / 0.05
    expected = (scores.exp().sum(dim=1).log() - scores.diagonal()).mean()
    assert float(found.stats["positive_cos"]) == pytest.approx(1, abs=1e-6)
    assert float(found.total.detach()) == pytest.approx(float(expected.detach()), abs=1e-5)


def test_with_dropout_the_views_differ() -> None:
    encoder = bert_teacher().train()
    objective = build(encoder)
    found = objective.loss(encoder, objective.collate(sentences(6), RNG))
    assert float(found.stats["positive_cos"]) < 0.999


def test_equal_texts_are_no_negatives_of_each_other() -> None:
    encoder = bert_teacher()
    objective = build(encoder)
    one = objective.loss(encoder, objective.collate(["The water", "the  WATER"], RNG))
    assert float(one.total.detach()) == pytest.approx(0, abs=1e-6)
    two = objective.loss(encoder, objective.collate(["the water", "the rock"], RNG))
    assert float(two.total.detach()) > 1e-3


def test_the_loss_is_the_rows_alone() -> None:
    encoder = bert_teacher().train()
    objective = build(encoder, head=False)
    batch = objective.collate(sentences(5), RNG)
    torch.manual_seed(3)
    found = objective.loss(encoder, batch)
    torch.manual_seed(3)
    ids, mask = batch["input_ids"].repeat(2, 1), batch["attention_mask"].repeat(2, 1)
    first, second = encoder.pooled(ids, mask).chunk(2)
    logits = cosines(first, second) / 0.05
    expected = torch.nn.functional.cross_entropy(logits, torch.arange(5))
    assert float(found.total.detach()) == pytest.approx(float(expected.detach()), abs=1e-5)
    assert not torch.allclose(logits, logits.T, atol=1e-3)


def test_a_group_gives_one_of_its_texts_or_a_passage() -> None:
    group = Group("a", ("water", " ", "rock"))
    drawn = {build(bert_teacher()).draw(group, random.Random(seed)) for seed in range(20)}
    assert drawn == {"water", "rock"}
    whole = build(bert_teacher(), unit="passage")
    assert whole.passages
    assert whole.draw(group, random.Random(0)) == "water rock"
    assert whole.draw(Group("b", ("",)), random.Random(0)) is None

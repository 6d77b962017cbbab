"""Contrast within groups: each loss by hand, what is a pair, and what is no negative."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch

from pocketquery.server.corpus.groups import Group
from pocketquery.server.modeling import SentenceEncoder
from pocketquery.server.objectives.auto_mlm import AutoMlm, AutoMlmConfig
from pocketquery.server.objectives.contrastive import (
    Contrastive,
    ContrastiveConfig,
    Related,
)
from tests.tiny_models import bert_teacher, sentences

RNG = np.random.default_rng(0)


def build(encoder: SentenceEncoder, loss: str, **options: object) -> Contrastive:
    torch.manual_seed(0)
    return Contrastive(encoder, ContrastiveConfig(loss=loss, **options))  # type: ignore[arg-type]


def pairs(count: int) -> list[Related]:
    texts = sentences(2 * count)
    return [Related(str(i), texts[2 * i], texts[2 * i + 1]) for i in range(count)]


def total(objective: Contrastive, encoder: SentenceEncoder, runs: list[Related]) -> float:
    return float(objective.loss(encoder, objective.collate(runs, RNG)).total.detach())


def test_the_margin_loss_is_auto_mlms_contrastive_term() -> None:
    encoder = bert_teacher()
    group = Group("s", ("water rock", "sky king", "leaf cell"), roles=("user", "agent", "user"))
    twin = AutoMlm(encoder, AutoMlmConfig(weight=0))
    objective = build(encoder, "margin")
    groups = [
        Group(
            str(i),
            (sentences(80)[2 * i], sentences(80)[2 * i + 1], "x"),
            roles=("user", "agent", "user"),
        )
        for i in range(6)
    ] + [group]
    ours = [objective.draw(g, random.Random(1)) for g in groups]
    theirs = [twin.draw(g, random.Random(1)) for g in groups]
    mine = objective.loss(encoder, objective.collate([run for run in ours if run], RNG)).total
    other = twin.loss(encoder, twin.collate([pair for pair in theirs if pair], RNG)).total
    assert len(ours) == 7
    assert float(mine.detach()) == pytest.approx(float(other.detach()), abs=1e-6)
    assert float(mine.detach()) > 0.01


@pytest.mark.parametrize("symmetric", [False, True])
def test_info_nce_is_cross_entropy_over_cosines_times_twenty(symmetric: bool) -> None:
    encoder = bert_teacher()
    objective = build(encoder, "info_nce", symmetric=symmetric)
    batch = objective.collate(pairs(5), RNG)
    vectors = torch.nn.functional.normalize(
        encoder.pooled(batch["input_ids"], batch["attention_mask"]), dim=1
    )
    scores = 20 * vectors[:5] @ vectors[5:].T
    rows = torch.nn.functional.cross_entropy(scores, torch.arange(5))
    columns = torch.nn.functional.cross_entropy(scores.T, torch.arange(5))
    expected = (rows + columns) / 2 if symmetric else rows
    found = objective.loss(encoder, batch).total
    assert float(found.detach()) == pytest.approx(float(expected.detach()), abs=1e-5)


@pytest.mark.parametrize("loss", ["margin", "info_nce"])
def test_equal_texts_and_one_group_are_no_negatives(loss: str) -> None:
    encoder = bert_teacher()
    objective = build(encoder, loss)
    same_text = [Related("a", "water", "rock"), Related("b", "WATER", "king")]
    same_group = [Related("a", "water", "rock"), Related("a", "sky", "king")]
    other = [Related("a", "water", "rock"), Related("b", "sky", "king")]
    assert total(objective, encoder, same_text) == pytest.approx(0, abs=1e-6)
    assert total(objective, encoder, same_group) == pytest.approx(0, abs=1e-6)
    assert total(objective, encoder, other) > 1e-6


def test_what_is_a_pair() -> None:
    objective = build(bert_teacher(), "margin")
    rng = random.Random(0)
    session = Group("s", ("water", "rock"), roles=("user", "agent"))
    assert objective.draw(session, rng) == Related("s", "rock", "water")
    plain = Group("d", ("water", "rock", "sky"))
    found = {objective.draw(plain, random.Random(seed)) for seed in range(20)}
    assert found == {Related("d", "water", "rock"), Related("d", "rock", "sky")}
    assert objective.draw(Group("one", ("water",)), rng) is None
    assert objective.draw(Group("m", ("water", "rock"), roles=("user", "user")), rng) is None

"""Inverse cloze: what is drawn, how often the sentence stays, the loss against its twin."""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np
import pytest
import torch

from pocketquery.server.corpus.groups import Group
from pocketquery.server.modeling import SentenceEncoder
from pocketquery.server.objectives import Batch, build_objective
from pocketquery.server.objectives.ict import Cloze, Ict
from pocketquery.server.objectives.shared.losses import cosines, in_batch_cross_entropy, info_nce
from tests.tiny_models import bert_teacher, sentences

TEACHER = bert_teacher(layers=1, width=32)
TEXTS = sentences(60)


def objective(encoder: SentenceEncoder = TEACHER, **options: Any) -> Ict:
    built = build_objective("ict", encoder, options)
    assert isinstance(built, Ict)
    return built


def clozes(count: int = 5) -> list[Cloze]:
    return [
        Cloze(str(i), TEXTS[3 * i], f"{TEXTS[3 * i + 1]} {TEXTS[3 * i + 2]}") for i in range(count)
    ]


def batch_of(built: Ict, examples: list[Cloze]) -> Batch:
    return built.collate(examples, np.random.default_rng(0))


def test_the_sentence_stays_in_its_block_as_often_as_is_said() -> None:
    group, rng, built = Group("d", tuple("abcde")), random.Random(0), objective()
    drawn = [built.draw(group, rng) for _ in range(10_000)]
    kept = [cloze.query in cloze.block.split() for cloze in drawn if cloze]
    assert len(kept) == 10_000
    assert abs(np.mean(kept) - 0.1) < 0.01
    for probability, expected in ((0.0, False), (1.0, True)):
        sure = objective(keep_prob=probability)
        found = [sure.draw(group, rng) for _ in range(200)]
        assert {cloze.query in cloze.block for cloze in found if cloze} == {expected}


def test_every_sentence_is_drawn_and_the_rest_keeps_its_order() -> None:
    group, rng, built = Group("d", ("a", " ", "b", "c")), random.Random(0), objective(keep_prob=0)
    drawn = {built.draw(group, rng) for _ in range(100)}
    assert drawn == {Cloze("d", "a", "b c"), Cloze("d", "b", "a c"), Cloze("d", "c", "a b")}


def test_a_title_is_never_the_query_and_heads_its_block() -> None:
    group, rng = Group("d", ("title", "a", "b"), title=True), random.Random(0)
    drawn = {objective(keep_prob=0).draw(group, rng) for _ in range(50)}
    assert drawn == {Cloze("d", "a", "title b", "title"), Cloze("d", "b", "title a", "title")}


def test_groups_with_one_sentence_give_nothing() -> None:
    rng = random.Random(0)
    for group in (
        Group("d", ("alone",)),
        Group("d", ("title", "alone"), title=True),
        Group("d", ()),
    ):
        assert objective().draw(group, rng) is None


def test_equal_scores_cost_the_logarithm_of_the_batch() -> None:
    none = torch.zeros(6, 6, dtype=torch.bool)
    loss = in_batch_cross_entropy(torch.full((6, 6), 3.0), none)
    assert float(loss) == pytest.approx(math.log(6), abs=1e-6)


def test_the_loss_agrees_with_plain_loops() -> None:
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(5, 5, generator=generator, dtype=torch.float64)
    dropped = torch.rand(5, 5, generator=generator) < 0.3

    def by_hand(found: torch.Tensor, out: torch.Tensor) -> float:
        total = 0.0
        for i in range(5):
            kept = [math.exp(found[i, j]) for j in range(5) if i == j or not out[i, j]]
            total += math.log(sum(kept)) - float(found[i, i])
        return total / 5

    rows, columns = by_hand(scores, dropped), by_hand(scores.T, dropped.T)
    assert float(in_batch_cross_entropy(scores, dropped)) == pytest.approx(rows)
    both = in_batch_cross_entropy(scores, dropped, symmetric=True)
    assert float(both) == pytest.approx((rows + columns) / 2)
    scores.requires_grad_()
    assert torch.autograd.gradcheck(lambda found: in_batch_cross_entropy(found, dropped), scores)


def test_with_cosines_it_is_the_usual_contrastive_loss() -> None:
    generator = torch.Generator().manual_seed(0)
    queries, blocks = torch.randn(2, 5, 8, generator=generator)
    dropped = torch.rand(5, 5, generator=generator) < 0.3
    scores = cosines(queries, blocks) / 0.05
    for symmetric in (False, True):
        expected = info_nce(queries, blocks, 0.05, dropped=dropped, symmetric=symmetric)
        found = in_batch_cross_entropy(scores, dropped, symmetric=symmetric)
        assert float(found) == pytest.approx(float(expected), abs=1e-5)


def test_dot_products_see_length_and_cosines_do_not() -> None:
    batch = batch_of(objective(), clozes())
    encoder = bert_teacher(layers=1, width=32)
    scale = encoder.backbone.encoder.layer[-1].output.LayerNorm.weight
    found = {}
    for name in ("dot", "cosine"):
        built = objective(encoder, similarity=name)
        found[name] = [built.loss(encoder, batch).total.detach()]
        with torch.no_grad():
            scale.mul_(2)
            encoder.backbone.encoder.layer[-1].output.LayerNorm.bias.mul_(2)
        found[name].append(built.loss(encoder, batch).total.detach())
    assert float(found["dot"][0]) != pytest.approx(float(found["dot"][1]), abs=1e-3)
    assert float(found["cosine"][0]) == pytest.approx(float(found["cosine"][1]), abs=1e-5)


def test_blocks_that_find_their_sentences_are_a_switch() -> None:
    batch = batch_of(objective(), clozes())
    swapped = {**batch, "query_ids": batch["input_ids"], "query_mask": batch["attention_mask"]}
    swapped |= {"input_ids": batch["query_ids"], "attention_mask": batch["query_mask"]}
    there, back = (objective().loss(TEACHER, found).total for found in (batch, swapped))
    both = objective(symmetric=True).loss(TEACHER, batch).total
    assert torch.allclose(both, (there + back) / 2, atol=1e-4)
    assert not torch.allclose(both, there, atol=1e-4)


def test_the_temperature_divides_the_similarities() -> None:
    batch = batch_of(objective(), clozes())
    queries = TEACHER.pooled(batch["query_ids"], batch["query_mask"]).detach()
    blocks = TEACHER.pooled(batch["input_ids"], batch["attention_mask"]).detach()
    expected = in_batch_cross_entropy(queries @ blocks.T / 8, batch["dropped"])
    found = objective(temperature=8.0).loss(TEACHER, batch).total.detach()
    assert float(found) == pytest.approx(float(expected), abs=1e-5)


def test_passages_of_one_document_and_equal_texts_are_no_negatives() -> None:
    examples = [
        Cloze("a", "one", "x"),
        Cloze("a", "two", "y"),
        Cloze("b", "One", "z"),
        Cloze("c", "three", "Y"),
        Cloze("d", "four", "v", "Same title"),
        Cloze("e", "five", "w", "same title"),
    ]
    dropped = batch_of(objective(), examples)["dropped"]
    expected = {(0, 1), (0, 2), (1, 3), (4, 5)}
    found = {(i, j) for i, j in dropped.nonzero().tolist() if i < j}
    assert found == expected
    assert torch.equal(dropped, dropped.T)


def test_lengths_are_cut_one_by_one() -> None:
    batch = batch_of(objective(query_length=6, max_length=9), clozes())
    assert batch["query_ids"].shape[1] == 6
    assert batch["input_ids"].shape[1] == 9

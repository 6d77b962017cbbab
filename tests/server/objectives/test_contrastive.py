"""The CL family: each loss by hand, what is a pair, and what is no negative."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
import torch

from pocketquery.sdk.errors import InvalidInputError
from pocketquery.server.corpus.groups import Group
from pocketquery.server.modeling import SentenceEncoder
from pocketquery.server.objectives.auto_mlm import AutoMlm, AutoMlmConfig
from pocketquery.server.objectives.contrastive import (
    Contrastive,
    ContrastiveConfig,
    Run,
    neighbour_softmax,
    neighbours_within,
)
from tests.tiny_models import bert_teacher, sentences

RNG = np.random.default_rng(0)
LOSSES = ("margin", "ams", "info_nce", "quick_thought")


def build(encoder: SentenceEncoder, loss: str, **options: object) -> Contrastive:
    torch.manual_seed(0)
    return Contrastive(encoder, ContrastiveConfig(loss=loss, **options))  # type: ignore[arg-type]


def pairs(count: int) -> list[Run]:
    texts = sentences(2 * count)
    return [Run(str(i), (texts[2 * i], texts[2 * i + 1])) for i in range(count)]


def total(objective: Contrastive, encoder: SentenceEncoder, runs: list[Run]) -> float:
    return float(objective.loss(encoder, objective.collate(runs, RNG)).total.detach())


def test_quick_thought_by_hand() -> None:
    """Three sentences in a row; the middle one has two neighbours."""
    scores = torch.tensor([[9.0, 1.0, 2.0], [3.0, 9.0, 1.0], [0.0, 1.0, 9.0]], dtype=torch.float64)
    targets = neighbours_within(torch.zeros(3), torch.arange(3), 1)
    assert targets.tolist() == [[False, True, False], [True, False, True], [False, True, False]]
    rows = [
        math.log(math.exp(1) + math.exp(2)) - 1,
        math.log(math.exp(3) + math.exp(1)) - (3 + 1) / 2,
        math.log(math.exp(0) + math.exp(1)) - 1,
    ]
    assert float(neighbour_softmax(scores, targets)) == pytest.approx(sum(rows) / 3)


def test_a_texts_score_with_itself_has_no_part_in_quick_thought() -> None:
    scores = torch.randn(6, 6, dtype=torch.float64, requires_grad=True)
    targets = neighbours_within(torch.tensor([0, 0, 0, 1, 1, 1]), torch.arange(6) % 3, 1)
    neighbour_softmax(scores, targets).backward()  # type: ignore[no-untyped-call]
    assert scores.grad is not None
    assert scores.grad.diagonal().abs().max() == 0
    assert (scores.grad.abs().sum(dim=1) > 0).all()
    moved = scores.detach() + 100 * torch.eye(6, dtype=torch.float64)
    same = neighbour_softmax(moved, targets), neighbour_softmax(scores.detach(), targets)
    assert float(same[0]) == float(same[1])


def test_quick_thought_and_a_slow_twin() -> None:
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(9, 9, generator=generator, dtype=torch.float64)
    groups, positions = (
        torch.tensor([0] * 4 + [1] * 3 + [2, 2]),
        torch.tensor([0, 1, 2, 3, 0, 1, 2, 0, 1]),
    )
    targets = neighbours_within(groups, positions, 2)
    dropped = torch.zeros(9, 9, dtype=torch.bool)
    dropped[0, 8] = dropped[8, 0] = True
    expected = []
    for i in range(9):
        shares = [
            j
            for j in range(9)
            if groups[i] == groups[j] and 0 < abs(positions[i] - positions[j]) <= 2
        ]
        others = [j for j in range(9) if j != i and not dropped[i, j]]
        lse = math.log(sum(math.exp(scores[i, j]) for j in others))
        expected.append(lse - sum(float(scores[i, j]) for j in shares) / len(shares))
    assert float(neighbour_softmax(scores, targets, dropped)) == pytest.approx(np.mean(expected))


def test_a_text_without_neighbours_does_not_count() -> None:
    scores = torch.zeros(3, 3, requires_grad=True)
    targets = neighbours_within(torch.tensor([0, 0, 1]), torch.tensor([0, 1, 0]), 1)
    assert float(neighbour_softmax(scores, targets).detach()) == pytest.approx(math.log(2))
    nothing = neighbour_softmax(scores, torch.zeros(3, 3, dtype=torch.bool))
    nothing.backward()  # type: ignore[no-untyped-call]
    assert float(nothing.detach()) == 0


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


def test_ams_takes_the_margin_off_the_positives_in_both_directions() -> None:
    encoder = bert_teacher()
    objective = build(encoder, "ams")
    batch = objective.collate(pairs(4), RNG)
    vectors = torch.nn.functional.normalize(
        encoder.pooled(batch["input_ids"], batch["attention_mask"]), dim=1
    )
    scores = 20 * (vectors[:4] @ vectors[4:].T - 0.3 * torch.eye(4))
    target = torch.arange(4)
    losses = [torch.nn.functional.cross_entropy(s, target) for s in (scores, scores.T)]
    expected = torch.stack(losses).mean().detach()
    found = objective.loss(encoder, batch).total
    assert float(found.detach()) == pytest.approx(float(expected), abs=1e-4)


@pytest.mark.parametrize("loss", ["margin", "ams", "info_nce"])
def test_equal_texts_and_one_group_are_no_negatives(loss: str) -> None:
    encoder = bert_teacher()
    objective = build(encoder, loss, ams_margin=0.0)
    same_text = [Run("a", ("water", "rock")), Run("b", ("WATER", "king"))]
    same_group = [Run("a", ("water", "rock")), Run("a", ("sky", "king"))]
    other = [Run("a", ("water", "rock")), Run("b", ("sky", "king"))]
    assert total(objective, encoder, same_text) == pytest.approx(0, abs=1e-6)
    assert total(objective, encoder, same_group) == pytest.approx(0, abs=1e-6)
    assert total(objective, encoder, other) > 1e-6


@pytest.mark.parametrize("loss", LOSSES)
def test_the_order_of_the_groups_does_not_matter(loss: str) -> None:
    encoder = bert_teacher()
    objective = build(encoder, loss)
    runs = pairs(6)
    assert total(objective, encoder, runs) == pytest.approx(
        total(objective, encoder, runs[::-1]), rel=1e-5
    )


@pytest.mark.parametrize("loss", LOSSES)
def test_padding_changes_nothing(loss: str) -> None:
    encoder = bert_teacher()
    objective = build(encoder, loss)
    for module in (encoder, objective):
        module.double()  # in float32, processors without AVX-512 sum 1.2e-6 apart
    batch = objective.collate(pairs(4), RNG)
    wide = {n: torch.nn.functional.pad(batch[n], (0, 5)) for n in ("input_ids", "attention_mask")}
    found = [float(objective.loss(encoder, b).total.detach()) for b in (batch, {**batch, **wide})]
    assert found[0] == pytest.approx(found[1], abs=1e-6)


def test_what_is_a_pair() -> None:
    objective = build(bert_teacher(), "margin")
    rng = random.Random(0)
    session = Group("s", ("water", "rock"), roles=("user", "agent"))
    assert objective.draw(session, rng) == Run("s", ("rock", "water"))
    plain = Group("d", ("water", "rock", "sky"))
    found = {objective.draw(plain, random.Random(seed)) for seed in range(20)}
    assert found == {Run("d", ("water", "rock")), Run("d", ("rock", "sky"))}
    assert objective.draw(Group("one", ("water",)), rng) is None
    assert objective.draw(Group("m", ("water", "rock"), roles=("user", "user")), rng) is None


def test_runs_are_consecutive_and_no_longer_than_asked() -> None:
    objective = build(bert_teacher(), "quick_thought", run=3)
    texts = tuple(sentences(5))
    found = {objective.draw(Group("d", texts), random.Random(seed)) for seed in range(40)}
    assert found == {Run("d", texts[first : first + 3]) for first in range(3)}
    assert objective.draw(Group("d", texts[:2]), random.Random(0)) == Run("d", texts[:2])
    assert objective.draw(Group("d", ("water", " ")), random.Random(0)) is None


def test_quick_thought_ships_both_towers_side_by_side(tmp_path: object) -> None:
    encoder = bert_teacher()
    objective = build(encoder, "quick_thought")
    shipped = objective.export(encoder)
    batch = objective.collate(pairs(3), RNG)
    projected = objective.project(encoder, batch["input_ids"], batch["attention_mask"])
    expected = torch.nn.functional.normalize(projected, dim=1)
    found = shipped(batch["input_ids"], batch["attention_mask"])
    assert found.shape[1] == 2 * encoder.hidden_size
    torch.testing.assert_close(found, expected)
    shipped.save(f"{tmp_path}/model")
    again = SentenceEncoder.load(f"{tmp_path}/model")
    np.testing.assert_allclose(again.encode(["water"]), shipped.encode(["water"]), atol=1e-6)
    assert build(encoder, "ams").export(encoder) is encoder


@pytest.mark.parametrize("loss", LOSSES)
def test_the_loss_falls(loss: str) -> None:
    encoder = bert_teacher(layers=1, width=32)
    objective = build(encoder, loss)
    optimizer = torch.optim.AdamW([*encoder.parameters(), *objective.parameters()], lr=2e-3)
    found = []
    for _ in range(30):
        value = objective.loss(encoder, objective.collate(pairs(12), RNG)).total
        value.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        optimizer.zero_grad()
        found.append(float(value.detach()))
    assert found[-1] < 0.6 * found[0]


def test_bad_settings_are_refused() -> None:
    for options, message in (
        ({"loss": "hinge"}, "loss is 'hinge'"),
        ({"run": 1}, "run is 1"),
        ({"margin": -0.1}, "margin is -0.1"),
        ({"pair_policy": "all"}, "pair_policy"),
    ):
        with pytest.raises(InvalidInputError, match=message):
            ContrastiveConfig(**options)

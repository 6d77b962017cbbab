"""Quick-Thought: its loss by hand and by a slow twin, its runs, and what ships."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
import torch

from pocketquery.server.corpus.groups import Group
from pocketquery_research.objectives.quick_thought import (
    QuickThought,
    QuickThoughtConfig,
    Run,
    neighbour_softmax,
    neighbours_within,
)
from tests.tiny_models import bert_teacher, sentences


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


def test_runs_are_consecutive_and_no_longer_than_asked() -> None:
    objective = QuickThought(bert_teacher(), QuickThoughtConfig(run=3))
    texts = tuple(sentences(5))
    drawn = {objective.draw(Group("d", texts), random.Random(seed)) for seed in range(40)}
    assert drawn == {Run("d", texts[first : first + 3]) for first in range(3)}
    assert objective.draw(Group("d", texts[:2]), random.Random(0)) == Run("d", texts[:2])
    assert objective.draw(Group("d", ("water", " ")), random.Random(0)) is None


def test_both_towers_ship_side_by_side() -> None:
    encoder = bert_teacher()
    objective = QuickThought(encoder)
    batch = objective.collate([Run("d", tuple(sentences(3)))], np.random.default_rng(0))
    projected = objective.project(encoder, batch["input_ids"], batch["attention_mask"])
    vectors = objective.export(encoder)(batch["input_ids"], batch["attention_mask"])
    assert vectors.shape[1] == 2 * encoder.hidden_size
    torch.testing.assert_close(vectors, torch.nn.functional.normalize(projected, dim=1))

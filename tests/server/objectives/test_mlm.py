"""Masked language modelling: labels, masks, the loss's positions, and that it learns."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from pocketquery.server.modeling.vocabulary_cross_entropy import vocabulary_cross_entropy
from pocketquery.server.objectives import build_objective
from pocketquery.server.objectives.mlm import masked_cross_entropy, mlm_loss
from pocketquery.server.objectives.objective import tokenize
from pocketquery.server.objectives.shared.masking import (
    IGNORED,
    bert_mask,
    special_mask,
)
from tests.tiny_models import bert_teacher, sentences

TEACHER = bert_teacher()


def ids_of(count: int) -> torch.Tensor:
    return tokenize(TEACHER.tokenizer, sentences(count), 48)[0]


def test_labels_are_the_original_ids_where_chosen_and_ignored_elsewhere() -> None:
    ids = ids_of(50)
    masked, labels = bert_mask(ids, TEACHER.tokenizer, np.random.default_rng(0))
    chosen = labels != IGNORED
    assert torch.equal(labels[chosen], ids[chosen])
    assert torch.equal(masked[~chosen], ids[~chosen])
    assert not (chosen & special_mask(ids, TEACHER.tokenizer)).any()
    assert chosen.any(dim=1).all()


def test_eight_of_ten_are_masked_one_replaced_one_left() -> None:
    texts = [" ".join(sentences()[i : i + 5]) for i in range(0, 200, 5)]
    ids = tokenize(TEACHER.tokenizer, texts, 48)[0].repeat(50, 1)
    masked, labels = bert_mask(ids, TEACHER.tokenizer, np.random.default_rng(1))
    chosen = labels != IGNORED
    ordinary = ~special_mask(ids, TEACHER.tokenizer)
    share = chosen.sum() / ordinary.sum()
    assert abs(share - 0.15) < 0.01
    hidden = masked[chosen] == TEACHER.tokenizer.mask_token_id
    same = masked[chosen] == ids[chosen]
    assert abs(hidden.float().mean() - 0.8) < 0.02
    assert abs(same.float().mean() - 0.1) < 0.02


def test_two_generators_give_two_masks_and_one_gives_the_same() -> None:
    ids = ids_of(20)
    one, again, other = (
        bert_mask(ids, TEACHER.tokenizer, np.random.default_rng(seed))[0] for seed in (0, 0, 1)
    )
    assert torch.equal(one, again)
    assert not torch.equal(one, other)


def test_the_loss_by_hand_and_nothing_else_counts() -> None:
    torch.manual_seed(0)
    states = torch.randn(2, 3, 5, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(7, 5, dtype=torch.float64)
    labels = torch.tensor([[3, 6, IGNORED], [IGNORED] * 3])
    bias = torch.zeros(7, dtype=torch.float64)

    def scored(rows: torch.Tensor, target: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return vocabulary_cross_entropy(rows, weight, bias, target)

    loss, accuracy = masked_cross_entropy(states, labels, scored)
    by_hand = 0.0
    for column, label in ((0, 3), (1, 6)):
        logits = (weight @ states[0, column]).tolist()
        by_hand += math.log(sum(math.exp(x) for x in logits)) - logits[label]
    assert float(loss.detach()) == pytest.approx(by_hand / 2, rel=1e-12)
    assert 0 <= float(accuracy) <= 1
    loss.backward()  # type: ignore[no-untyped-call]
    assert states.grad is not None
    assert (states.grad.abs().sum(dim=-1) > 0).nonzero().tolist() == [[0, 0], [0, 1]]
    nothing, _ = masked_cross_entropy(states, labels[1:].expand(2, 3), scored)
    assert float(nothing.detach()) == 0


def test_the_loss_is_the_slow_twins() -> None:
    """Against cross entropy over the logits of every position, in one sum of Python floats."""
    objective = build_objective("mlm", TEACHER)
    batch = objective.collate(sentences(12), np.random.default_rng(0))
    found = objective.loss(TEACHER.eval(), batch).parts["mlm"]
    states = TEACHER.states(batch["input_ids"], batch["attention_mask"])
    logits = objective.head(states, TEACHER).double().tolist()  # type: ignore[operator]
    costs = []
    for row, labels in enumerate(batch["labels"].tolist()):
        for column, label in enumerate(labels):
            if label != IGNORED:
                scores = logits[row][column]
                most = max(scores)
                total = most + math.log(sum(math.exp(score - most) for score in scores))
                costs.append(total - scores[label])
    assert len(costs) >= 12
    assert float(found.detach()) == pytest.approx(sum(costs) / len(costs), rel=1e-5)


def test_no_loss_reaches_positions_that_were_not_chosen() -> None:
    objective = build_objective("mlm", TEACHER)
    states = torch.randn(2, 5, TEACHER.hidden_size, requires_grad=True)
    labels = torch.full((2, 5), IGNORED)
    labels[1, 3] = 7
    loss, _ = mlm_loss(states, labels, objective.head, TEACHER)  # type: ignore[arg-type]
    loss.backward()  # type: ignore[no-untyped-call]
    assert states.grad is not None
    touched = states.grad.abs().sum(dim=-1) > 0
    assert touched.nonzero().tolist() == [[1, 3]]


def test_a_batch_without_chosen_tokens_costs_nothing() -> None:
    objective = build_objective("mlm", TEACHER)
    states = torch.randn(2, 5, TEACHER.hidden_size)
    labels = torch.full((2, 5), IGNORED)
    loss, accuracy = mlm_loss(states, labels, objective.head, TEACHER)  # type: ignore[arg-type]
    assert float(loss.detach()) == 0
    assert float(accuracy) == 0

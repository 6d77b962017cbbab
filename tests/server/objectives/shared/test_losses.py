"""The contrastive losses: closed forms, symmetries, false negatives, precision."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pocketquery.server.corpus.groups import Group
from pocketquery.server.modeling import SentenceEncoder
from pocketquery.server.objectives import build_objective
from pocketquery.server.objectives.shared.losses import (
    cosines,
    dots,
    info_nce,
    margin_in_batch,
    ranknet,
    same_text_mask,
)
from tests.tiny_models import bert_teacher


def drawn(rows: int, dim: int = 8, seed: int = 0) -> torch.Tensor:
    return torch.randn(rows, dim, generator=torch.Generator().manual_seed(seed))


def slow_info_nce(scores: torch.Tensor, dropped: torch.Tensor | None = None) -> float:
    """The definition, row by row, with loops."""
    losses = []
    for i in range(len(scores)):
        terms = [
            math.exp(scores[i, j])
            for j in range(scores.shape[1])
            if j == i or dropped is None or not dropped[i, j]
        ]
        losses.append(math.log(sum(terms)) - float(scores[i, i]))
    return sum(losses) / len(losses)


@pytest.mark.parametrize(("rows", "expected"), [(4, 1.36191e-4), (64, 2.85611e-3)])
def test_orthonormal_pairs(rows: int, expected: float) -> None:
    pairs = torch.eye(rows, dtype=torch.float64)
    assert float(info_nce(pairs, pairs, 0.1)) == pytest.approx(expected, rel=1e-5)


def test_info_nce_is_its_definition_with_extra_negatives_and_without() -> None:
    anchors, positives, extra = drawn(5), drawn(5, seed=1), drawn(3, seed=2)
    scores = cosines(anchors, torch.cat([positives, extra])) / 0.2
    found = info_nce(anchors, positives, 0.2, negatives=extra, symmetric=False)
    assert float(found) == pytest.approx(slow_info_nce(scores), rel=1e-5)
    rows = slow_info_nce(scores[:, :5])
    columns = slow_info_nce(scores[:, :5].T)
    assert float(info_nce(anchors, positives, 0.2)) == pytest.approx((rows + columns) / 2, rel=1e-5)


def test_swapping_the_sides_and_scaling_change_nothing() -> None:
    anchors, positives = drawn(6), drawn(6, seed=1)
    loss = float(info_nce(anchors, positives, 0.1))
    assert float(info_nce(positives, anchors, 0.1)) == pytest.approx(loss, rel=1e-5)
    assert float(info_nce(3 * anchors, 0.5 * positives, 0.1)) == pytest.approx(loss, rel=1e-5)


def test_dropped_columns_leave_the_denominator_but_never_the_positive() -> None:
    anchors, positives = drawn(4), drawn(4, seed=1)
    dropped = torch.zeros(4, 4, dtype=torch.bool)
    dropped[0, 2] = dropped[1, 1] = True
    scores = cosines(anchors, positives) / 0.1
    found = info_nce(anchors, positives, 0.1, dropped=dropped, symmetric=False)
    assert float(found) == pytest.approx(slow_info_nce(scores, dropped), rel=1e-5)


def test_a_row_without_negatives_costs_nothing_and_has_no_nan_gradient() -> None:
    anchors = drawn(3).requires_grad_()
    dropped = torch.ones(3, 3, dtype=torch.bool)
    loss = info_nce(anchors, drawn(3, seed=1), 0.1, dropped=dropped)
    loss.backward()  # type: ignore[no-untyped-call]
    assert float(loss.detach()) == pytest.approx(0, abs=1e-6)
    assert anchors.grad is not None
    assert torch.isfinite(anchors.grad).all()


def test_extra_negatives_get_no_gradient() -> None:
    extra = drawn(3, seed=2).requires_grad_()
    info_nce(drawn(4).requires_grad_(), drawn(4, seed=1), 0.1, negatives=extra).backward()  # type: ignore[no-untyped-call]
    assert extra.grad is None


def test_the_hinge_by_hand() -> None:
    scores = torch.tensor([[0.9, 0.85, 0.1], [0.2, 0.5, 0.45], [0.0, 0.3, 0.8]]).requires_grad_()
    loss = margin_in_batch(scores, 0.1)
    loss.backward()  # type: ignore[no-untyped-call]
    assert float(loss.detach()) == pytest.approx(0.0333333, abs=1e-6)
    assert scores.grad is not None
    touched = scores.grad[scores.grad != 0]
    assert sorted(touched.tolist()) == pytest.approx([-1 / 3, -1 / 3, 1 / 3, 1 / 3])


def test_the_collapsed_hinge_is_the_margin_times_the_others() -> None:
    assert float(margin_in_batch(torch.full((4, 4), 0.7), 0.1)) == pytest.approx(0.3)


def test_the_hinge_leaves_false_negatives_out() -> None:
    dropped = torch.zeros(4, 4, dtype=torch.bool)
    dropped[0, 1] = dropped[1, 0] = True
    assert float(margin_in_batch(torch.full((4, 4), 0.7), 0.1, dropped)) == pytest.approx(0.25)


def test_ranknet_by_hand() -> None:
    loss = ranknet(torch.tensor([1.0]), torch.tensor([[0.0, 2.0]]))
    expected = (math.log1p(math.exp(-1)) + math.log1p(math.exp(1))) / 2
    assert float(loss) == pytest.approx(expected)


@given(st.lists(st.text(max_size=6), min_size=1, max_size=6))
def test_a_text_is_the_same_as_itself_whatever_its_case_and_spaces(texts: list[str]) -> None:
    spaced = [f" {text.upper().casefold()}  " for text in texts]
    assert same_text_mask([t.casefold() for t in spaced], spaced).diagonal().all()


def test_other_texts_are_other() -> None:
    found = same_text_mask(["Hello  there", "bye"], ["hello there", "hi"])
    assert found.tolist() == [[True, False], [False, False]]


def test_cosines_stay_in_float32_under_autocast() -> None:
    a, b = drawn(6, 64), drawn(6, 64, seed=1)
    with torch.autocast("cpu", torch.bfloat16):
        found = cosines(a.bfloat16(), b)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, cosines(a.bfloat16().float(), b))


def test_dot_products_stay_in_float32_under_autocast() -> None:
    a, b = drawn(6, 64), drawn(5, 64, seed=1)
    with torch.autocast("cpu", torch.bfloat16):
        found = dots(a, b)
    assert torch.equal(found, a @ b.T)
    assert dots(a.double(), b.double()).dtype == torch.float64


@pytest.mark.parametrize(
    ("name", "options", "group"),
    [
        ("fine_tune", {"negatives": 1}, Group("1", ("A question?", "Its answer.", "No answer."))),
        ("ict", {"similarity": "dot"}, Group("1", ("One sentence.", "Two.", "Three of them."))),
        ("ict", {"similarity": "cosine"}, Group("1", ("One sentence.", "Two.", "Three of them."))),
    ],
)
def test_scores_are_not_rounded_to_16_bits(name: str, options: Any, group: Group) -> None:
    """They are divided by a temperature of some hundredths: what is rounded shows."""
    teacher = bert_teacher()
    objective = build_objective(name, teacher, options)
    rng = random.Random(0)
    groups = [
        replace(group, id=str(i), texts=tuple(f"{text} {i}" for text in group.texts))
        for i in range(4)
    ]
    batch = objective.collate([objective.draw(g, rng) for g in groups], np.random.default_rng(0))

    class Fixed(SentenceEncoder):
        """Vectors that no precision of its own has touched."""

        def pooled(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
            seeds = (ids * mask).sum(dim=1).tolist()
            return torch.cat([drawn(1, 32, seed=seed) for seed in seeds])

    encoder = Fixed(teacher.backbone, teacher.tokenizer)
    plain = objective.loss(encoder, batch).total
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(objective.loss(encoder, batch).total, plain)


def test_a_zero_row_has_cosine_zero() -> None:
    assert cosines(torch.zeros(1, 4), drawn(2, 4)).abs().max() == 0


DRAWN = torch.Generator().manual_seed(3)
FIRST, SECOND, EXTRA = (
    torch.randn(4, 5, generator=DRAWN, dtype=torch.float64, requires_grad=True) for _ in range(3)
)
DROPPED = torch.tensor([[0, 1, 0, 0], [0, 0, 0, 0], [0, 0, 0, 1], [1, 0, 0, 0]], dtype=torch.bool)


@pytest.mark.parametrize(
    "loss",
    [
        lambda a, b: info_nce(a, b, 0.3),
        lambda a, b: info_nce(
            a, b, 0.3, negatives=EXTRA, dropped=torch.cat([DROPPED, ~DROPPED], 1), symmetric=False
        ),
        lambda a, b: margin_in_batch(cosines(a, b), 0.4, DROPPED),
        lambda a, b: ranknet(dots(a, b)[:, 0], dots(a, b)[:, 1:]),
    ],
)
def test_gradients_are_those_of_finite_differences(loss: Any) -> None:
    assert torch.autograd.gradcheck(loss, (FIRST, SECOND))

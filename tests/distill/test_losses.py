from __future__ import annotations

import math

import pytest
import torch
from torch.nn.functional import normalize

from pocketquery.distill.losses import cosine_loss, ranking_loss, share_loss

F64 = torch.float64


def unit(*shape: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return normalize(torch.randn(*shape, generator=generator, dtype=F64), dim=-1)


def test_cosine_loss_by_hand() -> None:
    student = torch.tensor([[1.0, 0.0], [0.0, 2.0], [3.0, 4.0]])
    teacher = torch.tensor([[1.0, 0.0], [0.0, -1.0], [1.0, 0.0]])
    assert cosine_loss(student, teacher).item() == pytest.approx((0 + 2 + 0.4) / 3)


def test_ranking_loss_by_hand() -> None:
    documents = torch.eye(2, dtype=F64)
    teacher = torch.tensor([[1.0, 0.0]], dtype=F64)
    student = torch.tensor([[0.0, 1.0]], dtype=F64)
    # softmax of (1, 0) and of (0, 1) at temperature 1: p = e/(1+e), KL = p - (1 - p)
    p = math.e / (1 + math.e)
    expected = 2 * p - 1
    assert ranking_loss(student, teacher, documents, 1.0).item() == pytest.approx(expected)


def test_ranking_loss_equals_a_slow_twin() -> None:
    student, teacher, documents = unit(5, 8), unit(5, 8, seed=1), unit(9, 8, seed=2)
    total = 0.0
    for s, t in zip(student, teacher, strict=True):
        p = torch.softmax(documents @ t / 0.05, 0)
        q = torch.softmax(documents @ s / 0.05, 0)
        total += float((p * (p.log() - q.log())).sum())
    assert ranking_loss(student, teacher, documents).item() == pytest.approx(total / 5)


def test_losses_vanish_where_student_and_teacher_agree() -> None:
    vectors, documents = unit(6, 8), unit(9, 8, seed=2)
    assert cosine_loss(vectors, vectors).item() == pytest.approx(0, abs=1e-12)
    assert ranking_loss(vectors, vectors, documents).item() == pytest.approx(0, abs=1e-12)


def test_cosine_and_ranking_know_a_rotation() -> None:
    teacher, documents = unit(6, 8), unit(9, 8, seed=2)
    rotation = torch.linalg.qr(
        torch.randn(8, 8, generator=torch.Generator().manual_seed(3)).double()
    )[0]
    rotated = teacher @ rotation
    assert cosine_loss(rotated, teacher).item() > 0.1
    assert ranking_loss(rotated, teacher, documents).item() > 0.1


def test_no_gradient_reaches_the_teacher() -> None:
    student, teacher = unit(4, 8).requires_grad_(), unit(4, 8, seed=1).requires_grad_()
    loss = cosine_loss(student, teacher) + ranking_loss(student, teacher, unit(9, 8, seed=2))
    loss.backward()  # type: ignore[no-untyped-call]
    assert teacher.grad is None
    assert student.grad is not None


def test_gradients_are_those_of_finite_differences() -> None:
    student, teacher, documents = (
        unit(4, 6).requires_grad_(),
        unit(4, 6, seed=1),
        unit(7, 6, seed=2),
    )
    assert torch.autograd.gradcheck(lambda s: cosine_loss(s, teacher), student)
    assert torch.autograd.gradcheck(lambda s: ranking_loss(s, teacher, documents, 0.1), student)


def test_document_order_does_not_matter() -> None:
    student, teacher, documents = unit(4, 8), unit(4, 8, seed=1), unit(9, 8, seed=2)
    loss = ranking_loss(student, teacher, documents).item()
    assert ranking_loss(student, teacher, documents.flip(0)).item() == pytest.approx(loss)


def test_shares_are_met_where_the_student_ranks_by_them() -> None:
    student, documents = unit(5, 8, seed=1), unit(9, 8, seed=2)
    shares = torch.softmax(student @ documents.T / 0.05, dim=-1)
    assert share_loss(student, shares, documents).item() == pytest.approx(0, abs=1e-6)
    assert share_loss(unit(5, 8, seed=3), shares, documents).item() > 0.1
    certain = torch.nn.functional.one_hot(torch.arange(5), 9).to(student)
    wanted = torch.nn.functional.cross_entropy(student @ documents.T / 0.05, torch.arange(5))
    assert share_loss(student, certain, documents).item() == pytest.approx(wanted.item())

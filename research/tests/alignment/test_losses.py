"""The losses of alignment: by hand, their twins, and their gradients."""

from __future__ import annotations

import math

import pytest
import torch

from pocketquery_research.alignment.losses import nce_loss, raw_loss, triplet_loss

ONE, OTHER = torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 1.0]])


def rows(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_the_raw_loss_is_the_squared_distance_a_dimension() -> None:
    assert raw_loss(torch.tensor([[3.0, 0.0]]), OTHER).item() == 5  # (9 + 1) / 2


def test_the_triplet_loss_by_hand() -> None:
    assert triplet_loss(ONE, ONE, OTHER[None], 0.1).item() == 0
    assert triplet_loss(ONE, OTHER, ONE[None], 0.1).item() == pytest.approx(1.1)
    same = triplet_loss(ONE, ONE, ONE[None], 0.1)
    assert same.item() == pytest.approx(0.1)
    slanted = torch.tensor([[[3.0, 4.0], [0.0, -1.0]]])  # cosines 0.6 and 0
    found = triplet_loss(7 * ONE, OTHER, slanted, 0.1)
    assert found.item() == pytest.approx((0.7 + 0.1) / 2)


def test_the_nce_loss_equals_the_loop_and_drops_what_is_relevant() -> None:
    u, p, n = rows(3, 8), rows(3, 8, seed=1), rows(4, 8, seed=2)
    dropped = torch.zeros(3, 7, dtype=torch.bool)
    dropped[0, 1] = dropped[2, 5] = dropped[1, 1] = True  # [1, 1] is the positive: never dropped
    documents = torch.cat([p, n])
    terms = []
    for i in range(3):
        scores = [
            math.exp(torch.cosine_similarity(u[i], documents[j], dim=0).item() / 0.05)
            for j in range(7)
            if j == i or not dropped[i, j]
        ]
        own = math.exp(torch.cosine_similarity(u[i], p[i], dim=0).item() / 0.05)
        terms.append(-math.log(own / sum(scores)))
    assert nce_loss(u, p, n, dropped).item() == pytest.approx(sum(terms) / 3)


def test_documents_get_no_gradient_and_queries_the_right_one() -> None:
    u, p = rows(3, 5).requires_grad_(True), rows(3, 5, seed=1).requires_grad_(True)
    n = rows(3, 2, 5, seed=2).requires_grad_(True)
    none = torch.zeros(3, 9, dtype=torch.bool)
    total = raw_loss(u, p) + triplet_loss(u, p, n) + nce_loss(u, p, n.flatten(0, 1), none)
    gradients = torch.autograd.grad(total, (u, p, n), allow_unused=True)
    assert gradients[0] is not None
    assert all(gradient is None for gradient in gradients[1:])
    assert torch.autograd.gradcheck(
        lambda u: triplet_loss(u, p, n, 2.5) + nce_loss(u, p, n[:, 0], none[:, :6]), (u,)
    )

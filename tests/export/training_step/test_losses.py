from __future__ import annotations

import math

import pytest
import torch
from torch.nn import functional

from pocketquery.export.training_step.losses import (
    anchor_loss,
    byol_loss,
    opened_loss,
    ranking_loss,
)

HOT = torch.tensor(0.05)


def _rows(*shape: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return functional.normalize(torch.randn(*shape, generator=generator), dim=-1)


def test_ranking_loss_by_hand() -> None:
    # One query, two documents along the axes. The target scores them (1, 0), the view (0, 1).
    target, online = torch.tensor([[1.0, 0.0]]), torch.tensor([[[0.0, 1.0]]])
    p = 1 / (1 + math.exp(-2))  # temperature 0.5: softmax(2, 0)
    expected = p * math.log(p / (1 - p)) + (1 - p) * math.log((1 - p) / p)
    found = ranking_loss(online, target, torch.eye(2)[None], torch.tensor(0.5))
    assert found.item() == pytest.approx(expected, rel=1e-6)


def test_ranking_loss_equals_the_loop() -> None:
    online, target, documents = _rows(2, 3, 8), _rows(3, 8, seed=1), _rows(3, 5, 8, seed=2)
    terms = []
    for view in online:
        for query, aim, own in zip(view, target, documents, strict=True):
            wanted = torch.softmax(own @ aim / HOT, 0)
            found = torch.softmax(own @ query / HOT, 0)
            terms.append((wanted * (wanted / found).log()).sum())
    expected = torch.stack(terms).mean()
    torch.testing.assert_close(ranking_loss(online, target, documents, HOT), expected)


def test_ranking_loss_sees_the_ranking_alone() -> None:
    online, documents = _rows(2, 3, 8), _rows(3, 5, 8, seed=2)
    assert ranking_loss(online[:1], online[0], documents, HOT).item() == pytest.approx(0, abs=1e-6)
    shuffled = documents[:, [4, 2, 0, 1, 3]]
    torch.testing.assert_close(
        ranking_loss(online, online[1], documents, HOT),
        ranking_loss(online, online[1], shuffled, HOT),
    )
    # What is orthogonal to every document can turn freely; what is not cannot.
    turned = functional.normalize(online + torch.linalg.svd(documents[0])[2][-1], dim=-1)
    assert ranking_loss(turned, online[0], documents, HOT) > 0


def test_ranking_loss_pulls_towards_the_target() -> None:
    online = _rows(1, 4, 8).requires_grad_(True)
    target, documents = _rows(4, 8, seed=1), _rows(4, 20, 8, seed=2)
    before = ranking_loss(online, target, documents, HOT)
    (gradient,) = torch.autograd.grad(before, online)
    assert ranking_loss(online - 1e-3 * gradient, target, documents, HOT) < before


def test_byol_pairs_each_view_with_the_other_clean_one() -> None:
    z1, z2 = _rows(3, 8, seed=1), _rows(3, 8, seed=2)
    targets = torch.stack([z1, z2])

    def d(q: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
        return -(q * z).sum(-1).mean()

    q = _rows(4, 3, 8)
    torch.testing.assert_close(byol_loss(q[:2], targets), (d(q[0], z2) + d(q[1], z1)) / 2)
    four = (d(q[0], z2) + d(q[1], z1) + d(q[2], z1) + d(q[3], z2)) / 4
    torch.testing.assert_close(byol_loss(q, targets), four)


def test_byol_does_not_see_lengths_and_ends_at_minus_one() -> None:
    targets = _rows(2, 3, 8)
    swapped = torch.stack([targets[1], targets[0]])
    assert byol_loss(7 * swapped, targets).item() == pytest.approx(-1)
    assert byol_loss(-swapped, targets).item() == pytest.approx(1)


def test_anchor_loss_is_one_minus_the_cosine() -> None:
    vectors = _rows(4, 8)
    assert anchor_loss(vectors, vectors).item() == pytest.approx(0, abs=1e-6)
    assert anchor_loss(vectors, -vectors).item() == pytest.approx(2)
    assert anchor_loss(torch.eye(2), torch.eye(2).flip(0)).item() == 1


def test_opened_loss_by_hand() -> None:
    vectors, shown = torch.tensor([[1.0, 0.0]]), torch.eye(2)[None]
    chance = math.exp(2) / (math.exp(2) + 1)
    one, mask = torch.ones(1), torch.ones(1, 2)
    for opened, expected in ((0, -math.log(chance)), (1, -math.log(1 - chance))):
        row = torch.tensor([opened])
        found = opened_loss(vectors, shown, mask, row, one, torch.tensor(0.5))
        assert found.item() == pytest.approx(expected, rel=1e-6)


def test_opened_loss_counts_what_was_opened_and_nothing_else() -> None:
    vectors, shown = _rows(3, 8), _rows(3, 4, 8, seed=1)
    opened = torch.tensor([0, 3, 1])
    mask = torch.ones(3, 4)

    def loss(weight: list[float], mask: torch.Tensor = mask) -> float:
        return opened_loss(vectors, shown, mask, opened, torch.tensor(weight), HOT).item()

    assert loss([0, 1, 0]) == pytest.approx(
        opened_loss(vectors[1:2], shown[1:2], mask[:1], opened[1:2], torch.ones(1), HOT).item()
    )
    assert loss([1, 1, 1]) == pytest.approx(loss([5, 5, 5]))
    padded = torch.tensor([[1.0, 1, 1, 0], [1, 1, 1, 1], [1, 1, 1, 1]])
    alone = opened_loss(vectors[:1], shown[:1, :3], mask[:1, :3], opened[:1], torch.ones(1), HOT)
    assert loss([1, 0, 0], padded) == pytest.approx(alone.item())


def test_opened_loss_without_anything_opened_is_zero_with_zero_gradient() -> None:
    vectors = _rows(3, 8).requires_grad_(True)
    nothing = torch.zeros(3)
    for mask in (torch.ones(3, 1), torch.zeros(3, 1)):
        loss = opened_loss(
            vectors, torch.zeros(3, 1, 8), mask, nothing.to(torch.int64), nothing, HOT
        )
        assert loss.item() == 0
        assert torch.autograd.grad(loss, vectors)[0].abs().max() == 0

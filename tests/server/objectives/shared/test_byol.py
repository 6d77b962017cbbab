"""The directional loss: by hand, its twin, its symmetries, and where its gradient goes."""

from __future__ import annotations

import pytest
import torch

from pocketquery.export.training_step import losses as training_losses
from pocketquery.server.objectives.shared.byol import byol_loss, std_ratio


def rows(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def d(q: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
    """-cos, row by row, written out."""
    cosines = [(a * b).sum() / (a.norm() * b.norm()) for a, b in zip(q, z, strict=True)]
    return -torch.stack(cosines).mean()


def test_parallel_is_minus_one_orthogonal_zero_and_lengths_do_not_count() -> None:
    one = torch.tensor([[3.0, 4.0]])
    across = torch.tensor([[-4.0, 3.0]])
    assert byol_loss(torch.stack([one, 5 * one]), torch.stack([one, 2 * one])).item() == -1
    assert byol_loss(torch.stack([one, one]), torch.stack([across, across])).item() == 0
    assert byol_loss(torch.stack([one, one]), torch.stack([-one, -one])).item() == 1
    # 1/2 [D(q1, z2) + D(q2, z1)]: cosines 0.6 and 1.
    q = torch.tensor([[[1.0, 0.0]], [[0.0, 1.0]]])
    z = torch.tensor([[[0.0, 7.0]], [[3.0, 4.0]]])
    assert byol_loss(q, z).item() == pytest.approx(-0.8)


def test_four_views_are_the_mean_of_their_parts() -> None:
    q, z = rows(4, 3, 8), rows(2, 3, 8, seed=1)
    parts = [d(q[0], z[1]), d(q[1], z[0]), d(q[2], z[0]), d(q[3], z[1])]
    torch.testing.assert_close(byol_loss(q, z), torch.stack(parts).mean())
    same = rows(1, 3, 8).expand(4, 3, 8)
    assert byol_loss(same, same[:2]).item() == pytest.approx(-1)


def test_the_reverse_direction_takes_its_share_from_the_heavy_terms() -> None:
    q, z = rows(4, 3, 8), rows(4, 3, 8, seed=1)
    light = d(q[0], z[1]) + d(q[1], z[0])
    heavy = d(q[2], z[0]) + d(q[3], z[1])
    reverse = d(q[0], z[2]) + d(q[1], z[3])
    expected = (light + 0.9 * heavy + 0.1 * reverse) / 4
    torch.testing.assert_close(byol_loss(q, z, 0.1), expected)
    same = rows(1, 3, 8).expand(4, 3, 8)
    assert byol_loss(same, same, 0.3).item() == pytest.approx(-1)


def test_exchanging_the_views_with_their_heavy_ones_changes_nothing() -> None:
    q, z = rows(4, 3, 8), rows(2, 3, 8, seed=1)
    torch.testing.assert_close(byol_loss(q, z), byol_loss(q[[1, 0, 3, 2]], z[[1, 0]]))
    order = torch.tensor([2, 0, 1])
    torch.testing.assert_close(byol_loss(q, z), byol_loss(q[:, order], z[:, order]))
    assert byol_loss(q, z) != byol_loss(q[[0, 1, 3, 2]], z)


def test_heavy_views_get_a_gradient_and_are_no_targets() -> None:
    q = rows(4, 3, 8).requires_grad_(True)
    z = rows(4, 3, 8, seed=1).requires_grad_(True)
    byol_loss(q, z).backward()  # type: ignore[no-untyped-call]
    assert q.grad is not None
    assert z.grad is not None
    assert (q.grad.flatten(1).abs().sum(dim=1) > 0).all()
    assert (z.grad.flatten(1).abs().sum(dim=1) > 0).tolist() == [True, True, False, False]


def test_the_gradient_is_right() -> None:
    q, z = rows(4, 2, 5).requires_grad_(True), rows(4, 2, 5, seed=1).requires_grad_(True)
    assert torch.autograd.gradcheck(lambda q, z: byol_loss(q, z, 0.3), (q, z))


def test_the_device_has_the_same_loss() -> None:
    assert training_losses.byol_loss is byol_loss


def test_spread_of_random_directions_is_one_and_of_one_direction_zero() -> None:
    assert std_ratio(rows(4096, 64)).item() == pytest.approx(1, abs=0.02)
    assert std_ratio(rows(1, 64).expand(10, 64)).item() == pytest.approx(0, abs=1e-6)
    opposite = torch.tensor([[1.0, 0.0], [-1.0, 0.0]])  # std (1, 0) over the rows
    assert std_ratio(opposite).item() == pytest.approx(2**0.5 / 2)

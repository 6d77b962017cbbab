"""BYOL: its loss by hand and against loops, and the target that follows."""

from __future__ import annotations

import pytest
import torch

from pocketquery.export.training_step import losses as training_losses
from pocketquery.server.objectives.shared.byol import (
    byol_loss,
    momentum_at,
    std_ratio,
    update_target,
)


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
    assert torch.autograd.gradcheck(lambda q, z: byol_loss(q, z), (q, z))


def test_the_device_has_the_same_loss() -> None:
    assert training_losses.byol_loss is byol_loss


def test_spread_of_random_directions_is_one_and_of_one_direction_zero() -> None:
    assert std_ratio(rows(4096, 64)).item() == pytest.approx(1, abs=0.02)
    assert std_ratio(rows(1, 64).expand(10, 64)).item() == pytest.approx(0, abs=1e-6)
    opposite = torch.tensor([[1.0, 0.0], [-1.0, 0.0]])  # std (1, 0) over the rows
    assert std_ratio(opposite).item() == pytest.approx(2**0.5 / 2)


def test_after_fifty_steps_the_target_is_where_the_closed_form_says() -> None:
    start, online = torch.tensor([2.0, -1.0, 0.5]).double(), torch.tensor([0.0, 3.0, 0.5]).double()
    target = start.clone()
    for _ in range(50):
        update_target([online], [target], 0.9)
    torch.testing.assert_close(target, online + 0.9**50 * (start - online))


@pytest.mark.parametrize(("momentum", "steps"), [(0.99, 69), (0.996, 173), (0.999, 693)])
def test_half_the_way_takes_as_many_steps_as_the_momentum_says(momentum: float, steps: int) -> None:
    target = torch.zeros(1, dtype=torch.float64)
    for _ in range(steps):
        update_target([torch.ones(1, dtype=torch.float64)], [target], momentum)
    assert target.item() == pytest.approx(0.5, abs=0.002)


def test_without_momentum_it_is_a_copy_and_with_all_of_it_stays() -> None:
    online, target = [torch.randn(3, 2), torch.randn(2)], [torch.randn(3, 2), torch.randn(2)]
    before = [t.clone() for t in target]
    update_target(online, target, 1.0)
    assert all(torch.equal(a, b) for a, b in zip(target, before, strict=True))
    update_target(online, target, 0.0)
    assert all(torch.equal(a, b) for a, b in zip(target, online, strict=True))


def test_it_leaves_no_graph_behind() -> None:
    online, target = torch.randn(3, requires_grad=True), torch.randn(3)
    update_target([online], [target], 0.5)
    assert not target.requires_grad


def test_targets_of_another_shape_are_refused() -> None:
    with pytest.raises(ValueError, match="zip"):
        update_target([torch.ones(1)], [], 0.5)


def test_rows_that_the_network_has_gained_since_are_none_of_the_copys() -> None:
    online, target = torch.arange(8.0).view(4, 2), torch.zeros(3, 2)
    update_target([online], [target], 0.5)
    assert torch.equal(target, online[:3] / 2)
    for other in (torch.ones(2, 2), torch.ones(4, 3)):  # fewer rows, and another width
        with pytest.raises(RuntimeError, match="must match"):
            update_target([other], [target], 0.5)


def test_the_cosine_rises_to_one() -> None:
    values = [momentum_at(step, 100, 0.9) for step in range(101)]
    assert values[0] == pytest.approx(0.9)
    assert values[50] == pytest.approx(0.95)
    assert values[100] == pytest.approx(1)
    assert values == sorted(values)

"""Target networks: the closed form of their way, and its schedule."""

from __future__ import annotations

import pytest
import torch

from pocketquery.sdk.errors import InvalidInputError
from pocketquery.server.objectives.shared.byol import momentum_at, update_target


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
    assert momentum_at(70, 100, 0.9, "constant") == 0.9
    with pytest.raises(InvalidInputError, match="cosine or constant"):
        momentum_at(0, 1, 0.9, "linear")

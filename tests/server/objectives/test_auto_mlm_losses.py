"""Auto-MLM's terms by hand: the hinge's values and gradient, and the vector's path into MLM."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

from pocketquery.server.objectives.auto_mlm import active_pairs, conditioned_states
from pocketquery.server.objectives.shared.losses import cosines, margin_in_batch
from pocketquery.server.objectives.shared.masking import IGNORED

COSINES = [[0.9, 0.85, 0.1], [0.2, 0.5, 0.45], [0.0, 0.3, 0.8]]
NONE = torch.zeros(3, 3, dtype=torch.bool)


def scores() -> torch.Tensor:
    return torch.tensor(COSINES, dtype=torch.float64, requires_grad=True)


def hinge_as_printed(found: torch.Tensor, margin: float) -> torch.Tensor:
    """The paper's formula to the letter: from the second row on, the margin subtracted."""
    total = found.new_zeros(())
    for i in range(1, len(found)):
        for j in range(len(found)):
            if i != j:
                total = total + torch.relu(found[i, j] - found[i, i] - margin)
    return total / len(found)


def hinge_in_loops(found: torch.Tensor, margin: float, dropped: torch.Tensor) -> float:
    total = 0.0
    for i in range(len(found)):
        for j in range(len(found)):
            if i != j and not dropped[i, j]:
                total += max(0.0, margin - float(found[i, i]) + float(found[i, j]))
    return total / len(found)


def test_the_hinge_and_its_gradient_by_hand() -> None:
    found = scores()
    loss = margin_in_batch(found, 0.1, NONE)
    assert float(loss.detach()) == pytest.approx(0.0333333, abs=1e-7)
    (gradient,) = torch.autograd.grad(loss, found)
    third = 1 / 3
    expected = [[-third, third, 0], [0, -third, third], [0, 0, 0]]
    assert gradient.tolist() == [pytest.approx(row) for row in expected]
    assert float(hinge_as_printed(found, 0.1).detach()) == 0


def test_equal_cosines_cost_the_margin_for_each_negative() -> None:
    equal = torch.full((4, 4), 0.7, dtype=torch.float64)
    none = torch.zeros(4, 4, dtype=torch.bool)
    assert float(margin_in_batch(equal, 0.1, none)) == pytest.approx(0.3, abs=1e-12)
    assert float(hinge_as_printed(equal, 0.1)) == 0


def test_collapse_is_a_stationary_point() -> None:
    agents = torch.ones(4, 6, dtype=torch.float64, requires_grad=True)
    users = torch.ones(4, 6, dtype=torch.float64)
    loss = margin_in_batch(cosines(agents, users), 0.1, torch.zeros(4, 4, dtype=torch.bool))
    (gradient,) = torch.autograd.grad(loss, agents)
    assert float(gradient.abs().max()) < 1e-12


def test_the_hinge_agrees_with_plain_loops() -> None:
    generator = torch.Generator().manual_seed(0)
    for n in (2, 3, 7):
        found = torch.rand(n, n, generator=generator, dtype=torch.float64) * 2 - 1
        dropped = torch.rand(n, n, generator=generator) < 0.3
        expected = hinge_in_loops(found, 0.2, dropped)
        assert float(margin_in_batch(found, 0.2, dropped)) == pytest.approx(expected, abs=1e-12)


def test_the_order_of_the_pairs_is_free_and_the_sides_are_not() -> None:
    found, order = scores().detach(), torch.tensor([2, 0, 1])
    loss = margin_in_batch(found, 0.1, NONE)
    assert float(margin_in_batch(found[order][:, order], 0.1, NONE)) == pytest.approx(float(loss))
    assert float(margin_in_batch(found.T, 0.1, NONE)) != pytest.approx(float(loss), abs=1e-3)


def test_the_share_of_active_pairs_by_hand() -> None:
    assert float(active_pairs(scores().detach(), 0.1, NONE)) == pytest.approx(2 / 6)
    dropped = NONE.clone()
    dropped[0, 1] = True
    assert float(active_pairs(scores().detach(), 0.1, dropped)) == pytest.approx(1 / 5)
    assert float(active_pairs(scores().detach(), 0.1, ~NONE)) == 0


def test_every_masked_position_gets_the_vector_of_its_own_sentence() -> None:
    states = torch.arange(12.0).reshape(2, 3, 2)
    vectors = torch.tensor([[100.0, 200.0], [300.0, 400.0]])
    labels = torch.tensor([[IGNORED, 5, 6], [7, IGNORED, IGNORED]])
    joined = conditioned_states(states, vectors, labels)
    assert joined.tolist() == [[102, 203], [104, 205], [306, 407]]


def test_the_vectors_gradient_is_the_sum_over_its_masked_positions() -> None:
    generator = torch.Generator().manual_seed(0)

    def draw(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    states, vectors = draw(2, 4, 3).requires_grad_(), draw(2, 3).requires_grad_()
    decoder = draw(3, 9)
    labels = torch.tensor([[IGNORED, 5, 6, 1], [7, IGNORED, IGNORED, 0]])

    def loss(found: torch.Tensor, given: torch.Tensor) -> torch.Tensor:
        logits = conditioned_states(found, given, labels).tanh() @ decoder
        target = labels[labels != IGNORED]
        return functional.cross_entropy(logits, target)

    assert torch.autograd.gradcheck(loss, (states, vectors))
    to_states, to_vectors = torch.autograd.grad(loss(states, vectors), (states, vectors))
    assert torch.allclose(to_vectors, to_states.sum(dim=1), atol=1e-12)
    assert float(to_states[labels == IGNORED].abs().max()) == 0
    without = loss(states, torch.zeros_like(vectors))
    assert float((loss(states, vectors) - without).detach().abs()) > 1e-3

"""The cross entropy that never holds all logits, against torch's that does."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional

from pocketquery.server.modeling import vocabulary_cross_entropy as module
from pocketquery.server.modeling.vocabulary_cross_entropy import vocabulary_cross_entropy


def drawn(
    rows: int, vocabulary: int, seed: int = 0, dtype: torch.dtype = torch.float64
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """States, table and bias that want gradients, and targets."""
    generator = torch.Generator().manual_seed(seed)
    made = (
        torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype).requires_grad_()
        for shape in ((rows, 6), (vocabulary, 6), (vocabulary,))
    )
    return *made, torch.randint(vocabulary, (rows,), generator=generator)  # type: ignore[return-value]


def whole(
    states: torch.Tensor, table: torch.Tensor, bias: torch.Tensor, target: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """All logits at once."""
    logits = functional.linear(states, table, bias)
    total = functional.cross_entropy(logits, target, reduction="sum")
    return total, (logits.argmax(dim=1) == target).sum()


@given(st.integers(0, 23), st.integers(2, 11), st.integers(1, 60), st.integers(0, 99))
def test_value_and_gradients_are_those_of_all_logits_at_once(
    rows: int, vocabulary: int, logits: int, seed: int
) -> None:
    """However many rows fit at a time: from one to all."""
    inputs = drawn(rows, vocabulary, seed)
    expected, expected_right = whole(*inputs)
    kept, module._LOGITS["cpu"] = module._LOGITS["cpu"], logits
    try:
        total, right = vocabulary_cross_entropy(*inputs)
    finally:
        module._LOGITS["cpu"] = kept
    torch.testing.assert_close(total, expected)
    assert int(right) == int(expected_right)
    found = torch.autograd.grad(total / 3, inputs[:3])
    for one, other in zip(found, torch.autograd.grad(expected / 3, inputs[:3]), strict=True):
        torch.testing.assert_close(one, other)


def test_gradients_by_differences() -> None:
    *inputs, target = drawn(5, 7)
    assert torch.autograd.gradcheck(
        lambda states, table, bias: vocabulary_cross_entropy(states, table, bias, target)[0],
        tuple(inputs),
    )


def test_a_gradient_can_be_taken_twice() -> None:
    """As where the losses' gradient norms are looked at before the step."""
    inputs = drawn(4, 5)
    total, _ = vocabulary_cross_entropy(*inputs)
    (first,) = torch.autograd.grad(total, inputs[0], retain_graph=True)
    (second,) = torch.autograd.grad(2 * total, inputs[0])
    torch.testing.assert_close(second, 2 * first)


def test_without_gradients() -> None:
    inputs = drawn(4, 5)
    with torch.no_grad():
        total, _ = vocabulary_cross_entropy(*inputs)
    assert not total.requires_grad
    torch.testing.assert_close(total, whole(*inputs)[0].detach())


def test_large_logits_overflow_nothing() -> None:
    states, table, bias, target = drawn(3, 5, dtype=torch.float32)
    total, _ = vocabulary_cross_entropy(1e4 * states, table, bias, target)
    (to_states,) = torch.autograd.grad(total, states)
    assert torch.isfinite(total)
    assert torch.isfinite(to_states).all()
    torch.testing.assert_close(total, whole(1e4 * states, table, bias, target)[0])


def test_under_autocast_products_are_rounded_and_sums_are_not() -> None:
    inputs = drawn(64, 500, dtype=torch.float32)
    exact, _ = whole(*inputs)
    with torch.autocast("cpu", torch.bfloat16):
        total, _ = vocabulary_cross_entropy(*inputs)
    assert total.dtype == torch.float32
    assert float(total.detach()) != float(exact.detach())
    torch.testing.assert_close(total, exact, rtol=1e-2, atol=0)
    found = torch.autograd.grad(total, inputs[:3])
    for one, other in zip(found, torch.autograd.grad(exact, inputs[:3]), strict=True):
        assert one.dtype == torch.float32
        cosine = functional.cosine_similarity(one.flatten(), other.flatten(), dim=0)
        assert float(cosine) == pytest.approx(1, abs=1e-3)

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

from pocketquery.export.training_step.gelu import gelu


def test_values_and_derivative_are_torch_s() -> None:
    inputs = torch.linspace(-30, 30, 2001, requires_grad=True)
    weights = torch.linspace(-2, 3, 2001)
    found, expected = gelu(inputs), functional.gelu(inputs)
    torch.testing.assert_close(found, expected, atol=1e-6, rtol=1e-6)
    (left,) = torch.autograd.grad(found, inputs, weights)
    (right,) = torch.autograd.grad(expected, inputs, weights)
    torch.testing.assert_close(left, right, atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("value", [0.0, -0.7, 1.3])
def test_the_derivative_is_the_limit_of_differences(value: float) -> None:
    inputs = torch.tensor(value, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(gelu, (inputs,))

from __future__ import annotations

import numpy as np
import pytest
import torch

from pocketquery.export.training_step.heads import PROJECTION, head_sizes, initial_heads, project


def _heads(dimension: int) -> dict[str, torch.Tensor]:
    return {name: torch.from_numpy(value) for name, value in initial_heads(dimension).items()}


def test_sizes_are_the_report_s() -> None:
    assert head_sizes(64) == {"projector": (64, 256, 64), "predictor": (64, 128, 128, 64)}
    assert head_sizes(384)["projector"][-1] == PROJECTION == head_sizes(384)["predictor"][-1]


def test_the_same_seed_draws_the_same_heads() -> None:
    first, second, other = initial_heads(16), initial_heads(16), initial_heads(16, seed=1)
    assert all(np.array_equal(first[name], second[name]) for name in first)
    assert not np.array_equal(first["projector.0.weight"], other["projector.0.weight"])
    assert all(value.dtype == np.float32 for value in first.values())
    biases = {name for name in first if name.endswith(".bias") and ".norm." not in name}
    assert biases == {"predictor.2.bias"}


def test_projection_equals_torch_modules() -> None:
    heads, inputs = _heads(16), torch.randn(2, 9, 16, generator=torch.Generator().manual_seed(0))
    expected = []
    for view in inputs:  # each view has its own statistics
        hidden = torch.nn.functional.batch_norm(
            view @ heads["projector.0.weight"].T,
            None,
            None,
            heads["projector.0.norm.weight"],
            heads["projector.0.norm.bias"],
            training=True,
        )
        expected.append(torch.nn.functional.gelu(hidden) @ heads["projector.1.weight"].T)
    torch.testing.assert_close(project(heads, "projector", inputs), torch.stack(expected))


@pytest.mark.parametrize("scale", [1e-2, 1.0, 1e3])
def test_normalisation_spreads_inputs_that_hardly_differ(scale: float) -> None:
    generator = torch.Generator().manual_seed(0)
    common = torch.randn(16, generator=generator)
    inputs = scale * (common + 0.1 * torch.randn(1, 32, 16, generator=generator))
    spread = torch.nn.functional.normalize(project(_heads(16), "projector", inputs)[0], dim=-1)
    assert (spread.std(dim=0) * 16**0.5).mean() > 0.5  # 1 for directions drawn at random


def test_a_batch_of_one_gives_finite_numbers_and_gradients() -> None:
    inputs = torch.ones(2, 1, 16, requires_grad=True)
    result = project(_heads(16), "predictor", inputs)
    (gradient,) = torch.autograd.grad(result.sum(), inputs)
    assert result.isfinite().all()
    assert gradient.isfinite().all()

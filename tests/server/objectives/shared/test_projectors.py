"""Projectors: sizes, what they depend on, what they do not, and their normalisation."""

from __future__ import annotations

import torch
from torch import nn

from pocketquery.server.objectives.shared.projectors import (
    GroupProjector,
    mlp,
    predictor,
)


def size(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def seeded(seed: int = 0) -> None:
    torch.manual_seed(seed)


def test_attention_over_groups_is_far_smaller_than_the_mlp() -> None:
    attention, dense = GroupProjector(256), mlp(256)
    weights = sum(p.numel() for p in attention.layers.parameters() if p.ndim > 1)
    assert weights == 4 * 4 * 32**2  # 16,384
    assert size(attention) < 20_000
    assert size(dense) > 500_000


def test_projections_have_their_width_and_depend_on_the_input() -> None:
    seeded()
    found = GroupProjector(64)(torch.randn(10, 64))
    assert found.shape == (10, 64)
    assert (found.std(dim=0) > 0.1).all()


def test_a_gradient_reaches_every_layer() -> None:
    seeded()
    projector = GroupProjector(64)
    x = torch.randn(10, 64, requires_grad=True)
    (projector(x) * torch.randn(10, 64)).sum().backward()
    assert len(projector.layers) == 4
    for parameter in projector.layers.parameters():
        if parameter.ndim > 1:
            assert parameter.grad is not None
            assert parameter.grad.abs().max() > 1e-4
    assert x.grad is not None
    assert projector.embeddings.grad is not None


def test_groups_are_told_apart_by_their_embeddings_alone() -> None:
    seeded()
    projector = GroupProjector(64).eval()
    x, order = torch.randn(10, 64), torch.tensor([3, 1, 0, 2, 7, 6, 5, 4])

    def moved(rows: torch.Tensor) -> torch.Tensor:
        return rows.view(10, 8, 8)[:, order].flatten(1)

    assert (projector(moved(x)) - moved(projector(x))).abs().max() > 0.1
    nn.init.zeros_(projector.embeddings)
    torch.testing.assert_close(projector(moved(x)), moved(projector(x)))


def test_the_predictor_has_three_layers_and_ends_without_a_norm() -> None:
    layers = [m for m in predictor(16) if isinstance(m, nn.Linear)]
    assert [(m.in_features, m.out_features) for m in layers] == [(16, 32), (32, 32), (32, 16)]
    assert [m.bias is None for m in layers] == [True, True, False]
    assert isinstance(predictor(16)[-1], nn.Linear)
    assert [m.out_features for m in mlp(16) if isinstance(m, nn.Linear)] == [64, 16]

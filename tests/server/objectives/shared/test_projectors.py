"""Projectors: sizes, what they depend on, what they do not, and their normalisation."""

from __future__ import annotations

import copy
from typing import Any, cast

import pytest
import torch
from torch import nn

from pocketquery.server.objectives.shared.projectors import (
    NORMS,
    FeatureNorm,
    GroupProjector,
    Norm,
    TokenProjector,
    mlp,
    predictor,
)


def size(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def seeded(seed: int = 0) -> None:
    torch.manual_seed(seed)


def test_attention_over_groups_is_far_smaller_than_the_mlp() -> None:
    attention, dense = GroupProjector(256, 256), mlp(256, 256)
    weights = sum(p.numel() for p in attention.layers.parameters() if p.ndim > 1)
    assert weights == 4 * 4 * 32**2  # 16,384
    assert size(attention) < 20_000
    assert size(dense) > 500_000


@pytest.mark.parametrize("projection", [64, 48])
def test_projections_have_their_width_and_depend_on_the_input(projection: int) -> None:
    seeded()
    projector = GroupProjector(64, projection)
    found = projector(torch.randn(10, 64))
    assert found.shape == (10, projection)
    assert (found.std(dim=0) > 0.1).all()


def test_a_gradient_reaches_every_layer() -> None:
    seeded()
    projector = GroupProjector(64, 64)
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
    projector = GroupProjector(64, 64, norm="none")
    x, order = torch.randn(10, 64), torch.tensor([3, 1, 0, 2, 7, 6, 5, 4])

    def moved(rows: torch.Tensor) -> torch.Tensor:
        return rows.view(10, 8, 8)[:, order].flatten(1)

    assert (projector(moved(x)) - moved(projector(x))).abs().max() > 0.1
    nn.init.zeros_(projector.embeddings)
    torch.testing.assert_close(projector(moved(x)), moved(projector(x)))


def test_two_heads_equal_the_loop_over_them() -> None:
    seeded()
    layer: Any = GroupProjector(32, 32, groups=4, heads=2).layers[0]
    x = torch.randn(3, 4, 8)
    query, key, value = layer.inputs(x).chunk(3, dim=-1)
    heads = []
    for part in (slice(0, 4), slice(4, 8)):
        scores = query[..., part] @ key[..., part].transpose(1, 2) / 4**0.5
        heads.append(scores.softmax(dim=-1) @ value[..., part])
    expected = x + layer.output(torch.cat(heads, dim=-1))
    torch.testing.assert_close(layer(x), expected)


@pytest.mark.parametrize("pooling", ["mean", "cls"])
@pytest.mark.parametrize("norm", NORMS)
def test_padding_changes_no_projection_of_tokens(pooling: str, norm: Norm) -> None:
    seeded()
    projector = TokenProjector(16, 16, norm=norm, pooling=pooling, heads=2).train()

    def project(states: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return cast(torch.Tensor, copy.deepcopy(projector)(states, mask))  # statistics move

    states = torch.randn(4, 5, 16)
    mask = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0], [1, 1, 1, 1, 0], [1, 1, 0, 0, 0]])
    wide = torch.cat([states, torch.full((4, 7, 16), 50.0)], dim=1)
    padded = torch.cat([mask, torch.zeros(4, 7, dtype=torch.long)], dim=1)
    torch.testing.assert_close(project(wide, padded), project(states, mask))
    states[1, 3:] = -9  # padding within the batch
    torch.testing.assert_close(project(wide, padded), project(states, mask))


@pytest.mark.parametrize("projection", [16, 8])
def test_tokens_are_projected_to_their_width(projection: int) -> None:
    found = TokenProjector(16, projection)(torch.randn(4, 5, 16), torch.ones(4, 5))
    assert found.shape == (4, projection)


def test_batch_statistics_are_those_of_torch() -> None:
    x = torch.randn(20, 6) * 3 + 1
    ours, theirs = FeatureNorm(6), nn.BatchNorm1d(6)
    for _ in range(3):
        torch.testing.assert_close(ours(x), theirs(x))
    torch.testing.assert_close(ours.eval()(x[:1]), theirs.eval()(x[:1]))
    torch.testing.assert_close(FeatureNorm(6, "layer")(x), nn.LayerNorm(6)(x))
    assert FeatureNorm(6, "none")(x) is x


def test_a_batch_norm_takes_out_what_is_common_and_running_statistics_know_no_company() -> None:
    x = torch.randn(20, 6)
    batch, running = FeatureNorm(6), FeatureNorm(6, "running").eval()
    torch.testing.assert_close(batch(x), batch(x + 5), atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(running(x)[:3], running(x[:3]))
    assert (batch(x)[:3] - batch(x[:3])).abs().max() > 0.01


def test_running_statistics_follow_the_batches_and_carry_no_gradient() -> None:
    norm = FeatureNorm(1, "running").train()
    x = torch.tensor([[1.0], [3.0]], requires_grad=True)  # mean 2, variance 1
    found = norm(x)
    assert norm.running_mean.item() == pytest.approx(0.2)
    assert norm.running_variance.item() == pytest.approx(1.0)
    torch.testing.assert_close(found, x - 0.2, atol=1e-4, rtol=0)
    second = norm(x)  # a second view moves the statistics before the first one's backward pass
    (found.sum() + second.sum()).backward()
    assert x.grad is not None
    torch.testing.assert_close(x.grad, torch.full((2, 1), 2.0), atol=1e-4, rtol=0)
    for _ in range(100):
        norm(x.detach())
    assert norm.running_mean.item() == pytest.approx(2, abs=1e-3)


def test_the_predictor_has_three_layers_and_ends_without_a_norm() -> None:
    layers = [m for m in predictor(16) if isinstance(m, nn.Linear)]
    assert [(m.in_features, m.out_features) for m in layers] == [(16, 32), (32, 32), (32, 16)]
    assert [m.bias is None for m in layers] == [True, True, False]
    assert isinstance(predictor(16)[-1], nn.Linear)
    assert all(m.bias is not None for m in predictor(16, "none") if isinstance(m, nn.Linear))
    assert [m.out_features for m in mlp(16, 8) if isinstance(m, nn.Linear)] == [64, 8]

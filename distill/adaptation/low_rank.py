"""A bundle's adapter on the student it was exported from: trained in torch, shipped as a release.

In the graph a projection is ``y = x W^T + b + (x down^T) up^T`` (export/adapter.py), which is a
linear layer whose weight is ``W + up down``. So each adapted layer of the student gets ``down`` and
``up`` as a parametrization of its weight (Hu et al., "LoRA: Low-Rank Adaptation of Large Language
Models", section 4.1); everything else is frozen.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn.utils.parametrize import is_parametrized, register_parametrization

from pocketquery.sdk.errors import InvalidInputError
from pocketquery.server.modeling import SentenceEncoder

__all__ = ["LowRankChange", "add_low_rank_changes", "linear_layers", "low_rank_tensors"]

_NAME = re.compile(r"adapter\.(?P<layer>.+)\.(?P<part>down|up)")


class LowRankChange(nn.Module):
    """``W`` to ``W + up down``; ``down`` float32 (rank, d_in), ``up`` (d_out, rank)."""

    def __init__(self, down: torch.Tensor, up: torch.Tensor) -> None:
        super().__init__()
        self.down = nn.Parameter(down.clone())
        self.up = nn.Parameter(up.clone())

    def forward(self, weight: torch.Tensor) -> torch.Tensor:
        """``weight`` (d_out, d_in), changed."""
        return weight + self.up @ self.down


def add_low_rank_changes(
    student: SentenceEncoder, adapter: Mapping[str, NDArray[np.float32]]
) -> None:
    """Give ``student`` the changes of ``adapter``, in place, and freeze all else.

    Args:
        student: BERT-like, as :func:`pocketquery.distill.build_student` makes it.
        adapter: tensors by the names of a release: ``adapter.layers.<i>.query.down`` (rank, d_in)
            and ``.up`` (d_out, rank), the same of ``value`` and of ``adapter.head.<j>``.

    Raises:
        InvalidInputError: no tensors, a layer that the student lacks, or one of another shape, or a
            ``down`` that is a constant of the graph; says which.
    """
    if not adapter:
        raise InvalidInputError(
            "the bundle has no adapter; expected one that was exported with an --adapter-rank of 1 "
            "or more"
        )
    layers = linear_layers(student)
    student.requires_grad_(False)
    for name in adapter:
        match = _NAME.fullmatch(name)
        layer = layers.get(match["layer"]) if match else None
        if match is None or layer is None:
            raise InvalidInputError(
                f"the bundle's adapter has the tensor {name}, which is of no layer that the "
                f"student has ({', '.join(layers)}); expected the student that the bundle was "
                "exported from"
            )
        if match["part"] == "down":
            continue
        down = adapter.get(f"adapter.{match['layer']}.down")
        if down is None:
            raise InvalidInputError(
                f"the bundle's {name} has no down beside it, which is a constant of its graph "
                "(--adapter-train up); expected a bundle of --adapter-train both. pocketquery "
                "adapt takes this one, too"
            )
        up = adapter[name]
        adapted = (len(up), down.shape[1])
        if adapted != tuple(layer.weight.shape) or len(down) != up.shape[1]:
            raise InvalidInputError(
                f"the bundle's adapter changes {match['layer']} by {up.shape} x {down.shape}, and "
                f"the student's is {tuple(layer.weight.shape)}; expected the student that the "
                "bundle was exported from"
            )
        change = LowRankChange(torch.from_numpy(down), torch.from_numpy(up)).to(student.device)
        register_parametrization(layer, "weight", change)


def low_rank_tensors(student: SentenceEncoder) -> dict[str, NDArray[np.float32]]:
    """The changes as they now are, float32, by the names of :func:`add_low_rank_changes`."""
    tensors = {}
    for name, layer in linear_layers(student).items():
        if is_parametrized(layer, "weight"):
            (change,) = layer.parametrizations.weight
            for part, tensor in (("down", change.down), ("up", change.up)):
                tensors[f"adapter.{name}.{part}"] = tensor.detach().cpu().numpy().copy()
    return tensors


def linear_layers(student: SentenceEncoder) -> dict[str, Any]:
    """The student's own linear layers by the names an adapter uses for them."""
    layers: dict[str, Any] = {}
    if hasattr(student.backbone, "embeddings_project"):
        layers["embeddings.project"] = student.backbone.embeddings_project
    for number, layer in enumerate(student.backbone.encoder.layer):
        name, attention = f"layers.{number}", layer.attention
        layers[f"{name}.query"] = attention.self.query
        layers[f"{name}.key"] = attention.self.key
        layers[f"{name}.value"] = attention.self.value
        layers[f"{name}.attention"] = attention.output.dense
        layers[f"{name}.inner"] = layer.intermediate.dense
        layers[f"{name}.outer"] = layer.output.dense
    linear = [module for module in student.head or () if isinstance(module, nn.Linear)]
    return layers | {f"head.{number}": module for number, module in enumerate(linear)}

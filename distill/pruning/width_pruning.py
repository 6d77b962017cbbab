"""The start of a student: layers of its teacher, of which a narrower one has what matters most.

A narrower copy of each kept layer, not a random one: the hidden dimensions, attention heads and
intermediate units of least importance are left out ("Compact Language Models via Pruning and
Knowledge Distillation", Muralidharan et al., 2024, section 2.2). Importance is read from the
weights, so that a start depends on nothing but the teacher. LayerNorm works dimension by dimension,
so what is kept keeps its meaning, which a projection onto principal components would not leave it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

__all__ = ["copy_narrowed", "identity_head", "kept_dimensions", "widen_feed_forward"]

_LAYER = re.compile(r"\blayer\.(\d+)\.")
_NORM = "output.LayerNorm.weight"


def kept_dimensions(teacher: Any, layers: Sequence[int], width: int) -> torch.Tensor:
    """The hidden dimensions with the largest gains in the LayerNorms of ``layers``.

    Args:
        teacher: a BERT-like backbone.
        layers: its layers that the student keeps.
        width: how many dimensions.

    Returns:
        int64 (width,), ascending.
    """
    state = teacher.state_dict()
    gains = torch.stack(
        [
            value.float().square()
            for name, value in state.items()
            if name.endswith(_NORM) and (match := _LAYER.search(name)) and int(match[1]) in layers
        ]
    )  # (two a layer, hidden size)
    importance = (gains / gains.mean(dim=1, keepdim=True)).mean(dim=0)
    return importance.topk(width).indices.sort().values


def copy_narrowed(
    teacher: Any, student: Any, layers: Sequence[int], dimensions: torch.Tensor
) -> None:
    """Copy the kept part of the embeddings and of teacher layer ``layers[i]`` into student layer i.

    Args:
        teacher: a BERT-like backbone, as wide as ``student`` or wider.
        student: of the same architecture; its weights are replaced.
        layers: the teacher's layer for each of the student's.
        dimensions: int64 (student width,), the teacher's hidden dimensions that stay.
    """
    source, state = teacher.state_dict(), student.state_dict()
    units = {
        place: _kept_units(source, f"layer.{layer}.", teacher.config, student.config)
        for place, layer in enumerate(layers)
    }
    for name, old in state.items():
        match = _LAYER.search(name)
        if match is None:  # of the embeddings: the hidden size is the axis that differs
            state[name] = source[name]
            for axis, size in enumerate(old.shape):
                if state[name].shape[axis] != size:
                    state[name] = state[name].index_select(axis, dimensions)
            continue
        place = int(match[1])
        value = source[f"{name[: match.start()]}layer.{layers[place]}.{name[match.end() :]}"]
        heads, intermediate = units[place]
        if ".attention.self." in name:
            rows, columns = heads, dimensions
        elif ".attention.output.dense." in name:
            rows, columns = dimensions, heads
        elif ".intermediate." in name:
            rows, columns = intermediate, dimensions
        elif ".output.dense." in name:
            rows, columns = dimensions, intermediate
        else:  # a norm
            rows, columns = dimensions, None
        value = value[rows]
        state[name] = value if value.dim() == 1 or columns is None else value[:, columns]
        assert state[name].shape == old.shape, name
    student.load_state_dict(state)


def widen_feed_forward(
    teacher: Any, student: Any, layers: Sequence[int], dimensions: torch.Tensor, width: int
) -> None:
    """Give every layer of ``student`` more intermediate units, in place, its vectors unchanged.

    The added units are the teacher's next most important ones, read with weight zero, so that
    training finds them a use. Net2Net does so with copies of units (Chen, Goodfellow and Shlens,
    ICLR 2016).

    Args:
        teacher: a BERT-like backbone.
        student: what :func:`copy_narrowed` filled, trained since or not.
        layers: as there.
        dimensions: as there.
        width: intermediate units of a layer, more than the student has, no more than the teacher.
    """
    source = teacher.state_dict()
    for place, layer in enumerate(layers):
        units = _by_importance(source, f"layer.{layer}.")[student.config.intermediate_size : width]
        writes, reads = _feed_forward(student, place)
        taught, _ = _feed_forward(teacher, layer)
        with torch.no_grad():
            device = writes.weight.device  # the teacher may be on another
            added = taught.weight[units][:, dimensions].to(device)
            writes.weight = nn.Parameter(torch.cat([writes.weight, added]))
            writes.bias = nn.Parameter(torch.cat([writes.bias, taught.bias[units].to(device)]))
            unread = reads.weight.new_zeros(len(reads.weight), len(units))
            reads.weight = nn.Parameter(torch.cat([reads.weight, unread], dim=1))
        writes.out_features = reads.in_features = width
    student.config.intermediate_size = width


def _feed_forward(backbone: Any, layer: int) -> tuple[nn.Linear, nn.Linear]:
    """What writes the intermediate units of a layer, and what reads them."""
    block = backbone.encoder.layer[layer]
    return block.intermediate.dense, block.output.dense


def _kept_units(
    source: dict[str, torch.Tensor], layer: str, teacher: Any, student: Any
) -> tuple[torch.Tensor, torch.Tensor]:
    """Rows of the attention heads, and intermediate units, that matter most to one layer: by the
    product of the norms of what writes them and what reads them.

    Where the teacher's heads are larger than the student's, parts of them are chosen.
    """
    size = student.hidden_size // student.num_attention_heads
    written, read = (
        _weight(source, f"{layer}attention.{name}") for name in ("self.value", "output.dense")
    )
    written = written.view(-1, size, teacher.hidden_size).norm(dim=(1, 2))
    read = read.view(teacher.hidden_size, -1, size).norm(dim=(0, 2))
    heads = (written * read).topk(student.num_attention_heads).indices.sort().values
    rows = (heads[:, None] * size + torch.arange(size, device=heads.device)).flatten()
    units = _by_importance(source, layer)[: student.intermediate_size]
    return rows, units.sort().values


def _by_importance(source: dict[str, torch.Tensor], layer: str) -> torch.Tensor:
    """int64, the intermediate units of a layer, those that matter most first."""
    writes = _weight(source, f"{layer}intermediate.dense").norm(dim=1)
    reads = _weight(source, f"{layer}output.dense").norm(dim=0)
    order: torch.Tensor = (writes * reads).argsort(descending=True, stable=True)
    return order


def _weight(source: dict[str, torch.Tensor], name: str) -> torch.Tensor:
    (weight,) = (value for key, value in source.items() if f"{name}.weight" in key)
    return weight.float()


def identity_head(head: nn.Sequential, dimensions: torch.Tensor) -> None:
    """Let ``head`` begin by putting every kept dimension in its place, with zero elsewhere.

    Through a GELU too, exactly: GELU(x) - GELU(-x) = x. What is left of a wide hidden layer stays
    random and is read with weight zero.

    Args:
        head: one linear layer, or two with a GELU between, at least twice as wide as its input.
        dimensions: int64 (width,), where each of its inputs belongs in its output.
    """
    linear = [module for module in head if isinstance(module, nn.Linear)]
    first, last = linear[0], linear[-1]
    width = len(dimensions)
    device = last.weight.device  # the teacher, and with it the dimensions, may be on another
    dimensions, place = dimensions.to(device), torch.arange(width, device=device)
    with torch.no_grad():
        for module in linear:
            assert module.bias is not None
            module.bias.zero_()
        last.weight.zero_()
        last.weight[dimensions, place] = 1.0
        if len(linear) == 2:
            first.weight[: 2 * width] = torch.cat([torch.eye(width), -torch.eye(width)])
            last.weight[dimensions, width + place] = -1.0

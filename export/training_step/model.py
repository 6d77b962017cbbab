"""The query encoder as one pure function of its tensors, for tracing a training step.

Hugging Face's modules cannot be told to take a weight from here and an adapter from there, so the
step has its own forward pass: post-norm BERT and its kin, written out with named tensors. What it
computes is held to the student's own modules by the parity gate.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from pocketquery.distill.adaptation.low_rank import linear_layers
from pocketquery.distill.exportable import ARCHITECTURES
from pocketquery.distill.pruning.product_codes import CENTROIDS
from pocketquery.export.training_step.gelu import gelu
from pocketquery.sdk.errors import UnknownModelError
from pocketquery.server.modeling import SentenceEncoder
from pocketquery.server.modeling.sentence_encoder import pool

__all__ = ["TABLES", "WORDS", "EncoderShape", "encode", "student_parameters"]

TorchTensors = Mapping[str, torch.Tensor]

WORDS = "embeddings.word"
TABLES = (WORDS, "embeddings.position")
"""Parameters that are looked up by row rather than multiplied with."""

_PADDING_SCORE = -1e9  # added to the score of padding: its weight is exactly 0 after the softmax
_HEAD_ACTIVATIONS: dict[type[nn.Module], str] = {nn.GELU: "gelu", nn.Tanh: "tanh", nn.ReLU: "relu"}
_ACTIVATIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "gelu": gelu,
    "tanh": torch.tanh,
    "relu": functional.relu,
}


@dataclass(frozen=True)
class EncoderShape:
    """What the forward pass must know beside the tensors.

    Attributes:
        layers, heads: of the transformer.
        epsilon: of the layer norms.
        activation: ``"gelu"`` or ``"relu"``, of the feed-forward network.
        pooling: ``"mean"`` or ``"cls"``.
        padding_id: of RoBERTa-like models, whose positions count from it; None for BERT-like ones.
        head: the activation after each linear layer of the alignment head, ``""`` for none.
    """

    layers: int
    heads: int
    epsilon: float
    activation: str
    pooling: str
    padding_id: int | None
    head: tuple[str, ...]

    @classmethod
    def of(cls, student: SentenceEncoder) -> EncoderShape:
        """Raises UnknownModelError: an architecture, activation or head that is not supported."""
        config: Any = student.backbone.config
        if config.model_type not in ARCHITECTURES:
            raise UnknownModelError(
                f'the architecture "{config.model_type}" has no training step; supported are '
                f"{', '.join(ARCHITECTURES)}. Distil into a student of one of these"
            )
        if config.hidden_act not in ("gelu", "relu"):
            raise UnknownModelError(
                f'the layers use the activation "{config.hidden_act}"; a training step takes '
                "gelu (the exact one) or relu"
            )
        roberta = config.model_type in ("camembert", "roberta", "xlm-roberta")
        return cls(
            layers=config.num_hidden_layers,
            heads=config.num_attention_heads,
            epsilon=config.layer_norm_eps,
            activation=config.hidden_act,
            pooling=student.pooling,
            padding_id=config.pad_token_id if roberta else None,
            head=_head_activations(student.head),
        )


def _head_activations(head: nn.Sequential | None) -> tuple[str, ...]:
    """The activation that follows each linear layer of ``head``, ``""`` where none does."""
    activations: list[str] = []
    for module in head or ():
        if isinstance(module, nn.Linear):
            activations.append("")
        elif type(module) in _HEAD_ACTIVATIONS and activations and not activations[-1]:
            activations[-1] = _HEAD_ACTIVATIONS[type(module)]
        elif not isinstance(module, nn.Identity | nn.Dropout):
            raise UnknownModelError(
                f"the head holds a {type(module).__name__} where a training step does not take "
                "one; expected Linear layers with at most one activation after each"
            )
    return tuple(activations)


def student_parameters(student: SentenceEncoder) -> dict[str, nn.Parameter]:
    """The student's own parameters (not copies) by the names the step uses."""
    embeddings = student.backbone.embeddings
    parameters: dict[str, nn.Parameter] = {
        "embeddings.word": embeddings.word_embeddings.weight,
        "embeddings.position": embeddings.position_embeddings.weight,
        "embeddings.token_type": embeddings.token_type_embeddings.weight,
    }
    modules = {"embeddings.norm": embeddings.LayerNorm} | linear_layers(student)
    for number, layer in enumerate(student.backbone.encoder.layer):
        modules[f"layers.{number}.attention_norm"] = layer.attention.output.LayerNorm
        modules[f"layers.{number}.norm"] = layer.output.LayerNorm
    for name, module in modules.items():
        parameters[f"{name}.weight"], parameters[f"{name}.bias"] = module.weight, module.bias
    return parameters


def encode(
    tensors: TorchTensors, shape: EncoderShape, ids: torch.Tensor, mask: torch.Tensor
) -> torch.Tensor:
    """Vectors of a padded batch.

    Args:
        tensors: every parameter by name. A table may instead come as ``<name>.rows`` int8 and
            ``<name>.scales`` float32 (rows, 1), which are those of its centroids where there are
            ``<name>.codes``; an adapter's tensors add a low-rank path.
        shape: of the encoder.
        ids: int64 (batch, length).
        mask: int64 (batch, length), 1 on real tokens.

    Returns:
        float32 (batch, dimension), rows of unit length.
    """
    states = _embed(tensors, shape, ids)  # (batch, length, width)
    bias = (1.0 - mask.to(states.dtype))[:, None, None, :] * _PADDING_SCORE
    for layer in range(shape.layers):
        states = _layer(tensors, shape, f"layers.{layer}", states, bias)
    # Padding is on the right: the first token needs no looking for.
    vectors = states[:, 0] if shape.pooling == "cls" else pool(states, mask, shape.pooling)
    for number, activation in enumerate(shape.head):
        vectors = _linear(tensors, f"head.{number}", vectors)
        if activation:
            vectors = _ACTIVATIONS[activation](vectors)
    return functional.normalize(vectors, dim=-1)


def _embed(tensors: TorchTensors, shape: EncoderShape, ids: torch.Tensor) -> torch.Tensor:
    if shape.padding_id is None:
        positions = torch.arange(ids.shape[1], device=ids.device)
    else:
        real = (ids != shape.padding_id).to(torch.int64)
        positions = torch.cumsum(real, dim=1) * real + shape.padding_id
    states = _rows(tensors, "embeddings.word", ids) + tensors["embeddings.token_type"][0]
    states = states + _rows(tensors, "embeddings.position", positions)
    states = _norm(tensors, shape, "embeddings.norm", states)
    if "embeddings.project.weight" in tensors:
        states = _linear(tensors, "embeddings.project", states)
    return states


def _rows(tensors: TorchTensors, name: str, numbers: torch.Tensor) -> torch.Tensor:
    if name in tensors:
        return functional.embedding(numbers, tensors[name])
    rows, scales = tensors[f"{name}.rows"], tensors[f"{name}.scales"]
    codes = tensors.get(f"{name}.codes")
    if codes is not None:
        offsets = torch.arange(codes.shape[1], device=codes.device) * CENTROIDS
        numbers = functional.embedding(numbers, codes).to(torch.int64) + offsets
    rows_of_values = functional.embedding(numbers, rows).to(torch.float32)
    rows_of_values = rows_of_values * functional.embedding(numbers, scales)
    return rows_of_values if codes is None else rows_of_values.flatten(-2)


def _layer(
    tensors: TorchTensors, shape: EncoderShape, name: str, states: torch.Tensor, bias: torch.Tensor
) -> torch.Tensor:
    context = _attention(tensors, shape, name, states, bias)
    states = _norm(
        tensors,
        shape,
        f"{name}.attention_norm",
        _linear(tensors, f"{name}.attention", context) + states,
    )
    inner = _ACTIVATIONS[shape.activation](_linear(tensors, f"{name}.inner", states))
    return _norm(tensors, shape, f"{name}.norm", _linear(tensors, f"{name}.outer", inner) + states)


def _attention(
    tensors: TorchTensors, shape: EncoderShape, name: str, states: torch.Tensor, bias: torch.Tensor
) -> torch.Tensor:
    batch, length, width = states.shape
    heads, size = shape.heads, width // shape.heads
    query, key, value = (
        _linear(tensors, f"{name}.{part}", states)
        .view(batch, length, heads, size)
        .transpose(1, 2)
        .reshape(batch * heads, length, size)
        for part in ("query", "key", "value")
    )
    # Scaling the query rather than the scores touches fewer numbers, forwards and backwards; bmm,
    # because a product of four axes is exported with copies for broadcasts that never happen.
    scores = torch.bmm(query * (1.0 / math.sqrt(size)), key.transpose(1, 2))
    weights = torch.softmax(scores.view(batch, heads, length, length) + bias, dim=-1)
    context = torch.bmm(weights.view(batch * heads, length, length), value)
    joined = context.view(batch, heads, length, size).transpose(1, 2)
    return joined.reshape(batch, length, width)


def _linear(tensors: TorchTensors, name: str, states: torch.Tensor) -> torch.Tensor:
    result = functional.linear(states, tensors[f"{name}.weight"], tensors[f"{name}.bias"])
    down = tensors.get(f"adapter.{name}.down")
    if down is None:
        return result
    return result + (states @ down.T) @ tensors[f"adapter.{name}.up"].T


def _norm(
    tensors: TorchTensors, shape: EncoderShape, name: str, states: torch.Tensor
) -> torch.Tensor:
    weight, bias = tensors[f"{name}.weight"], tensors[f"{name}.bias"]
    return functional.layer_norm(states, weight.shape, weight, bias, shape.epsilon)

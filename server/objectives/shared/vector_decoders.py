"""Decoders that see of a text one vector, and write it again from left to right."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from pocketquery.sdk.errors import InvalidInputError
from pocketquery.server.modeling import SentenceEncoder

__all__ = ["SmallDecoder", "TiedDecoder", "causal_mask"]


def causal_mask(length: int, device: torch.device) -> torch.Tensor:
    """What is added to attention scores, (length, length): -inf on everything that comes later."""
    return torch.full((length, length), -torch.inf, device=device).triu(1)


class SmallDecoder(nn.Module):
    """Layers of its own over the encoder's embedding table; cross-attention to one vector.

    Args:
        encoder: whose table is shared.
        layers: of the decoder.
        max_length: positions.
    """

    def __init__(self, encoder: SentenceEncoder, layers: int, max_length: int) -> None:
        super().__init__()
        width = encoder.hidden_size
        table = encoder.backbone.get_input_embeddings().weight
        heads = int(getattr(encoder.backbone.config, "num_attention_heads", 1))
        self.widen = nn.Identity() if table.shape[1] == width else nn.Linear(table.shape[1], width)
        self.positions = nn.Embedding(max_length, width)
        nn.init.normal_(self.positions.weight, std=0.02)
        self.norm = nn.LayerNorm(width)
        layer = nn.TransformerDecoderLayer(
            width, heads, 4 * width, activation="gelu", batch_first=True
        )
        self.layers = nn.TransformerDecoder(layer, layers)

    def forward(
        self, vectors: torch.Tensor, ids: torch.Tensor, encoder: SentenceEncoder
    ) -> torch.Tensor:
        """States (rows, length, width) of ids (rows, length), given vectors (rows, width).

        Padding comes last, so that no token before it can see it.
        """
        table = encoder.backbone.get_input_embeddings()
        places = torch.arange(ids.shape[1], device=ids.device)
        embedded = self.norm(self.widen(table(ids)) + self.positions(places))
        mask = causal_mask(ids.shape[1], ids.device)
        states: torch.Tensor = self.layers(
            embedded, vectors.unsqueeze(1), tgt_mask=mask, tgt_is_causal=True
        )
        return states


class TiedDecoder(nn.Module):
    """The encoder's own layers, made causal, each with cross-attention to one vector added.

    Attention to a single vector gives it the weight 1, whatever the query: what is left of the
    cross-attention is its value and output maps, and those are all that is trained beside the
    encoder.

    Args:
        encoder: of the BERT family (BERT, RoBERTa, XLM-R, ELECTRA, pre-norm RoBERTa).

    Raises:
        InvalidInputError: its layers are built otherwise.
    """

    def __init__(self, encoder: SentenceEncoder) -> None:
        super().__init__()
        width, layers = encoder.hidden_size, _layers(encoder.backbone)
        self.values = nn.ModuleList(nn.Linear(width, width) for _ in layers)
        self.outputs = nn.ModuleList(nn.Linear(width, width) for _ in layers)
        pre_norm = hasattr(encoder.backbone, "LayerNorm")  # which then stands after the last layer
        self.norms = nn.ModuleList(
            nn.Identity() if pre_norm else nn.LayerNorm(width) for _ in layers
        )

    def forward(
        self, vectors: torch.Tensor, ids: torch.Tensor, encoder: SentenceEncoder
    ) -> torch.Tensor:
        """States (rows, length, width) of ids (rows, length), given vectors (rows, width)."""
        backbone = encoder.backbone
        states = backbone.embeddings(input_ids=ids)
        if hasattr(backbone, "embeddings_project"):
            states = backbone.embeddings_project(states)
        mask = causal_mask(ids.shape[1], ids.device).to(states.dtype)[None, None]
        crossed = zip(_layers(backbone), self.values, self.outputs, self.norms, strict=True)
        for layer, value, output, norm in crossed:
            attended = layer.attention(states, attention_mask=mask)[0]  # (rows, length, width)
            attended = norm(attended + output(value(vectors)).unsqueeze(1))
            states = layer.feed_forward_chunk(attended)
        found: torch.Tensor = (
            backbone.LayerNorm(states) if hasattr(backbone, "LayerNorm") else states
        )
        return found


def _layers(backbone: Any) -> list[Any]:
    layers = list(getattr(getattr(backbone, "encoder", None), "layer", []))
    if not layers or not all(
        hasattr(layer, "attention") and hasattr(layer, "feed_forward_chunk") for layer in layers
    ):
        raise InvalidInputError(
            f"tsdae.tie is full, which needs the layers of a BERT; {type(backbone).__name__} is "
            "built otherwise. Use tie=emb, a small decoder of its own"
        )
    return layers

"""The small decoder that writes hidden spans from token states, and its file beside the encoder."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from pocketquery.server.modeling import SentenceEncoder
from pocketquery.server.modeling.vocabulary_cross_entropy import vocabulary_cross_entropy
from pocketquery.server.objectives.shared.decoder_files import reading_beside, save_beside

__all__ = ["DECODER_FILE", "DecoderShape", "GurDecoder", "load_decoder", "save_decoder"]

DECODER_FILE = "infilling.safetensors"
"""Name of the decoder's file in a model's folder."""


@dataclass(frozen=True)
class DecoderShape:
    """Everything about a decoder but its weights.

    Attributes:
        width: of the encoder's token states and of the decoder's layers.
        table_width: of the encoder's vocabulary table, to which the decoder is tied.
        vocabulary: rows of that table.
        layers: number of decoder layers.
        heads: attention heads of a layer.
        positions: tokens of the longest target.
        dropout: while it trains.
        start: id that every target starts from.
        end: id that ends a target.
        sentinels: ids that stand for hidden spans, in order.
    """

    width: int
    table_width: int
    vocabulary: int
    layers: int
    heads: int
    positions: int
    dropout: float
    start: int
    end: int
    sentinels: tuple[int, ...]

    @classmethod
    def beside(cls, encoder: SentenceEncoder, **rest: Any) -> DecoderShape:
        """The shape of a decoder over ``encoder``; ``rest`` is what the encoder does not say."""
        table, width = encoder.backbone.get_input_embeddings().weight, encoder.hidden_size
        heads = int(getattr(encoder.backbone.config, "num_attention_heads", 1))
        return cls(
            width=width,
            table_width=table.shape[1],
            vocabulary=table.shape[0],
            heads=heads if width % heads == 0 else 1,
            **rest,
        )


class GurDecoder(nn.Module):
    """A Transformer decoder over an encoder's states; input and output are the encoder's table.

    Pre-norm layers, learned positions. Where the table is narrower than the states (ALBERT,
    ELECTRA), a linear layer leads from the one to the other and back.
    """

    def __init__(self, shape: DecoderShape) -> None:
        super().__init__()
        self.shape = shape
        same = shape.width == shape.table_width
        self.widen = nn.Identity() if same else nn.Linear(shape.table_width, shape.width)
        self.narrow = nn.Identity() if same else nn.Linear(shape.width, shape.table_width)
        self.positions = nn.Embedding(shape.positions, shape.width)
        self.input_norm = nn.LayerNorm(shape.width)
        self.dropout = nn.Dropout(shape.dropout)
        layer = nn.TransformerDecoderLayer(
            shape.width,
            shape.heads,
            4 * shape.width,
            shape.dropout,
            functional.gelu,
            batch_first=True,
            norm_first=True,
        )
        self.layers = nn.TransformerDecoder(layer, shape.layers, nn.LayerNorm(shape.width))
        self.bias = nn.Parameter(torch.zeros(shape.vocabulary))
        nn.init.normal_(self.positions.weight, std=0.02)  # as small as the table's rows

    def forward(
        self,
        inputs: torch.Tensor,
        memory: torch.Tensor,
        memory_mask: torch.Tensor,
        encoder: SentenceEncoder,
    ) -> torch.Tensor:
        """States of a target's positions, each of which sees the ones before it and the memory.

        Args:
            inputs: int64 (rows, length): the start token, then the target's tokens but the last.
            memory: the encoder's token states (rows, source length, width).
            memory_mask: int64 (rows, source length), 1 on real tokens.
            encoder: whose table is the input.

        Returns:
            float (rows, length, width).
        """
        table = encoder.backbone.get_input_embeddings().weight
        length = inputs.shape[1]
        words = self.widen(functional.embedding(inputs, table))  # (rows, length, width)
        places = self.positions.weight[:length]
        later = torch.ones(length, length, dtype=torch.bool, device=inputs.device).triu(1)
        states: torch.Tensor = self.layers(
            self.dropout(self.input_norm(words + places)),
            memory,
            tgt_mask=later,
            memory_key_padding_mask=memory_mask == 0,
        )
        return states

    def logits(self, states: torch.Tensor, encoder: SentenceEncoder) -> torch.Tensor:
        """Logits (n, vocabulary) of states (n, width)."""
        table = encoder.backbone.get_input_embeddings().weight
        return functional.linear(self.narrow(states), table, self.bias)

    def cross_entropy(
        self, states: torch.Tensor, target: torch.Tensor, encoder: SentenceEncoder
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """:func:`vocabulary_cross_entropy` of states (n, width) against token ids (n,)."""
        table = encoder.backbone.get_input_embeddings().weight
        return vocabulary_cross_entropy(self.narrow(states), table, self.bias, target)


def save_decoder(folder: Path | str, decoder: GurDecoder, encoder: SentenceEncoder) -> None:
    """Write the decoder into the folder of the saved model it belongs to.

    Args:
        folder: where ``encoder`` was saved.
        decoder: trained together with it.
        encoder: the exported model; the decoder is tied to its table and refuses any other.
    """
    shape = {"shape": dataclasses.asdict(decoder.shape)}
    save_beside(Path(folder) / DECODER_FILE, decoder.state_dict(), shape, encoder)


def load_decoder(folder: Path | str, encoder: SentenceEncoder) -> GurDecoder:
    """The decoder saved in ``folder``, for inference, on the encoder's device.

    Raises:
        ArtifactNotFoundError: the folder holds none.
        CorruptArtifactError: the file cannot be read.
        UnsupportedVersionError: a newer release wrote it.
        SpaceMismatchError: it was trained with other weights than the encoder's.
    """
    path = Path(folder) / DECODER_FILE
    with reading_beside(path, encoder, "gur", "with its language model") as saved:
        shape = {**saved.about["shape"], "sentinels": tuple(saved.about["shape"]["sentinels"])}
        decoder = GurDecoder(DecoderShape(**shape))
        decoder.load_state_dict(saved.tensors)
    return decoder.to(encoder.device).eval()

"""SEED: a decoder too weak to write the text by itself, so that the vector must hold it.

"Less is More: Pre-train a Strong Text Encoder for Dense Retrieval Using a Weak Decoder" (Lu et
al.), the baseline of "A Contrastive Pre-training Approach to Learn Discriminative Autoencoder for
Dense Retrieval". The decoder has few layers, sees the encoder through one vector only, and of the
text only the last few tokens.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np
import torch
from torch import nn

from pocketquery.sdk.settings.declaration import Settings
from pocketquery.sdk.validation import number, whole
from pocketquery.server.corpus.groups import Group, Kind
from pocketquery.server.modeling import SentenceEncoder
from pocketquery.server.modeling.mlm_head import MlmHead
from pocketquery.server.modeling.sentence_encoder import pool
from pocketquery.server.objectives.mlm import mlm_loss
from pocketquery.server.objectives.objective import Batch, LossParts, Objective, tokenize
from pocketquery.server.objectives.shared.masking import IGNORED, bert_mask

__all__ = ["Seed", "SeedConfig", "WeakDecoder", "attention_span"]


@dataclass(frozen=True)
class SeedConfig(Settings):
    """Settings of :class:`Seed`."""

    layers: Annotated[
        int, whole(), "of the decoder; 3 in the paper's default, 1 with span 8 in its variant"
    ] = 3
    span: Annotated[
        int, whole(), "tokens that a position attends to, itself included, beside position 0"
    ] = 2
    memory: Annotated[
        Literal["position", "cross"],
        'how the decoder gets the vector: "position" (in the place of the first token) or '
        '"cross" (as the single memory of a cross-attention)',
    ] = "position"
    mlm_weight: Annotated[float, number(0), "weight of MLM"] = 0.5
    decoder_weight: Annotated[float, number(0), "weight of the decoder's loss"] = 0.5
    mask_rate: Annotated[
        float, number(above=0, below=1), "share of the tokens that MLM predicts"
    ] = 0.15
    max_length: Annotated[int, whole(4), "tokens of a text, specials included"] = 64


def attention_span(length: int, span: int) -> torch.Tensor:
    """Which columns each row may attend to: 0, and i - span < j <= i; bool (length, length)."""
    rows = torch.arange(length).unsqueeze(1)
    columns = torch.arange(length).unsqueeze(0)
    return (columns <= rows) & ((columns > rows - span) | (columns == 0))


class WeakDecoder(nn.Module):
    """A few transformer layers that see a short span; the output is tied to the encoder's table.

    Args:
        encoder: gives the widths, the heads, the positions and the table of tokens.
        layers: how many.
        span: see :func:`attention_span`.
        memory: see :class:`SeedConfig`.
    """

    def __init__(
        self, encoder: SentenceEncoder, layers: int, span: int, memory: str = "position"
    ) -> None:
        super().__init__()
        width, narrow = encoder.hidden_size, encoder.backbone.get_input_embeddings().weight.shape[1]
        heads = int(encoder.backbone.config.num_attention_heads)
        kind = nn.TransformerEncoderLayer if memory == "position" else nn.TransformerDecoderLayer
        self.span, self.memory = span, memory
        self.widen = nn.Linear(narrow, width) if narrow != width else nn.Identity()
        self.positions = nn.Embedding(encoder.max_length, width)
        nn.init.normal_(self.positions.weight, std=0.02)
        self.norm = nn.LayerNorm(width)
        self.layers = nn.ModuleList(
            kind(width, heads, 4 * width, dropout=0.1, activation="gelu", batch_first=True)
            for _ in range(layers)
        )
        self.head = MlmHead(encoder, of_decoder=True)

    def inputs(
        self, vectors: torch.Tensor, ids: torch.Tensor, encoder: SentenceEncoder
    ) -> torch.Tensor:
        """What goes into the first layer: embedded tokens, and at position 0 the vector.

        Args:
            vectors: float (n, width).
            ids: int64 (n, length).
            encoder: whose table embeds the tokens.

        Returns:
            (n, length, width).
        """
        embedded: torch.Tensor = self.widen(encoder.backbone.get_input_embeddings()(ids))
        if self.memory == "position":
            embedded = torch.cat([vectors.unsqueeze(1).to(embedded.dtype), embedded[:, 1:]], dim=1)
        return embedded

    def forward(self, inputs: torch.Tensor, vectors: torch.Tensor) -> torch.Tensor:
        """States (n, length, width) of inputs like them; ``vectors`` are the memory of ``cross``.

        Padding lies on the right and no position looks to its right, so it needs no mask.
        """
        length = inputs.shape[1]
        states: torch.Tensor = self.norm(inputs + self.positions.weight[:length])
        hidden = ~attention_span(length, self.span).to(inputs.device)
        for layer in self.layers:
            if self.memory == "position":
                states = layer(states, src_mask=hidden)
            else:
                states = layer(states, vectors.unsqueeze(1), tgt_mask=hidden)
        return states


class Seed(Objective[str]):
    """MLM, and writing the text from its vector with a weak decoder.

    Both losses come from one forward pass over the masked text: its vector must stand for the
    original, and a step costs one encoding a text, like MLM's.
    """

    name: ClassVar[str] = "seed"
    kinds: ClassVar[tuple[Kind, ...]] = ("documents", "sessions", "pairs", "queries")
    passages = True
    least_examples = 1

    def __init__(self, encoder: SentenceEncoder, config: SeedConfig | None = None) -> None:
        super().__init__()
        self.config = config or SeedConfig()
        self.tokenizer = encoder.tokenizer
        self.max_length = min(self.config.max_length, encoder.max_length)
        self.mlm_head = MlmHead(encoder)
        self.decoder = WeakDecoder(
            encoder, self.config.layers, self.config.span, self.config.memory
        )

    def draw(self, group: Group, rng: random.Random) -> str | None:
        return " ".join(group.texts).strip() or None

    def collate(self, examples: Sequence[str], rng: np.random.Generator) -> Batch:
        ids, mask = tokenize(self.tokenizer, examples, self.max_length)
        masked, labels = bert_mask(ids, self.tokenizer, rng, self.config.mask_rate)
        following = ids[:, 1:].masked_fill(mask[:, 1:] == 0, IGNORED)  # (n, length - 1)
        return {
            "input_ids": masked,
            "attention_mask": mask,
            "labels": labels,
            "decoder_ids": ids[:, :-1],
            "decoder_labels": following,
        }

    def loss(self, encoder: SentenceEncoder, batch: Batch) -> LossParts:
        states = encoder.states(batch["input_ids"], batch["attention_mask"])
        vectors = pool(states, batch["attention_mask"], encoder.pooling)  # (n, width)
        mlm, accuracy = mlm_loss(states, batch["labels"], self.mlm_head, encoder)
        inputs = self.decoder.inputs(vectors, batch["decoder_ids"], encoder)
        written = self.decoder(inputs, vectors)  # (n, length - 1, width)
        decoder, right = mlm_loss(written, batch["decoder_labels"], self.decoder.head, encoder)
        total = self.config.mlm_weight * mlm + self.config.decoder_weight * decoder
        return LossParts(
            total,
            {"mlm": mlm, "decoder": decoder},
            {"mlm_accuracy": accuracy, "decoder_accuracy": right},
        )

"""TSDAE: a sentence is written again from the vector of what deletion left of it.

"TSDAE: Using Transformer-based Sequential Denoising Auto-Encoder for Unsupervised Sentence
Embedding Learning", section 3. The paper ties the whole decoder to the encoder (``tie=full``); the
default here ties the embeddings alone and keeps the decoder small, which fits every encoder.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch

from pocketquery.server.corpus.groups import Group, Kind
from pocketquery.server.modeling import SentenceEncoder
from pocketquery.server.modeling.mlm_head import MlmHead
from pocketquery.server.objectives.mlm import mlm_loss
from pocketquery.server.objectives.objective import Batch, LossParts, Objective, tokenize
from pocketquery.server.objectives.options import check_at_least, check_choice, check_share
from pocketquery.server.objectives.shared.masking import IGNORED, delete_tokens
from pocketquery.server.objectives.shared.vector_decoders import SmallDecoder, TiedDecoder

__all__ = ["Tsdae", "TsdaeConfig", "next_tokens"]


@dataclass(frozen=True)
class TsdaeConfig:
    """Settings of :class:`Tsdae`. The paper trains at a constant rate of 3e-5, 8 texts a batch.

    Attributes:
        delete_rate: share of the tokens that are deleted.
        tie: ``"emb"``, a small decoder with the encoder's embeddings; ``"full"``, the encoder's own
            layers with cross-attention added.
        decoder_layers: with ``tie="emb"``.
        unit: ``"sentence"``, one text of a group, or ``"passage"``, several.
        max_length: tokens of a text, specials included.
    """

    delete_rate: float = 0.6
    tie: str = "emb"
    decoder_layers: int = 2
    unit: str = "sentence"
    max_length: int = 64

    def __post_init__(self) -> None:
        check_share("delete_rate", self.delete_rate)
        check_choice("tie", self.tie, ("emb", "full"))
        check_at_least("decoder_layers", self.decoder_layers, 1)
        check_choice("unit", self.unit, ("sentence", "passage"))
        check_at_least("max_length", self.max_length, 4)


def next_tokens(ids: torch.Tensor, mask: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """What a decoder reads, and what it has to say at each place.

    Args:
        ids: int64 (rows, length), specials included, padded on the right.
        mask: int64 (rows, length).

    Returns:
        Inputs and labels, both int64 (rows, length - 1): the label is the token that follows, and
        :data:`IGNORED` where padding does.
    """
    return ids[:, :-1], ids[:, 1:].masked_fill(mask[:, 1:] == 0, IGNORED)


class Tsdae(Objective[str]):
    """Denoise a text through its vector."""

    name: ClassVar[str] = "tsdae"
    kinds: ClassVar[tuple[Kind, ...]] = ("documents", "sessions", "pairs", "queries")
    least_examples = 1

    def __init__(self, encoder: SentenceEncoder, config: TsdaeConfig | None = None) -> None:
        super().__init__()
        self.config = config or TsdaeConfig()
        self.passages = self.config.unit == "passage"
        self.tokenizer = encoder.tokenizer
        self.max_length = min(self.config.max_length, encoder.max_length)
        self.head = MlmHead(encoder, of_decoder=True)
        self.decoder: SmallDecoder | TiedDecoder = (
            TiedDecoder(encoder)
            if self.config.tie == "full"
            else SmallDecoder(encoder, self.config.decoder_layers, self.max_length)
        )

    def draw(self, group: Group, rng: random.Random) -> str | None:
        texts = [text.strip() for text in group.texts if text.strip()]
        if not texts:
            return None
        return " ".join(texts) if self.passages else rng.choice(texts)

    def collate(self, examples: Sequence[str], rng: np.random.Generator) -> Batch:
        ids, mask = tokenize(self.tokenizer, examples, self.max_length)
        left, left_mask = delete_tokens(ids, self.tokenizer, rng, self.config.delete_rate)
        inputs, labels = next_tokens(ids, mask)
        return {
            "input_ids": left,
            "attention_mask": left_mask,
            "decoder_ids": inputs,
            "labels": labels,
        }

    def loss(self, encoder: SentenceEncoder, batch: Batch) -> LossParts:
        vectors = encoder.pooled(batch["input_ids"], batch["attention_mask"])  # (n, width)
        states = self.decoder(vectors, batch["decoder_ids"], encoder)  # (n, length - 1, width)
        loss, accuracy = mlm_loss(states, batch["labels"], self.head, encoder)
        norm = vectors.detach().norm(dim=-1).mean()
        return LossParts(loss, {"tsdae": loss}, {"tsdae_accuracy": accuracy, "vector_norm": norm})

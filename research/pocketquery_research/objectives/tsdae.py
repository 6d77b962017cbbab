"""TSDAE: a sentence is written again from the vector of what deletion left of it.

"TSDAE: Using Transformer-based Sequential Denoising Auto-Encoder for Unsupervised Sentence
Embedding Learning", section 3. The paper ties the whole decoder to the encoder (``tie=full``); the
default here ties the embeddings alone and keeps the decoder small, which fits every encoder.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import torch
from torch import nn

from pocketquery.sdk.errors import InvalidInputError
from pocketquery.sdk.settings.declaration import Settings
from pocketquery.sdk.validation import number, whole
from pocketquery.server.corpus.groups import Group, Kind
from pocketquery.server.modeling import SentenceEncoder
from pocketquery.server.modeling.mlm_head import MlmHead
from pocketquery.server.objectives.mlm import mlm_loss
from pocketquery.server.objectives.objective import Batch, LossParts, Objective, tokenize
from pocketquery.server.objectives.shared.masking import IGNORED, choose_tokens, special_mask

__all__ = ["SmallDecoder", "TiedDecoder", "Tsdae", "TsdaeConfig", "delete_tokens", "next_tokens"]


@dataclass(frozen=True)
class TsdaeConfig(Settings):
    """Settings of :class:`Tsdae`. The paper trains at a constant rate of 3e-5, 8 texts a batch."""

    delete_rate: Annotated[
        float, number(above=0, below=1), "share of the tokens that are deleted"
    ] = 0.6
    tie: Annotated[
        Literal["emb", "full"],
        '"emb", a small decoder with the encoder\'s embeddings; "full", the encoder\'s own layers '
        "with cross-attention added",
    ] = "emb"
    decoder_layers: Annotated[int, whole(), 'with tie="emb"'] = 2
    unit: Annotated[
        Literal["sentence", "passage"], '"sentence", one text of a group, or "passage", several'
    ] = "sentence"
    max_length: Annotated[int, whole(4), "tokens of a text, specials included"] = 64


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


def delete_tokens(
    ids: torch.Tensor, tokenizer: Any, rng: np.random.Generator, rate: float = 0.6
) -> tuple[torch.Tensor, torch.Tensor]:
    """Delete tokens that are not special with probability ``rate``; a row retains at least one.

    Args:
        ids: int64 (rows, length), padded on the right.
        tokenizer: knows its special tokens and its padding.
        rng: the source of randomness.
        rate: share that is deleted.

    Returns:
        Ids and attention mask of the remaining tokens, both int64 (rows, longest).
    """
    special = special_mask(ids, tokenizer).numpy()
    deleted = choose_tokens(special, rng, rate)
    for row in np.flatnonzero((special | deleted).all(axis=1) & ~special.all(axis=1)):
        deleted[row, rng.choice(np.flatnonzero(~special[row]))] = False
    padding = ids.numpy() == tokenizer.pad_token_id
    rows = [
        torch.from_numpy(row[keep])
        for row, keep in zip(ids.numpy(), ~deleted & ~padding, strict=True)
    ]
    remaining = torch.nn.utils.rnn.pad_sequence(rows, True, float(tokenizer.pad_token_id))
    return remaining, (remaining != tokenizer.pad_token_id).long()

"""CMLM: masked tokens of a sentence, predicted with the help of its neighbour's vector.

"Universal Sentence Representation Learning with Conditional Masked Language Model", section 3.1.
The vector conditions on the *neighbour* and enters before the first layer; in Auto-MLM it is the
sentence's own and is added after the last.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

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
from pocketquery.server.objectives.shared.masking import bert_mask
from pocketquery.server.objectives.shared.text_pairs import draw_adjacent

__all__ = ["Cmlm", "CmlmConfig", "Conditioner", "prepend"]

_COUNT_FROM_PADDING = ("roberta", "xlm-roberta", "camembert", "roberta-prelayernorm")


@dataclass(frozen=True)
class CmlmConfig(Settings):
    """Settings of :class:`Cmlm`."""

    projections: Annotated[int, whole(), "vectors that the neighbour's is projected to"] = 15
    mask_rate: Annotated[
        float,
        number(above=0, below=1),
        "share of the tokens that are predicted. The paper hides 80 of 256, twice as many as "
        "BERT: where little is hidden, the sentence itself tells enough",
    ] = 0.31
    max_length: Annotated[int, whole(4), "tokens of a sentence, specials included"] = 64


class Conditioner(nn.Module):
    """One vector to several of the embeddings' width, through three linear layers."""

    def __init__(self, encoder: SentenceEncoder, projections: int) -> None:
        super().__init__()
        hidden = encoder.hidden_size
        self.width = int(encoder.backbone.get_input_embeddings().weight.shape[1])
        self.layers = nn.Sequential(
            nn.Linear(hidden, hidden),
            nn.GELU(),
            nn.Linear(hidden, hidden),
            nn.GELU(),
            nn.Linear(hidden, projections * self.width),
        )

    def forward(self, vectors: torch.Tensor) -> torch.Tensor:
        """Embeddings (n, projections, width) of vectors (n, hidden)."""
        found: torch.Tensor = self.layers(vectors)
        return found.reshape(len(vectors), -1, self.width)


def prepend(
    conditions: torch.Tensor, embeddings: torch.Tensor, mask: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Put vectors before a text's embeddings.

    Args:
        conditions: float (rows, projections, width).
        embeddings: float (rows, length, width).
        mask: int64 (rows, length).

    Returns:
        Embeddings (rows, projections + length, width) and their mask; all conditions are seen.
    """
    seen = mask.new_ones(conditions.shape[:2])
    together = torch.cat([conditions.to(embeddings.dtype), embeddings], dim=1)
    return together, torch.cat([seen, mask], dim=1)


class Cmlm(Objective[tuple[str, str]]):
    """Conditional masked language modelling over sentences that follow one another."""

    name: ClassVar[str] = "cmlm"
    kinds: ClassVar[tuple[Kind, ...]] = ("documents", "sessions", "pairs")
    least_texts = 2
    least_examples = 1

    def __init__(self, encoder: SentenceEncoder, config: CmlmConfig | None = None) -> None:
        super().__init__()
        self.config = config or CmlmConfig()
        self.conditioner = Conditioner(encoder, self.config.projections)
        self.head = MlmHead(encoder)
        self.tokenizer = encoder.tokenizer
        self.first_length = min(self.config.max_length, encoder.max_length)
        self.second_length = min(self.first_length, _positions(encoder) - self.config.projections)
        if self.second_length < 4:
            raise InvalidInputError(
                f"cmlm.projections is {self.config.projections}, and the encoder has "
                f"{_positions(encoder)} positions; expected at least 4 more, for the sentence"
            )

    def draw(self, group: Group, rng: random.Random) -> tuple[str, str] | None:
        return draw_adjacent(group, rng)

    def collate(self, examples: Sequence[tuple[str, str]], rng: np.random.Generator) -> Batch:
        first, second = zip(*examples, strict=True)
        first_ids, first_mask = tokenize(self.tokenizer, first, self.first_length)
        ids, mask = tokenize(self.tokenizer, second, self.second_length)
        masked, labels = bert_mask(ids, self.tokenizer, rng, self.config.mask_rate)
        return {
            "first_ids": first_ids,
            "first_mask": first_mask,
            "input_ids": masked,
            "attention_mask": mask,
            "labels": labels,
        }

    def loss(self, encoder: SentenceEncoder, batch: Batch) -> LossParts:
        vectors = encoder.pooled(batch["first_ids"], batch["first_mask"])  # (n, hidden)
        conditions = self.conditioner(vectors)  # (n, projections, width)
        embeddings = encoder.backbone.get_input_embeddings()(batch["input_ids"])
        inputs, mask = prepend(conditions, embeddings, batch["attention_mask"])
        states = encoder.backbone(inputs_embeds=inputs, attention_mask=mask)[0]
        states = states[:, self.config.projections :]  # (n, length, hidden)
        loss, accuracy = mlm_loss(states, batch["labels"], self.head, encoder)
        norm = vectors.detach().norm(dim=-1).mean()
        return LossParts(loss, {"cmlm": loss}, {"cmlm_accuracy": accuracy, "vector_norm": norm})


def _positions(encoder: SentenceEncoder) -> int:
    """Tokens that the encoder can tell the places of."""
    config = encoder.backbone.config
    positions = int(getattr(config, "max_position_embeddings", 0) or 512)
    if getattr(config, "model_type", "") in _COUNT_FROM_PADDING:
        positions -= int(config.pad_token_id) + 1  # where their first position is
    return positions

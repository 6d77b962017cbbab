"""SimCSE without labels: a text is its own positive, under another dropout.

"SimCSE: Simple Contrastive Learning of Sentence Embeddings", section 3.
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
from pocketquery.server.objectives.objective import Batch, LossParts, Objective, tokenize
from pocketquery.server.objectives.shared.losses import cosines, info_nce, same_text_mask

__all__ = ["SimCse", "SimCseConfig"]


@dataclass(frozen=True)
class SimCseConfig(Settings):
    """Settings of :class:`SimCse`; the defaults are the authors'."""

    temperature: Annotated[float, number(1e-3), "tau"] = 0.05
    head: Annotated[bool, "linear and tanh in training, left out of what ships"] = True
    unit: Annotated[
        Literal["text", "passage"],
        '"text" for one text of a group, "passage" for consecutive ones together',
    ] = "text"
    max_length: Annotated[int, whole(4), "tokens of a text, specials included"] = 32


class SimCse(Objective[str]):
    """InfoNCE between two dropouts of the same texts, rows only.

    The vector is pooled as the encoder pools, so that what is trained is what ships; the paper's
    is the first token's (``pooling="cls"``).
    """

    name: ClassVar[str] = "simcse"
    kinds: ClassVar[tuple[Kind, ...]] = ("documents", "queries", "sessions", "pairs")

    def __init__(self, encoder: SentenceEncoder, config: SimCseConfig | None = None) -> None:
        super().__init__()
        self.config = config or SimCseConfig()
        width = encoder.hidden_size
        layers = [nn.Linear(width, width), nn.Tanh()] if self.config.head else []
        self.head = nn.Sequential(*layers)
        self.passages = self.config.unit == "passage"
        self.tokenizer = encoder.tokenizer
        self.max_length = min(self.config.max_length, encoder.max_length)

    def draw(self, group: Group, rng: random.Random) -> str | None:
        texts = [text for text in group.texts if text.strip()]
        if self.passages:
            return " ".join(texts) or None
        return rng.choice(texts) if texts else None

    def collate(self, examples: Sequence[str], rng: np.random.Generator) -> Batch:
        ids, mask = tokenize(self.tokenizer, examples, self.max_length)
        texts = list(examples)
        dropped = same_text_mask(texts, texts)
        return {"input_ids": ids, "attention_mask": mask, "dropped": dropped}

    def loss(self, encoder: SentenceEncoder, batch: Batch) -> LossParts:
        ids, mask = batch["input_ids"].repeat(2, 1), batch["attention_mask"].repeat(2, 1)
        first, second = self.project(encoder, ids, mask).chunk(2)  # (texts, width) each
        loss = info_nce(
            first, second, self.config.temperature, dropped=batch["dropped"], symmetric=False
        )
        return LossParts(loss, {"info_nce": loss}, _separation(first.detach(), second.detach()))

    def project(
        self, encoder: SentenceEncoder, input_ids: torch.Tensor, attention_mask: torch.Tensor
    ) -> torch.Tensor:
        """What the loss compares, float (texts, width)."""
        projected: torch.Tensor = self.head(encoder.pooled(input_ids, attention_mask))
        return projected


def _separation(first: torch.Tensor, second: torch.Tensor) -> dict[str, torch.Tensor | float]:
    scores = cosines(first, second)
    own = torch.eye(len(scores), dtype=torch.bool, device=scores.device)
    return {"positive_cos": scores[own].mean(), "negative_cos": scores[~own].mean()}

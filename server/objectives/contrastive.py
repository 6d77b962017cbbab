"""Contrast of texts of one group with those of the others in the batch.

* ``margin``: the hinge of "Auto-MLM: Improved Contrastive Learning for Self-supervised
  Multi-lingual Knowledge Retrieval", alone.
* ``info_nce``: softmax over cosines, "Representation Learning with Contrastive Predictive Coding",
  section 2.3; in one direction with the temperature 0.05 it is what sentence-transformers calls
  MultipleNegativesRankingLoss.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, NamedTuple

import numpy as np
import torch

from pocketquery.sdk.settings.declaration import Settings
from pocketquery.sdk.validation import number, whole
from pocketquery.server.corpus.groups import Group, Kind, Source
from pocketquery.server.modeling import SentenceEncoder
from pocketquery.server.objectives.objective import Batch, LossParts, Objective, tokenize
from pocketquery.server.objectives.shared.losses import (
    cosines,
    in_batch_accuracy,
    info_nce,
    margin_in_batch,
    same_mask,
    same_text_mask,
)
from pocketquery.server.objectives.shared.text_pairs import (
    check_user_role,
    draw_adjacent,
    draw_pair,
)

__all__ = ["Contrastive", "ContrastiveConfig", "Related"]


@dataclass(frozen=True)
class ContrastiveConfig(Settings):
    """Settings of :class:`Contrastive`."""

    loss: Annotated[
        Literal["margin", "info_nce"],
        '"margin" or "info_nce"',
    ] = "margin"
    margin: Annotated[float, number(1e-6), "gamma of the hinge"] = 0.1
    temperature: Annotated[float, number(1e-6), 'of "info_nce"'] = 0.05
    symmetric: Annotated[bool, "also over columns"] = False
    user_role: Annotated[str, "the role of the user in sessions; empty: found"] = ""
    max_length: Annotated[int, whole(4), "tokens of a text, specials included"] = 64


class Related(NamedTuple):
    """Two texts of one group."""

    group: str
    first: str
    second: str


class Contrastive(Objective[Related]):
    """Texts of one group against those of the others in the batch.

    A session gives two turns of different sides, a titled document its title and a sentence, other
    documents two sentences in a row.
    """

    name: ClassVar[str] = "contrastive"
    kinds: ClassVar[tuple[Kind, ...]] = ("sessions", "pairs", "documents")
    least_texts = 2

    def __init__(self, encoder: SentenceEncoder, config: ContrastiveConfig | None = None) -> None:
        super().__init__()
        self.config = config or ContrastiveConfig()
        self.tokenizer = encoder.tokenizer
        self.max_length = min(self.config.max_length, encoder.max_length)

    def check_source(self, source: Source) -> None:
        check_user_role(source, self.config.user_role)

    def draw(self, group: Group, rng: random.Random) -> Related | None:
        pair = draw_pair(group, rng, user_role=self.config.user_role)
        if pair and pair.agent:
            return Related(group.id, pair.agent, pair.user)
        neighbours = draw_adjacent(group, rng) if not group.roles else None
        return Related(group.id, *neighbours) if neighbours else None

    def collate(self, examples: Sequence[Related], rng: np.random.Generator) -> Batch:
        """The first texts, then the second."""
        groups, firsts, seconds = (list(column) for column in zip(*examples, strict=True))
        ids, mask = tokenize(self.tokenizer, firsts + seconds, self.max_length)
        return {
            "input_ids": ids,
            "attention_mask": mask,
            "dropped": same_text_mask(firsts, firsts)
            | same_text_mask(seconds, seconds)
            | same_text_mask(firsts, seconds)
            | same_mask(groups, groups),
        }

    def loss(self, encoder: SentenceEncoder, batch: Batch) -> LossParts:
        vectors = encoder.pooled(batch["input_ids"], batch["attention_mask"])
        first, second = vectors.chunk(2)  # (pairs, width) each
        loss = self._pair_loss(first, second, batch["dropped"])
        accuracy = in_batch_accuracy(cosines(first.detach(), second.detach()))
        return LossParts(loss, {self.config.loss: loss}, {"accuracy": accuracy})

    def _pair_loss(
        self, first: torch.Tensor, second: torch.Tensor, dropped: torch.Tensor
    ) -> torch.Tensor:
        config = self.config
        if config.loss == "info_nce":
            return info_nce(
                first, second, config.temperature, dropped=dropped, symmetric=config.symmetric
            )
        scores = cosines(first, second)  # (pairs, pairs)
        rows = margin_in_batch(scores, config.margin, dropped)
        if not config.symmetric:
            return rows
        return (rows + margin_in_batch(scores.T, config.margin, dropped.T)) / 2

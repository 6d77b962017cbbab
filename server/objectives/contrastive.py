"""Contrast of texts of one group: the family of baselines called CL.

* ``margin``: the hinge of "Auto-MLM: Improved Contrastive Learning for Self-supervised
  Multi-lingual Knowledge Retrieval", alone.
* ``ams``: additive-margin softmax in both directions, "Language-agnostic BERT Sentence Embedding",
  section 2.2.
* ``info_nce``: softmax over cosines, "Representation Learning with Contrastive Predictive Coding",
  section 2.3; in one direction with the temperature 0.05 it is what sentence-transformers calls
  MultipleNegativesRankingLoss.
* ``quick_thought``: "An efficient framework for learning sentence representations", section 3.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
import torch
from torch import nn

from pocketquery.server.corpus.groups import Group, Kind
from pocketquery.server.modeling import SentenceEncoder
from pocketquery.server.objectives.objective import Batch, LossParts, Objective, tokenize
from pocketquery.server.objectives.options import check_at_least, check_choice
from pocketquery.server.objectives.quick_thought import neighbour_softmax, neighbours_within
from pocketquery.server.objectives.shared.losses import (
    additive_margin_softmax,
    cosines,
    dots,
    info_nce,
    margin_in_batch,
    same_text_mask,
)
from pocketquery.server.objectives.shared.text_pairs import draw_adjacent, draw_pair

__all__ = ["Contrastive", "ContrastiveConfig", "Run"]

_LOSSES = ("margin", "ams", "info_nce", "quick_thought")


@dataclass(frozen=True)
class ContrastiveConfig:
    """Settings of :class:`Contrastive`.

    Attributes:
        loss: ``"margin"``, ``"ams"``, ``"info_nce"`` or ``"quick_thought"``.
        margin: gamma of the hinge.
        ams_margin: what ``"ams"`` takes off the positives.
        scale: of ``"ams"``.
        temperature: of ``"info_nce"``.
        symmetric: ``"margin"`` and ``"info_nce"`` also over columns; ``"ams"`` always is.
        run: consecutive texts of a group, for ``"quick_thought"``.
        distance: of the farthest neighbour there.
        pair_policy: ``"any"`` two turns of a session, or ``"adjacent"`` ones.
        user_role: the role of the user in sessions; empty: found.
        max_length: tokens of a text, specials included.
    """

    loss: str = "margin"
    margin: float = 0.1
    ams_margin: float = 0.3
    scale: float = 20.0
    temperature: float = 0.05
    symmetric: bool = False
    run: int = 4
    distance: int = 1
    pair_policy: str = "any"
    user_role: str = ""
    max_length: int = 64

    def __post_init__(self) -> None:
        check_choice("loss", self.loss, _LOSSES)
        check_choice("pair_policy", self.pair_policy, ("any", "adjacent"))
        for name in ("margin", "scale", "temperature"):
            check_at_least(name, getattr(self, name), 1e-6)
        check_at_least("ams_margin", self.ams_margin, 0)
        check_at_least("run", self.run, 2)
        check_at_least("distance", self.distance, 1)
        check_at_least("max_length", self.max_length, 4)


class Run(NamedTuple):
    """Texts of one group that belong together: a pair, or consecutive ones."""

    group: str
    texts: tuple[str, ...]


class Contrastive(Objective[Run]):
    """Texts of one group against those of the others in the batch.

    A session gives two turns of different sides, a titled document its title and a sentence, other
    documents two sentences in a row.

    Quick-Thought has two encoders, f and g, whose vectors stand side by side at inference. Here
    they share the Transformer and differ in a linear layer each, so that one encoder ships, with
    both layers stacked as its head.
    """

    name: ClassVar[str] = "contrastive"
    kinds: ClassVar[tuple[Kind, ...]] = ("sessions", "pairs", "documents")
    least_texts = 2

    def __init__(self, encoder: SentenceEncoder, config: ContrastiveConfig | None = None) -> None:
        super().__init__()
        self.config = config or ContrastiveConfig()
        self.runs = self.config.loss == "quick_thought"
        width = encoder.hidden_size
        self.towers = nn.Linear(width, 2 * width) if self.runs else None
        self.tokenizer = encoder.tokenizer
        self.max_length = min(self.config.max_length, encoder.max_length)

    def draw(self, group: Group, rng: random.Random) -> Run | None:
        if self.runs:
            texts = tuple(text for text in group.texts if text.strip())
            first = rng.randrange(max(len(texts) - self.config.run, 0) + 1)
            return Run(group.id, texts[first : first + self.config.run]) if texts[1:] else None
        adjacent = self.config.pair_policy == "adjacent"
        pair = draw_pair(group, rng, adjacent=adjacent, user_role=self.config.user_role)
        if pair and pair.agent:
            return Run(group.id, (pair.agent, pair.user))
        neighbours = draw_adjacent(group, rng) if not group.roles else None
        return Run(group.id, neighbours) if neighbours else None

    def collate(self, examples: Sequence[Run], rng: np.random.Generator) -> Batch:
        """Rows of runs one after another; of pairs, the first texts and then the second."""
        if self.runs:
            return self._tokenized([text for run in examples for text in run.texts]) | {
                "groups": _codes([run.group for run in examples for _ in run.texts]),
                "positions": torch.tensor([at for run in examples for at in range(len(run.texts))]),
            }
        firsts = [run.texts[0] for run in examples]
        seconds = [run.texts[1] for run in examples]
        groups = _codes([run.group for run in examples])
        same = [same_text_mask(a, b) for a, b in ((firsts, firsts), (seconds, seconds))]
        dropped = same[0] | same[1] | same_text_mask(firsts, seconds)
        dropped |= groups.unsqueeze(1) == groups
        return self._tokenized(firsts + seconds) | {"dropped": dropped}

    def _tokenized(self, texts: list[str]) -> Batch:
        ids, mask = tokenize(self.tokenizer, texts, self.max_length)
        batch: Batch = {"input_ids": ids, "attention_mask": mask}
        return batch | {"dropped": same_text_mask(texts, texts)} if self.runs else batch

    def loss(self, encoder: SentenceEncoder, batch: Batch) -> LossParts:
        vectors = self.project(encoder, batch["input_ids"], batch["attention_mask"])
        if self.runs:
            f, g = vectors.chunk(2, dim=1)  # (texts, width) each
            targets = neighbours_within(batch["groups"], batch["positions"], self.config.distance)
            loss = neighbour_softmax(dots(f, g), targets, batch["dropped"])
            return LossParts(loss, {"quick_thought": loss})
        first, second = vectors.chunk(2)  # (pairs, width) each
        loss = self._pair_loss(first, second, batch["dropped"])
        scores = cosines(first.detach(), second.detach())
        right = (scores.argmax(dim=1) == torch.arange(len(scores), device=scores.device)).float()
        return LossParts(loss, {self.config.loss: loss}, {"accuracy": right.mean()})

    def _pair_loss(
        self, first: torch.Tensor, second: torch.Tensor, dropped: torch.Tensor
    ) -> torch.Tensor:
        config = self.config
        if config.loss == "info_nce":
            return info_nce(
                first, second, config.temperature, dropped=dropped, symmetric=config.symmetric
            )
        scores = cosines(first, second)  # (pairs, pairs)
        if config.loss == "ams":
            both = [(scores, dropped), (scores.T, dropped.T)]
            losses = [
                additive_margin_softmax(s, config.ams_margin, config.scale, d) for s, d in both
            ]
            return sum(losses, torch.zeros_like(losses[0])) / 2
        rows = margin_in_batch(scores, config.margin, dropped)
        if not config.symmetric:
            return rows
        return (rows + margin_in_batch(scores.T, config.margin, dropped.T)) / 2

    def project(
        self, encoder: SentenceEncoder, input_ids: torch.Tensor, attention_mask: torch.Tensor
    ) -> torch.Tensor:
        """What the loss compares: pooled vectors, or both towers' side by side."""
        pooled = encoder.pooled(input_ids, attention_mask)  # (texts, width)
        if self.towers is None:
            return pooled
        towers: torch.Tensor = self.towers(pooled)  # (texts, 2 width)
        return towers

    def export(self, encoder: SentenceEncoder) -> SentenceEncoder:
        """Quick-Thought ships f and g side by side; the others their pooled vectors."""
        if self.towers is None:
            return encoder
        return SentenceEncoder(
            encoder.backbone,
            encoder.tokenizer,
            pooling=encoder.pooling,
            head=nn.Sequential(self.towers),
            prompts=encoder.prompts,
            max_length=encoder.max_length,
            name=encoder.name,
        )


def _codes(names: Sequence[str]) -> torch.Tensor:
    """The same number for the same name, int64 (names,)."""
    numbers: dict[str, int] = {}
    return torch.tensor([numbers.setdefault(name, len(numbers)) for name in names])

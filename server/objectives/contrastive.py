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
from typing import Annotated, ClassVar, Literal, NamedTuple

import numpy as np
import torch
from torch import nn

from pocketquery.sdk.settings.declaration import Settings
from pocketquery.sdk.validation import number, whole
from pocketquery.server.corpus.groups import Group, Kind, Source
from pocketquery.server.modeling import SentenceEncoder
from pocketquery.server.objectives.objective import Batch, LossParts, Objective, tokenize, with_head
from pocketquery.server.objectives.shared.losses import (
    additive_margin_softmax,
    cosines,
    dots,
    in_batch_accuracy,
    info_nce,
    key_codes,
    margin_in_batch,
    same_text_mask,
)
from pocketquery.server.objectives.shared.text_pairs import (
    check_user_role,
    draw_adjacent,
    draw_pair,
)

__all__ = ["Contrastive", "ContrastiveConfig", "Run", "neighbour_softmax", "neighbours_within"]


@dataclass(frozen=True)
class ContrastiveConfig(Settings):
    """Settings of :class:`Contrastive`."""

    loss: Annotated[
        Literal["margin", "ams", "info_nce", "quick_thought"],
        '"margin", "ams", "info_nce" or "quick_thought"',
    ] = "margin"
    margin: Annotated[float, number(1e-6), "gamma of the hinge"] = 0.1
    ams_margin: Annotated[float, number(0), 'what "ams" takes off the positives'] = 0.3
    scale: Annotated[float, number(1e-6), 'of "ams"'] = 20.0
    temperature: Annotated[float, number(1e-6), 'of "info_nce"'] = 0.05
    symmetric: Annotated[bool, '"margin" and "info_nce" also over columns; "ams" always is'] = False
    run: Annotated[int, whole(2), 'consecutive texts of a group, for "quick_thought"'] = 4
    distance: Annotated[int, whole(), "of the farthest neighbour there"] = 1
    pair_policy: Annotated[
        Literal["any", "adjacent"], '"any" two turns of a session, or "adjacent" ones'
    ] = "any"
    user_role: Annotated[str, "the role of the user in sessions; empty: found"] = ""
    max_length: Annotated[int, whole(4), "tokens of a text, specials included"] = 64


class Run(NamedTuple):
    """Texts of one group that belong together: a pair, or consecutive ones."""

    group: str
    texts: tuple[str, ...]


def neighbours_within(groups: torch.Tensor, positions: torch.Tensor, distance: int) -> torch.Tensor:
    """Which texts of a batch are neighbours: bool (n, n), symmetric, false on the diagonal.

    Args:
        groups: int64 (n,), equal for texts of one group.
        positions: int64 (n,), of each text within its group.
        distance: the farthest neighbour's.
    """
    apart = (positions.unsqueeze(1) - positions.unsqueeze(0)).abs()
    return (groups.unsqueeze(1) == groups.unsqueeze(0)) & (apart <= distance) & (apart > 0)


def neighbour_softmax(
    scores: torch.Tensor, targets: torch.Tensor, dropped: torch.Tensor | None = None
) -> torch.Tensor:
    r"""Cross entropy of uniform targets over the other texts of the batch.

    .. math:: \mathrm{mean}_i\Big(\mathrm{lse}_{j \neq i}\,S_{ij}
              - \tfrac{1}{|T_i|}\sum_{t \in T_i} S_{it}\Big)

    "An efficient framework for learning sentence representations", section 3. The released code
    sets a text's score with itself to 0, which leaves it among the candidates; here it is removed.

    Args:
        scores: (n, n), dot products of f (rows) and g (columns).
        targets: bool (n, n), false on the diagonal; rows without any do not count.
        dropped: bool (n, n): candidates that are left out of a row; targets never are.

    Returns:
        Scalar in [0, inf); 0 where no row has a target.
    """
    own = torch.eye(len(scores), dtype=torch.bool, device=scores.device)
    out = own if dropped is None else own | (dropped & ~targets)
    counts = targets.sum(dim=1)
    rows = counts > 0
    candidates = scores.masked_fill(out, -torch.inf)[rows]
    wanted = scores.masked_fill(~targets, 0).sum(dim=1)[rows] / counts[rows]
    return (candidates.logsumexp(dim=1) - wanted).sum() / rows.sum().clamp(min=1)


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

    def check_source(self, source: Source) -> None:
        check_user_role(source, self.config.user_role)

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
                "groups": key_codes([run.group for run in examples for _ in run.texts]),
                "positions": torch.tensor([at for run in examples for at in range(len(run.texts))]),
            }
        firsts = [run.texts[0] for run in examples]
        seconds = [run.texts[1] for run in examples]
        groups = key_codes([run.group for run in examples])
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
        return with_head(encoder, nn.Sequential(self.towers))

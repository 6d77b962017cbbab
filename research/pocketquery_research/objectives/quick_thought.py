"""Quick-Thought: a text's neighbours are found among the other texts of the batch.

"An efficient framework for learning sentence representations", section 3.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, NamedTuple

import numpy as np
import torch
from torch import nn

from pocketquery.sdk.settings.declaration import Settings
from pocketquery.sdk.validation import whole
from pocketquery.server.corpus.groups import Group, Kind
from pocketquery.server.modeling import SentenceEncoder
from pocketquery.server.objectives.objective import Batch, LossParts, Objective, tokenize, with_head
from pocketquery.server.objectives.shared.losses import dots, key_codes, same_text_mask

__all__ = [
    "QuickThought",
    "QuickThoughtConfig",
    "Run",
    "neighbour_softmax",
    "neighbours_within",
]


@dataclass(frozen=True)
class QuickThoughtConfig(Settings):
    """Settings of :class:`QuickThought`."""

    run: Annotated[int, whole(2), "consecutive texts of a group"] = 4
    distance: Annotated[int, whole(), "of the farthest neighbour"] = 1
    max_length: Annotated[int, whole(4), "tokens of a text, specials included"] = 64


class Run(NamedTuple):
    """Consecutive texts of one group."""

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


class QuickThought(Objective[Run]):
    """Consecutive texts against those of the other groups.

    The paper has two encoders, f and g, whose vectors stand side by side at inference. Here they
    share the Transformer and differ in a linear layer each, so that one encoder ships, with both
    layers stacked as its head.
    """

    name: ClassVar[str] = "quick_thought"
    kinds: ClassVar[tuple[Kind, ...]] = ("documents", "sessions", "pairs")
    least_texts = 2

    def __init__(self, encoder: SentenceEncoder, config: QuickThoughtConfig | None = None) -> None:
        super().__init__()
        self.config = config or QuickThoughtConfig()
        self.towers = nn.Linear(encoder.hidden_size, 2 * encoder.hidden_size)
        self.tokenizer = encoder.tokenizer
        self.max_length = min(self.config.max_length, encoder.max_length)

    def draw(self, group: Group, rng: random.Random) -> Run | None:
        texts = tuple(text for text in group.texts if text.strip())
        first = rng.randrange(max(len(texts) - self.config.run, 0) + 1)
        return Run(group.id, texts[first : first + self.config.run]) if texts[1:] else None

    def collate(self, examples: Sequence[Run], rng: np.random.Generator) -> Batch:
        """Runs one after another."""
        texts = [text for run in examples for text in run.texts]
        ids, mask = tokenize(self.tokenizer, texts, self.max_length)
        return {
            "input_ids": ids,
            "attention_mask": mask,
            "dropped": same_text_mask(texts, texts),
            "groups": key_codes([run.group for run in examples for _ in run.texts]),
            "positions": torch.tensor([at for run in examples for at in range(len(run.texts))]),
        }

    def loss(self, encoder: SentenceEncoder, batch: Batch) -> LossParts:
        f, g = self.project(encoder, batch["input_ids"], batch["attention_mask"]).chunk(2, dim=1)
        targets = neighbours_within(batch["groups"], batch["positions"], self.config.distance)
        loss = neighbour_softmax(dots(f, g), targets, batch["dropped"])
        return LossParts(loss, {"quick_thought": loss})

    def project(
        self, encoder: SentenceEncoder, input_ids: torch.Tensor, attention_mask: torch.Tensor
    ) -> torch.Tensor:
        """Both towers' vectors side by side, float (texts, 2 width)."""
        towers: torch.Tensor = self.towers(encoder.pooled(input_ids, attention_mask))
        return towers

    def export(self, encoder: SentenceEncoder) -> SentenceEncoder:
        """f and g side by side."""
        return with_head(encoder, nn.Sequential(self.towers))

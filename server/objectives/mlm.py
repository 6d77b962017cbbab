"""Masked language modelling, the baseline and the warm start of every comparison.

"BERT: Pre-training of Deep Bidirectional Transformers for Language Understanding", section 3.1.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, ClassVar

import numpy as np
import torch

from pocketquery.sdk.settings.declaration import Settings
from pocketquery.sdk.validation import number, whole
from pocketquery.server.corpus.groups import Group, Kind
from pocketquery.server.modeling import SentenceEncoder
from pocketquery.server.modeling.mlm_head import MlmHead
from pocketquery.server.objectives.objective import Batch, LossParts, Objective, tokenize
from pocketquery.server.objectives.shared.masking import IGNORED, bert_mask

__all__ = ["Mlm", "MlmConfig", "masked_cross_entropy", "masked_positions", "mlm_loss"]


CrossEntropy = Callable[[torch.Tensor, torch.Tensor], tuple[torch.Tensor, torch.Tensor]]


@dataclass(frozen=True)
class MlmConfig(Settings):
    """Settings of :class:`Mlm`."""

    mask_rate: Annotated[
        float, number(above=0, below=1), "share of the tokens that are predicted"
    ] = 0.15
    max_length: Annotated[int, whole(4), "tokens of a passage, specials included"] = 64


def masked_positions(labels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Rows and columns of the labels that count, both int64 (n,)."""
    rows, columns = (labels != IGNORED).nonzero(as_tuple=True)
    return rows, columns


def masked_cross_entropy(
    states: torch.Tensor, labels: torch.Tensor, cross_entropy: CrossEntropy
) -> tuple[torch.Tensor, torch.Tensor]:
    r"""Mean cross entropy over the positions that have a label; no others are predicted.

    .. math:: L = \frac1n \sum_{i: y_i \neq \mathrm{ignored}} -\log p(y_i)

    Padding, and rows without a label, never count.

    Args:
        states: float (rows, length, width), of an encoder or a decoder.
        labels: int64 (rows, length), :data:`IGNORED` where there is no loss.
        cross_entropy: of states (n, width) and their labels int64 (n,): the sum, and how many are
            predicted.

    Returns:
        The loss, in [0, inf) and 0 where nothing counts, float32 or wider; and the share of the
        labels that is predicted (the accuracy), without gradient.
    """
    rows, columns = masked_positions(labels)
    total, right = cross_entropy(states[rows, columns], labels[rows, columns])
    return total / max(len(rows), 1), right / max(len(rows), 1)


def mlm_loss(
    states: torch.Tensor, labels: torch.Tensor, head: MlmHead, encoder: SentenceEncoder
) -> tuple[torch.Tensor, torch.Tensor]:
    """:func:`masked_cross_entropy` by a head that is tied to the encoder's table."""
    return masked_cross_entropy(states, labels, partial(head.cross_entropy, encoder=encoder))


class Mlm(Objective[str]):
    """Predict masked tokens of passages."""

    name: ClassVar[str] = "mlm"
    kinds: ClassVar[tuple[Kind, ...]] = ("documents", "sessions", "pairs", "queries")
    passages = True
    least_examples = 1

    def __init__(self, encoder: SentenceEncoder, config: MlmConfig | None = None) -> None:
        super().__init__()
        self.config = config or MlmConfig()
        self.head = MlmHead(encoder)
        self.tokenizer = encoder.tokenizer
        self.max_length = min(self.config.max_length, encoder.max_length)

    def draw(self, group: Group, rng: random.Random) -> str | None:
        return " ".join(group.texts)

    def collate(self, examples: Sequence[str], rng: np.random.Generator) -> Batch:
        ids, mask = tokenize(self.tokenizer, examples, self.max_length)
        masked, labels = bert_mask(ids, self.tokenizer, rng, self.config.mask_rate)
        return {"input_ids": masked, "attention_mask": mask, "labels": labels}

    def loss(self, encoder: SentenceEncoder, batch: Batch) -> LossParts:
        states = encoder.states(batch["input_ids"], batch["attention_mask"])
        loss, accuracy = mlm_loss(states, batch["labels"], self.head, encoder)
        return LossParts(loss, {"mlm": loss}, {"mlm_accuracy": accuracy})

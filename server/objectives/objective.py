"""The interface between objectives and the pretraining loop.

The mathematics of an objective is a pure function of tensors in its own file. One
:class:`Objective` draws its examples, collates them, and holds what is trained beside the encoder:
heads, target networks, memory banks. It is an ``nn.Module``, so that a checkpoint of its
``state_dict`` is a checkpoint of all of that.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
import torch
from torch import nn

from pocketquery.server.corpus.groups import Group, Kind, Source
from pocketquery.server.modeling import SentenceEncoder

__all__ = ["Batch", "LossParts", "Objective", "surrounding_specials", "tokenize", "with_head"]

Batch = dict[str, Any]
"""Tensors (moved to the encoder's device by the loop) and plain values, by name."""

Example = TypeVar("Example")


@dataclass(frozen=True)
class LossParts:
    """What one step of an objective came to.

    Attributes:
        total: scalar with gradient: the weighted sum of the parts.
        parts: un-weighted scalars by name, as the logs show them.
        stats: further figures by name (accuracies, gaps, norms): scalars without gradient.
    """

    total: torch.Tensor
    parts: Mapping[str, torch.Tensor]
    stats: Mapping[str, torch.Tensor | float] = field(default_factory=dict)


class Objective(nn.Module, ABC, Generic[Example]):
    """One objective: how examples are drawn, batched and scored, and what ships at the end.

    Drawing and collating may run in worker processes and are pure functions of their arguments;
    :meth:`loss` and :meth:`after_step` run where the encoder is.

    Attributes:
        name: what it is configured and logged by.
        kinds: the sources it can draw from, the preferred first.
        passages: draws one passage (consecutive sentences) instead of a whole group of documents;
            the loop then hands it :class:`pocketquery.server.corpus.Passages` of the source.
        by_language: a batch holds groups of one language only.
        max_length: tokens of its texts, specials included; passages are no longer than that.
        least_texts: groups with fewer texts are never drawn.
        least_examples: a batch with fewer is skipped and counted.
    """

    name: ClassVar[str]
    kinds: ClassVar[tuple[Kind, ...]]
    passages: bool = False
    by_language: bool = False
    max_length: int = 512
    least_texts: int = 1
    least_examples: int = 2

    def check_source(self, source: Source) -> None:
        """Refuse groups that it cannot learn from. Called where the two are put together.

        Args:
            source: of one of :attr:`kinds`.

        Raises:
            InvalidInputError: there is such a group; names it.
        """

    def prepare(self, source: Source, tokenizer: Any) -> None:
        """Take what is needed to know of the whole corpus, say how often each token occurs.

        Called once before the first step, and again by a run that resumes; what was taken is in
        the ``state_dict``, so then nothing is to be done.

        Args:
            source: what :meth:`draw` will get its groups from.
            tokenizer: the encoder's.
        """

    def record(self) -> dict[str, Any]:
        """What else than its configuration decides its examples, as JSON values.

        A run records it, and one in which it differs is not resumed.
        """
        return {}

    @abstractmethod
    def draw(self, group: Group, rng: random.Random) -> Example | None:
        """One example of a group, drawn anew every epoch; None where the group has none."""

    @abstractmethod
    def collate(self, examples: Sequence[Example], rng: np.random.Generator) -> Batch:
        """The batch of some examples: tokenised, masked, padded."""

    @abstractmethod
    def loss(self, encoder: SentenceEncoder, batch: Batch) -> LossParts:
        """The loss of a batch, with gradient towards the encoder and the objective's own heads."""

    def after_step(self, encoder: SentenceEncoder, batch: Batch, step: int, steps: int) -> None:
        """What happens after the optimiser's step: a target follows, a bank takes its rows.

        Args:
            encoder: with the new weights.
            batch: the step's.
            step: the step that was taken, from 0.
            steps: of the whole run.
        """

    def alarms(self, figures: Mapping[str, float]) -> list[str]:
        """Names of what is alarming in the means of its parts and stats since the log's last line.

        They are logged with those of the geometry, and stop no run.
        """
        return []

    def project(
        self, encoder: SentenceEncoder, input_ids: torch.Tensor, attention_mask: torch.Tensor
    ) -> torch.Tensor:
        """What the loss compares, float (texts, width): the pooled vectors, or a head's.

        A head's vectors collapse before the pooled ones do, and so are diagnosed beside them.
        """
        return encoder.pooled(input_ids, attention_mask)

    def save_beside(self, folder: Path, shipped: SentenceEncoder) -> None:
        """Write what is of use beside the shipped encoder, say a decoder, into its folder."""

    def export(self, encoder: SentenceEncoder) -> SentenceEncoder:
        """The encoder that ships: as it is, where the objective keeps no head at inference."""
        return encoder


def tokenize(
    tokenizer: Any, texts: Sequence[str], max_length: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Ids and attention mask, both int64 (texts, longest), of at most ``max_length`` tokens.

    Args:
        tokenizer: an encoder's.
        texts: n of them.
        max_length: specials included.
    """
    encoded = tokenizer(
        list(texts),
        padding=True,
        truncation=True,
        max_length=max_length,
        return_tensors="pt",
        return_token_type_ids=False,
    )
    return encoded["input_ids"], encoded["attention_mask"]


def surrounding_specials(tokenizer: Any) -> tuple[list[int], list[int]]:
    """Ids of the special tokens that a tokenizer puts before and after a text."""
    encoded = tokenizer("a", return_special_tokens_mask=True)
    ids, special = encoded["input_ids"], encoded["special_tokens_mask"]
    inner = [place for place, flag in enumerate(special) if not flag]
    return ids[: inner[0]], ids[inner[-1] + 1 :]


def with_head(
    encoder: SentenceEncoder, head: nn.Sequential | None, pooling: str = ""
) -> SentenceEncoder:
    """The encoder with another head, and another pooling where one is given; weights are shared."""
    return SentenceEncoder(
        encoder.backbone,
        encoder.tokenizer,
        pooling=pooling or encoder.pooling,
        head=head,
        prompts=encoder.prompts,
        default_prompt_name=encoder.default_prompt_name,
        max_length=encoder.max_length,
        name=encoder.name,
    )

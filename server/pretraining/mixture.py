"""The mixture of a run: objectives with sources and weights, and the stream of batches."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, is_dataclass
from typing import Any

import numpy as np
import torch
from torch.utils.data import Dataset

from pocketquery.sdk.errors import InvalidInputError
from pocketquery.server.corpus.groups import Source
from pocketquery.server.objectives.objective import Batch, Objective
from pocketquery.server.pretraining.batching import BatchPlan, token_costs
from pocketquery.server.pretraining.config import PretrainingConfig
from pocketquery.server.pretraining.round_robin import WeightedRoundRobin

__all__ = ["left_out_of", "name_left_out", "MicroBatch", "MixtureStream", "Part", "SkippedBatches"]

_MOST_SKIPPED = 100  # batches of a part, in a row


@dataclass(frozen=True)
class Part:
    """One objective of a run.

    Attributes:
        objective: built around the encoder that is trained.
        source: what its examples are drawn from, of one of ``objective.kinds``. An objective of
            passages takes any documents here; cut them with
            :class:`pocketquery.server.corpus.Passages`.
        weight: of its loss, or of its share of the turns.
    """

    objective: Objective[Any]
    source: Source
    weight: float = 1.0

    def __post_init__(self) -> None:
        if self.source.kind not in self.objective.kinds:
            known = ", ".join(self.objective.kinds)
            raise InvalidInputError(
                f"{self.objective.name} cannot learn from {self.source.kind}; it takes {known}"
            )
        self.objective.check_source(self.source)
        if not 0 < self.weight < math.inf:
            raise InvalidInputError(
                f"the weight of {self.objective.name} is {self.weight}; expected above 0 and finite"
            )

    def identity(self) -> dict[str, Any]:
        """What must be the same for a run to be resumed, as JSON values."""
        config = getattr(self.objective, "config", None)
        return {
            "objective": self.objective.name,
            "config": vars(config) if is_dataclass(config) else None,
            "weight": self.weight,
            "source": self.source.fingerprint,
            **self.objective.record(),
        }


@dataclass(frozen=True)
class MicroBatch:
    """A collated batch of one part.

    Attributes:
        part: its place among the parts.
        batch: what the objective's loss takes; None where too few groups had an example.
        examples: how many there are.
        tokens: real ones, without padding.
    """

    part: int
    batch: Batch | None
    examples: int
    tokens: int


class MixtureStream(Dataset[list[MicroBatch]]):
    """Item ``number`` is what micro-batch ``number`` of the run consists of.

    Micro-batches are numbered through all steps and processes, so that the item depends neither on
    which process takes it nor on what was taken before.

    Args:
        parts: of the run.
        config: of the run.
        tokenizer: the encoder's, to tell the cost of a text where there is a token budget.
        a_step: micro-batches a step, in all processes together.
    """

    def __init__(
        self, parts: Sequence[Part], config: PretrainingConfig, tokenizer: Any, a_step: int
    ) -> None:
        self._parts, self._config, self._a_step = parts, config, a_step
        self._turns = WeightedRoundRobin([part.weight for part in parts], (config.seed, 2))
        self.plans = [_plan(part, number, config, tokenizer) for number, part in enumerate(parts)]

    def languages_left_out(self) -> dict[str, dict[str, int]]:
        """By objective the languages it never sees, and how many usable groups each has.

        Empty where every language has enough groups for a batch, or batches mix them.
        """
        left_out: dict[str, dict[str, int]] = {}
        for part, plan in zip(self._parts, self.plans, strict=True):
            if plan.languages_left_out:
                left_out.setdefault(part.objective.name, {}).update(plan.languages_left_out)
        return left_out

    def __getitem__(self, number: int) -> list[MicroBatch]:
        if self._config.mixture == "sum":
            return [self._make(part, number) for part in range(len(self._parts))]
        step, place = divmod(number, self._a_step)
        turn = self._turns[step]
        return [self._make(turn.who, turn.before * self._a_step + place)]

    def _make(self, part: int, number: int) -> MicroBatch:
        objective, source = self._parts[part].objective, self._parts[part].source
        rng = random.Random(f"{self._config.seed}/{part}/{number}")
        drawn = [objective.draw(source[int(row)], rng) for row in self.plans[part].rows(number)]
        examples = [example for example in drawn if example is not None]
        if len(examples) < objective.least_examples:
            return MicroBatch(part, None, 0, 0)
        seed = [self._config.seed, part, number]
        batch = objective.collate(examples, np.random.default_rng(seed))
        return MicroBatch(part, batch, len(examples), _real_tokens(batch))


class SkippedBatches:
    """Ends a run of which a part has had nothing to learn from for long."""

    def __init__(self, parts: Sequence[Part]) -> None:
        self._parts = parts
        self._skipped = [0] * len(parts)

    def see(self, piece: MicroBatch) -> None:
        """Take note of a batch.

        Raises:
            InvalidInputError: it is the hundredth of its part in a row that is skipped.
        """
        self._skipped[piece.part] = self._skipped[piece.part] + 1 if piece.batch is None else 0
        if self._skipped[piece.part] >= _MOST_SKIPPED:
            objective, source = self._parts[piece.part].objective, self._parts[piece.part].source
            raise InvalidInputError(
                f"{_MOST_SKIPPED} batches of {source.kind} in a row gave {objective.name} fewer "
                f"than {objective.least_examples} examples; expected groups it can learn from "
                "(sessions of two sides, documents of several sentences), or a larger batch_size"
            )


def _plan(part: Part, number: int, config: PretrainingConfig, tokenizer: Any) -> BatchPlan:
    objective, source = part.objective, part.source
    costs = source.lengths()
    if config.token_budget:
        # Most objectives cut their texts; one that does not says nothing, and nothing is cut.
        costs = token_costs(source, tokenizer, getattr(objective, "max_length", 0))
    return BatchPlan(
        source,
        costs,
        batch_size=config.batch_size,
        budget=config.token_budget,
        seed=config.seed * 1009 + number,
        least_texts=objective.least_texts,
        least_examples=objective.least_examples,
        by_language=objective.by_language,
    )


def _real_tokens(batch: Batch) -> int:
    """Ones in the batch's attention masks: int64 and called so; masks of pairs are bool."""
    masks = [
        value
        for name, value in batch.items()
        if name.endswith("mask") and isinstance(value, torch.Tensor) and value.dtype == torch.int64
    ]
    return int(sum(int(mask.sum()) for mask in masks))


def left_out_of(rows: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, int]]:
    """What the log of a run says of the languages it left out, by objective; groups of each."""
    left_out: dict[str, dict[str, int]] = next(
        (row["languages_left_out"] for row in rows if "languages_left_out" in row), {}
    )
    return left_out


def name_left_out(left_out: Mapping[str, Mapping[str, int]]) -> str:
    """``"ccp: sw (1 usable group), ti (0 usable groups)"``, for a person."""
    return "; ".join(
        f"{objective}: {', '.join(_language(*entry) for entry in languages.items())}"
        for objective, languages in left_out.items()
    )


def _language(name: str, groups: int) -> str:
    return f"{name or 'texts without one'} ({groups} usable group{'s' * (groups != 1)})"

"""Which groups make a batch: a pure function of (source, settings, number of the batch).

Nothing here has state, so a batch is the same whether it is the first one asked for, comes after a
resume, or is made in a worker process or on another machine.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pocketquery.sdk.arrays import Integers
from pocketquery.sdk.errors import InvalidInputError
from pocketquery.server.corpus.groups import Source
from pocketquery.server.pretraining.round_robin import WeightedRoundRobin

__all__ = ["token_costs", "BatchPlan"]


# Batches are cut from windows of this many batches sorted by cost: little padding, and still
# another company for every group in every epoch.
_WINDOW = 32
_LANGUAGE_EXPONENT = 0.5  # small languages are seen more often than they occur


class BatchPlan:
    """Batch ``number`` of a source, as rows; the groups of one batch are distinct.

    Args:
        source: the groups.
        costs: of every group, int64 (groups,): bytes, or tokens where there is a budget.
        batch_size: groups a batch.
        budget: instead, the most that a batch costs, counted as its largest group times its
            groups; 0 for none.
        seed: of the order.
        least_texts: groups with fewer texts are never taken.
        least_examples: batches with fewer groups are never made.
        by_language: batches of one language, language l with probability ~ sqrt(groups of l).

    Attributes:
        languages_left_out: those with too few usable groups for a batch, and how many they have.
    """

    def __init__(
        self,
        source: Source,
        costs: Integers,
        *,
        batch_size: int,
        budget: int = 0,
        seed: int = 0,
        least_texts: int = 1,
        least_examples: int = 2,
        by_language: bool = False,
    ) -> None:
        usable = source.counts() >= least_texts
        codes = source.language_codes() if by_language else np.zeros(len(source), np.int16)
        self.languages_left_out: dict[str, int] = {}
        self._streams: list[_Stream] = []
        for code in np.unique(codes):
            rows = np.flatnonzero(usable & (codes == code))
            name = source.languages[code] if by_language else ""
            if len(rows) >= least_examples:
                key = (seed, zlib.crc32(name.encode()))
                stream = _Stream(rows, costs[rows], batch_size, budget, least_examples, key)
                self._streams.append(stream)
            else:
                self.languages_left_out[name] = len(rows)
        if not self._streams:
            raise InvalidInputError(
                f"of {len(source)} {source.kind}, {int(usable.sum())} have at least {least_texts} "
                f"texts; expected at least {least_examples}"
                + (" in one language" if by_language else "")
            )
        sizes = [len(stream) ** _LANGUAGE_EXPONENT for stream in self._streams]
        self._turns = WeightedRoundRobin(sizes, (seed, 1))

    def rows(self, number: int) -> Integers:
        """Rows of batch ``number``, int64 (groups of the batch,)."""
        turn = self._turns[number]
        return self._streams[turn.who].batch(turn.before)


class _Stream:
    """The batches of one language (or of all together), epoch after epoch."""

    def __init__(
        self,
        rows: Integers,
        costs: Integers,
        batch_size: int,
        budget: int,
        least: int,
        key: Sequence[int],
    ) -> None:
        self._rows, self._costs, self._key = rows, costs, key
        self._size = min(batch_size, len(rows))
        self._budget, self._least = budget, least
        self._ends: list[int] = []  # batches up to the end of every epoch that was looked at
        self._current: tuple[int, list[Integers]] | None = None

    def __len__(self) -> int:
        return len(self._rows)

    def batch(self, number: int) -> Integers:
        epoch, place = self._find(number)
        return self._epoch(epoch)[place]

    def _find(self, number: int) -> tuple[int, int]:
        if not self._budget:
            return divmod(number, len(self._rows) // self._size)
        while not self._ends or number >= self._ends[-1]:  # epochs differ in their batches
            before = self._ends[-1] if self._ends else 0
            self._ends.append(before + len(self._epoch(len(self._ends))))
        epoch = int(np.searchsorted(self._ends, number, side="right"))
        return epoch, number - (self._ends[epoch - 1] if epoch else 0)

    def _epoch(self, epoch: int) -> list[Integers]:
        if self._current is None or self._current[0] != epoch:
            rng = np.random.default_rng([*self._key, epoch])
            batches = self._batches(rng.permutation(len(self._rows)))
            order = rng.permutation(len(batches))
            self._current = (epoch, [self._rows[batches[place]] for place in order])
        return self._current[1]

    def _batches(self, order: Integers) -> list[Integers]:
        if self._budget:
            return [b for part in self._sorted_windows(order) for b in self._cut_by_cost(part)]
        # What makes no whole batch is left out before sorting: after it, it would be the longest.
        whole = order[: len(order) // self._size * self._size]
        return list(np.concatenate(self._sorted_windows(whole)).reshape(-1, self._size))

    def _sorted_windows(self, order: Integers) -> list[Integers]:
        window = _WINDOW * self._size
        parts = [order[start : start + window] for start in range(0, len(order), window)]
        return [part[np.argsort(self._costs[part], kind="stable")] for part in parts]

    def _cut_by_cost(self, part: Integers) -> list[Integers]:
        """Cut ascending costs where the largest, the last, times the groups exceeds the budget."""
        batches, start = [], 0
        for end in range(1, len(part) + 1):
            full = end == len(part) or self._costs[part[end]] * (end + 1 - start) > self._budget
            if full and end - start >= self._least:
                batches.append(part[start:end])
                start = end
        return batches


_SAMPLE = 64  # groups a language


def token_costs(source: Source, tokenizer: Any, most: int = 0) -> NDArray[np.int64]:
    """Tokens of every group, int64 (groups,), estimated.

    Bytes a token differ from script to script, so the ratio is taken from groups of each language,
    evenly spaced: tokenizing a whole corpus only to order it would take longer than it saves.

    Args:
        source: the groups.
        tokenizer: a Hugging Face one.
        most: tokens an objective cuts to; 0 for no limit.
    """
    sizes, codes = source.lengths(), source.language_codes()
    costs = np.zeros(len(source), dtype=np.int64)
    for code in np.unique(codes):
        rows = np.flatnonzero(codes == code)
        sample = rows[np.linspace(0, len(rows) - 1, min(_SAMPLE, len(rows))).astype(np.int64)]
        texts = [" ".join(source[int(row)].texts) for row in sample]
        tokens = sum(map(len, tokenizer(texts, verbose=False)["input_ids"]))
        costs[rows] = np.ceil(sizes[rows] * tokens / max(int(sizes[sample].sum()), 1))
    costs = np.maximum(costs, 1)
    return np.minimum(costs, most) if most else costs

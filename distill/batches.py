"""The stream of training batches as a pure function of (texts, configuration, step).

Nothing here has state: batch ``step`` is the same whether it is the first one asked for, comes
after a resume or is made in a worker process. That is what makes a killed run continue to the
same weights.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.utils.data import Dataset

from pocketquery.client.views.typing_noise import mistype
from pocketquery.sdk.arrays import Integers
from pocketquery.server.objectives.objective import tokenize

__all__ = ["Batch", "BatchStream"]


# Batches are cut from windows of this many batches sorted by length: little padding, and still
# another company for every text in every epoch.
_WINDOW = 32


@dataclass(frozen=True)
class Batch:
    """Token ids int64 (batch, length), mask alike, and the row of each text in the targets."""

    input_ids: torch.Tensor
    attention_mask: torch.Tensor
    rows: torch.Tensor

    def pin_memory(self) -> Batch:
        """The same batch in page-locked memory, called by the data loader."""
        return Batch(
            self.input_ids.pin_memory(), self.attention_mask.pin_memory(), self.rows.pin_memory()
        )


class BatchStream(Dataset[Batch]):
    """Item ``step`` is the batch of that step.

    Args:
        texts: the training texts, clean.
        tokenizer: the student's.
        batch_size: texts a batch; the incomplete last batch of an epoch is left out.
        max_length: tokens a text is truncated to.
        seed: of order and noise.
        typo_share: share of the rows of a batch that are mistyped.
        typo_rate: probability of an error per letter in a mistyped row.
        prompt: put before every text, after the typos: the device adds it, and types it right.
    """

    def __init__(
        self,
        texts: Sequence[str],
        tokenizer: Any,
        *,
        batch_size: int,
        max_length: int,
        seed: int,
        typo_share: float = 0.0,
        typo_rate: float = 0.08,
        prompt: str = "",
    ) -> None:
        self.texts = texts
        # Its own copy: padding and truncation are settings of a fast tokenizer itself.
        self._tokenizer = copy.deepcopy(tokenizer)
        self._max_length = max_length
        self.batch_size = min(batch_size, len(texts))
        self.seed = seed
        self.typo_share = typo_share
        self.typo_rate = typo_rate
        self.prompt = prompt
        self._lengths = np.array([len(text) for text in texts])
        self._current: tuple[int, Integers] | None = None

    def __getitem__(self, step: int) -> Batch:
        batches_per_epoch = max(1, len(self.texts) // self.batch_size)
        epoch, place = divmod(step, batches_per_epoch)
        if self._current is None or self._current[0] != epoch:
            self._current = (epoch, self._epoch_order(epoch))
        rows = self._current[1][place]
        rng = random.Random(f"{self.seed}/{step}")
        texts = [self.prompt + self._view(self.texts[row], rng) for row in rows]
        ids, mask = tokenize(self._tokenizer, texts, self._max_length)  # (batch, length)
        return Batch(ids, mask, torch.from_numpy(rows))

    def _view(self, text: str, rng: random.Random) -> str:
        if rng.random() >= self.typo_share:
            return text
        return mistype(text, self.typo_rate, rng)

    def _epoch_order(self, epoch: int) -> Integers:
        """Rows of every batch of an epoch: int64 (batches, batch_size)."""
        rng = np.random.default_rng([self.seed, epoch])
        whole = len(self.texts) // self.batch_size * self.batch_size
        # Before the sorting: left out are any texts, not the longest.
        order = rng.permutation(len(self.texts))[:whole]
        window = _WINDOW * self.batch_size
        for start in range(0, len(order), window):
            part = order[start : start + window]
            order[start : start + window] = part[np.argsort(self._lengths[part], kind="stable")]
        batches = order.reshape(-1, self.batch_size)
        return batches[rng.permutation(len(batches))].astype(np.int64)

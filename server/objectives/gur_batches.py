"""GUR's batches: both texts of every pair with hidden spans, and what the decoder is to write."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from pocketquery.sdk.errors import InvalidInputError
from pocketquery.server.objectives.gur_examples import GurExample, false_negatives
from pocketquery.server.objectives.objective import Batch
from pocketquery.server.objectives.shared.masking import IGNORED
from pocketquery.server.objectives.shared.sentinels import hide_spans, pad_rows
from pocketquery.server.objectives.shared.span_masking import (
    length_probabilities,
    place_spans,
    span_budget,
    span_lengths,
)

__all__ = ["GurBatches", "shifted", "surrounding_specials"]

_LEAST_CROP = 0.5  # of a text that is too long


class GurBatches:
    """Collates examples; pure in its arguments, so that workers can share one.

    Args:
        tokenizer: an encoder's, with the sentinels.
        sentinels: ids, more than a text can have spans.
        max_length: tokens of a text, specials included.
        mask_rate: share of the tokens that is hidden.
        rate_jitter: draw that share from 10 to 29 % for every text.
        lengths: see :func:`pocketquery.server.objectives.shared.span_masking.length_probabilities`.
        clean: hand over the texts without hidden spans too.
    """

    def __init__(
        self,
        tokenizer: Any,
        sentinels: tuple[int, ...],
        max_length: int,
        *,
        mask_rate: float,
        rate_jitter: bool,
        lengths: str,
        clean: bool,
    ) -> None:
        self.tokenizer = tokenizer
        self.sentinels = sentinels
        self.max_length = max_length
        self.mask_rate = mask_rate
        self.rate_jitter = rate_jitter
        self.probabilities = length_probabilities(lengths)
        self.clean = clean
        self.before, self.after = surrounding_specials(tokenizer)

    @property
    def start(self) -> int:
        """The id a target starts from: the tokenizer's first special token."""
        return self.before[0]

    @property
    def end(self) -> int:
        """The id that ends a target: the tokenizer's last special token."""
        return self.after[-1]

    @property
    def room(self) -> int:
        """Tokens of a text without the specials."""
        return self.max_length - len(self.before) - len(self.after)

    def collate(self, examples: Sequence[GurExample], rng: np.random.Generator) -> Batch:
        """A batch of n pairs and m titles to write, in rows: n firsts, n seconds, m contents.

        Returns:
            ``input_ids``, ``attention_mask`` int64 (2n + m, length) with hidden spans; ``inputs``
            and ``labels`` int64 (2n + m, target length) of the decoder; ``dropped`` bool (n, n),
            the false negatives; and ``clean_ids``, ``clean_mask`` (2n, length) where asked for and
            there are pairs.
        """
        pairs = [example for example in examples if not example.writes_title]
        titles = [example for example in examples if example.writes_title]
        texts = [pair.first for pair in pairs] + [pair.second for pair in pairs]
        whole = [self._cropped(ids, rng) for ids in self.tokens(texts)]
        masked = [self._hidden(ids, rng) for ids in whole]
        contents = self.tokens([example.first for example in titles])
        wanted = self.tokens([example.second for example in titles])
        for content, title in zip(contents, wanted, strict=True):
            masked.append((content[: self.room], [*title[: self.room], self.end]))
        sources, mask = self.rows([source for source, _ in masked])
        labels = pad_rows([target for _, target in masked], IGNORED)
        batch = {
            "input_ids": sources,
            "attention_mask": mask,
            "inputs": shifted(labels, self.start),
            "labels": labels,
            "dropped": false_negatives(pairs),
        }
        if self.clean and pairs:
            batch["clean_ids"], batch["clean_mask"] = self.rows(whole)
        return batch

    def tokens(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of each text, without specials and however long."""
        if not texts:
            return []
        options = {"add_special_tokens": False, "return_attention_mask": False, "verbose": False}
        ids: list[list[int]] = self.tokenizer(list(texts), **options)["input_ids"]
        return ids

    def rows(self, ids: Sequence[Sequence[int]]) -> tuple[torch.Tensor, torch.Tensor]:
        """Ids with specials, padded, and their attention mask, both int64 (texts, longest)."""
        rows = [[*self.before, *row, *self.after] for row in ids]
        padded = pad_rows(rows, self.tokenizer.pad_token_id)
        return padded, pad_rows([[1] * len(row) for row in rows], 0)

    def _cropped(self, ids: list[int], rng: np.random.Generator) -> list[int]:
        """A random run of a text that is too long: half of it or more, as far as there is room.

        The released code crops characters; tokens waste nothing and know no script.
        """
        if len(ids) <= self.room:
            return ids
        length = min(self.room, round(len(ids) * rng.uniform(_LEAST_CROP, 1)))
        start = int(rng.integers(len(ids) - length + 1))
        return ids[start : start + length]

    def _hidden(self, ids: list[int], rng: np.random.Generator) -> tuple[list[int], list[int]]:
        """Source and target; a text too short to be masked stays whole and has no target."""
        rate = int(rng.integers(10, 30)) / 100 if self.rate_jitter else self.mask_rate
        budget = span_budget(len(ids), rate)
        if not budget:
            return ids, [IGNORED]
        spans = place_spans(len(ids), span_lengths(budget, self.probabilities, rng), rng)
        source, target = hide_spans(ids, spans, self.sentinels)
        return source, [*target, self.end]


def shifted(labels: torch.Tensor, start: int) -> torch.Tensor:
    """The decoder's input for some labels: ``start``, then every label but the last.

    Padding becomes ``start`` too: only positions without a loss see it.
    """
    inputs = labels.roll(1, dims=1)
    inputs[:, 0] = start
    return inputs.masked_fill(inputs == IGNORED, start)


def surrounding_specials(tokenizer: Any) -> tuple[list[int], list[int]]:
    """The specials a tokenizer puts before and after a text.

    Raises:
        InvalidInputError: it puts none before or none after it.
    """
    found = tokenizer("a", return_special_tokens_mask=True)
    ids, special = found["input_ids"], found["special_tokens_mask"]
    inner = [place for place, flag in enumerate(special) if not flag]
    before, after = ids[: inner[0]], ids[inner[-1] + 1 :]
    if not before or not after:
        raise InvalidInputError(
            f"the tokenizer puts {len(before)} special tokens before a text and {len(after)} after "
            "it; expected at least one on either side, as BERT's and XLM-R's do"
        )
    return before, after

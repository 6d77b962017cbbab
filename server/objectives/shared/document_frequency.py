"""How many texts of a corpus have each piece of a vocabulary, and what is made of that."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from pocketquery.sdk.errors import CorpusError
from pocketquery.server.corpus.groups import Source

__all__ = ["document_frequency", "idf_weights", "log_odds"]

_AT_ONCE = 1024  # texts


def document_frequency(
    source: Source, tokenizer: Any, pieces: int, *, max_length: int, most: int
) -> tuple[torch.Tensor, int]:
    """In how many texts each piece occurs; a text is a group of the source, joined and truncated.

    Args:
        source: the corpus, as the objective will draw from it.
        tokenizer: its special tokens are not counted.
        pieces: rows of the encoder's table, at least the tokenizer's.
        max_length: tokens of a text, specials included.
        most: texts that are looked at, evenly spread over a larger corpus.

    Returns:
        int64 (pieces,) and the number of texts looked at.

    Raises:
        CorpusError: the source is empty.
    """
    if not len(source):
        raise CorpusError("the corpus has no groups; expected texts to count word pieces in")
    counts = np.zeros(pieces, dtype=np.int64)
    rows = np.unique(np.linspace(0, len(source) - 1, min(most, len(source))).round().astype(int))
    for texts in _joined(source, rows.tolist()):
        found = tokenizer(
            texts,
            truncation=True,
            max_length=max_length,
            return_token_type_ids=False,
            return_attention_mask=False,
        )
        for ids in found["input_ids"]:
            counts[np.unique(ids)] += 1
    counts[sorted(set(tokenizer.all_special_ids))] = 0
    return torch.from_numpy(counts), len(rows)


def log_odds(
    counts: torch.Tensor, texts: int, least: float = -9.0, most: float = 2.0
) -> torch.Tensor:
    """Logits whose sigmoid is each piece's document frequency, clamped; float32 (pieces,)."""
    return torch.logit(counts.double() / texts).clamp(least, most).float()


def idf_weights(counts: torch.Tensor, texts: int) -> torch.Tensor:
    r"""Inverse document frequencies, :math:`\ln\frac{N+1}{df+1} + 1`, rescaled to a mean of 1.

    Args:
        counts: df, int64 (pieces,).
        texts: N.

    Returns:
        float32 (pieces,).
    """
    idf = torch.log((texts + 1) / (counts.double() + 1)) + 1
    return (idf / idf.mean()).float()


def _joined(source: Source, rows: list[int]) -> Iterator[list[str]]:
    for start in range(0, len(rows), _AT_ONCE):
        yield [" ".join(source[row].texts) for row in rows[start : start + _AT_ONCE]]

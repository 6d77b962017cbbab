"""Masking tokens for masked language modelling."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

__all__ = ["IGNORED", "bert_mask", "choose_tokens", "special_mask"]

IGNORED = -100
"""Label of the positions without a loss."""


def special_mask(ids: torch.Tensor, tokenizer: Any) -> torch.Tensor:
    """Whether each id is one of the tokenizer's special tokens, bool like ``ids``."""
    return torch.isin(ids, torch.tensor(sorted(set(tokenizer.all_special_ids))))


def bert_mask(
    ids: torch.Tensor, tokenizer: Any, rng: np.random.Generator, rate: float = 0.15
) -> tuple[torch.Tensor, torch.Tensor]:
    """BERT's masking: 80 % of the chosen tokens masked, 10 % replaced at random, 10 % left.

    Every token that is not special is chosen with probability ``rate``; of a row that has any, at
    least one is. ("BERT: Pre-training of Deep Bidirectional Transformers", section 3.1.)

    Args:
        ids: int64 (rows, length).
        tokenizer: knows its special tokens and its mask.
        rng: the source of randomness; two generators give two views.
        rate: share of the tokens that are chosen.

    Returns:
        The masked ids and the labels, both int64 (rows, length); a label is the original id where
        the token was chosen and :data:`IGNORED` elsewhere.
    """
    special = special_mask(ids, tokenizer).numpy()
    chosen = choose_tokens(special, rng, rate)
    original = ids.numpy()
    labels = np.where(chosen, original, IGNORED)
    outcome = rng.random(original.shape)  # (rows, length)
    ordinary = np.setdiff1d(np.arange(len(tokenizer)), tokenizer.all_special_ids)
    drawn = rng.choice(ordinary, original.shape)
    masked = np.where(chosen & (outcome < 0.8), tokenizer.mask_token_id, original)
    masked = np.where(chosen & (outcome >= 0.8) & (outcome < 0.9), drawn, masked)
    return torch.from_numpy(masked.astype(np.int64)), torch.from_numpy(labels.astype(np.int64))


def choose_tokens(
    special: NDArray[np.bool_], rng: np.random.Generator, rate: float
) -> NDArray[np.bool_]:
    """Choose each token that is not special with probability ``rate``, and one of a row at least.

    Args:
        special: bool (rows, length).
        rng: the source of randomness.
        rate: share of the tokens that are chosen.

    Returns:
        bool (rows, length).
    """
    chosen: NDArray[np.bool_] = (rng.random(special.shape) < rate) & ~special
    for row in np.flatnonzero(~chosen.any(axis=1) & ~special.all(axis=1)):
        chosen[row, rng.choice(np.flatnonzero(~special[row]))] = True
    return chosen

"""Means that a few hostile devices cannot drag away, without holding every update.

The median and the trimmed mean of updates need all updates at once. Here the updates are dealt to a
few shards, each a running sum, and the median or trimmed mean is taken across the shards' means: a
hostile update spoils its own shard only, and the memory is one sum a shard. As long as hostile
updates reach fewer than half of the shards (for the trimmed mean: at most the trimmed share), each
value of the result lies between honest shards' means.

Sources: Minsker, "Geometric median and robust estimation in Banach spaces" (median of means); Yin
et al., "Byzantine-Robust Distributed Learning: Towards Optimal Statistical Rates", section 4
(coordinate-wise median and trimmed mean).
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from pocketquery.sdk.errors import InvalidInputError
from pocketquery.server.federation.rounds.running_sum import RunningSum

__all__ = ["LEAST_SHARDS", "Aggregation", "combine", "shard_of"]

Aggregation = Literal["mean", "trimmed_mean", "median"]

LEAST_SHARDS = 3  # of two means, neither can be called the outlier
_SLICE = 65_536  # values aggregated at once: bounds the memory beside the sums


def shard_of(nonce: str, shards: int, seed: int) -> int:
    """Which of ``shards`` takes the update with ``nonce``.

    A device chooses its nonce; as long as it does not know ``seed`` it cannot choose its shard.
    """
    key = seed.to_bytes(8, "little", signed=True)
    digest = hashlib.blake2b(nonce.encode(), key=key, digest_size=8).digest()
    return int.from_bytes(digest, "little") % shards


def combine(
    shards: Sequence[RunningSum], aggregation: Aggregation, trim: float = 0.1
) -> NDArray[np.float64]:
    """One vector, float64 (n,), from the shards' sums; shards without an update do not count.

    Args:
        shards: the sums, of equal size.
        aggregation: "mean" weighs every update by its weight, whichever shard it is in, and so
            does not depend on the number of shards; "trimmed_mean" and "median" take each
            coordinate across the shards' means, every shard alike.
        trim: for "trimmed_mean", the share of shards left out at either end, at least one.

    Raises:
        InvalidInputError: no shard has an update, or fewer than three where outliers are left out.
    """
    filled = [shard for shard in shards if shard.count]
    if aggregation == "mean":
        return functools.reduce(RunningSum.merge, filled or shards[:1]).mean()
    if len(filled) < LEAST_SHARDS:
        raise InvalidInputError(
            f"{len(filled)} shards have updates, {aggregation} needs at least {LEAST_SHARDS}; "
            "ask more clients or take the mean"
        )
    cut = (len(filled) - 1) // 2 if aggregation == "median" else trimmed(len(filled), trim)
    result = np.empty(filled[0].totals.size)
    for start in range(0, result.size, _SLICE):
        part = slice(start, start + _SLICE)
        means = np.stack([shard.totals[part] / np.float64(shard.weight) for shard in filled])
        means.sort(axis=0)  # (shards, values)
        result[part] = means[cut : len(filled) - cut].mean(axis=0)
    return result


def trimmed(shards: int, trim: float) -> int:
    """How many of ``shards`` are left out at either end: at least one, and never all."""
    return min(max(1, int(trim * shards)), (shards - 1) // 2)

"""The paired bootstrap: how sure a comparison of two systems on the same queries is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pocketquery.sdk.errors import InvalidInputError

__all__ = ["Interval", "bootstrap_difference", "bootstrap_ratio"]

_SLICE = 500  # resamples drawn at once: bounds the memory to _SLICE x queries

Pairs = Sequence[tuple[NDArray[np.float64], NDArray[np.float64]]]


@dataclass(frozen=True)
class Interval:
    """An estimate and the percentile interval around it."""

    estimate: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.estimate:.3f} [{self.low:.3f}, {self.high:.3f}]"


def bootstrap_ratio(
    pairs: Pairs, *, samples: int = 10_000, confidence: float = 0.95, seed: int = 0
) -> Interval:
    """Interval of mean(ours) / mean(theirs), averaged over collections.

    Args:
        pairs: for each collection (ours, theirs), float64 (queries,) each, of the same queries.
            A resample draws the queries of each collection with replacement, both systems alike.
        samples: number of resamples.
        confidence: share of the resamples inside the interval.
        seed: of the resampling; equal seeds give equal intervals.

    Raises:
        InvalidInputError: shapes differ, there is nothing to compare, or ``theirs`` is 0 on the
            mean of a collection.

    Source: Sakai, "Evaluating evaluation metrics based on the bootstrap" (SIGIR 2006), for the
    paired resampling of queries; Efron's percentile interval.
    """
    if any(not theirs.mean() > 0 for _, theirs in _checked(pairs)):
        raise InvalidInputError("a system to compare with has mean 0; expected a mean above 0")
    with np.errstate(divide="ignore", invalid="ignore"):
        draws = [_resampled_means(pair, samples, seed + i) for i, pair in enumerate(pairs)]
        resampled = np.mean([ours / theirs for ours, theirs in draws], axis=0)
    estimate = float(np.mean([ours.mean() / theirs.mean() for ours, theirs in pairs]))
    return _interval(estimate, resampled, confidence)


def bootstrap_difference(
    pairs: Pairs, *, samples: int = 10_000, confidence: float = 0.95, seed: int = 0
) -> Interval:
    """Interval of mean(ours) - mean(theirs), averaged over collections; see bootstrap_ratio."""
    _checked(pairs)
    draws = [_resampled_means(pair, samples, seed + i) for i, pair in enumerate(pairs)]
    resampled = np.mean([ours - theirs for ours, theirs in draws], axis=0)
    estimate = float(np.mean([ours.mean() - theirs.mean() for ours, theirs in pairs]))
    return _interval(estimate, resampled, confidence)


def _checked(pairs: Pairs) -> Pairs:
    if not pairs:
        raise InvalidInputError("there are no collections to compare on; expected at least one")
    for ours, theirs in pairs:
        if ours.shape != theirs.shape or ours.ndim != 1 or not len(ours):
            raise InvalidInputError(
                f"the scores have shapes {ours.shape} and {theirs.shape}; expected one score a "
                "query from both systems"
            )
    return pairs


def _resampled_means(
    pair: tuple[NDArray[np.float64], NDArray[np.float64]], samples: int, seed: int
) -> NDArray[np.float64]:
    """Means of both systems in every resample, float64 (2, samples)."""
    rng = np.random.default_rng(seed)
    scores = np.stack(pair)  # (2, queries)
    queries = scores.shape[1]
    means = np.empty((2, samples))
    for start in range(0, samples, _SLICE):
        stop = min(start + _SLICE, samples)
        drawn = rng.integers(queries, size=(stop - start, queries))
        means[:, start:stop] = scores[:, drawn].mean(axis=2)
    return means


def _interval(estimate: float, resampled: NDArray[np.float64], confidence: float) -> Interval:
    tail = (1 - confidence) / 2
    low, high = np.nanquantile(resampled, [tail, 1 - tail])
    return Interval(estimate, float(low), float(high))

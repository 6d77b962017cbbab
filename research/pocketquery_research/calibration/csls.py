"""Neighbours across two spaces, corrected for hubs: cross-domain similarity local scaling."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pocketquery.sdk.arrays import AnyFloats

__all__ = ["NearestPairs", "mean_nearest", "mutual_neighbours"]


_BLOCK = 1024  # rows scored at once: bounds the memory to _BLOCK x targets


class NearestPairs(NamedTuple):
    """Rows of two matrices that are each other's nearest."""

    left: NDArray[np.int64]
    right: NDArray[np.int64]
    cosine: float
    """Mean cosine of the pairs, -1 where there are none: an unsupervised measure of the fit."""


def mean_nearest(left: AnyFloats, right: AnyFloats, neighbours: int = 10) -> AnyFloats:
    """Mean cosine of every left row to its nearest right rows, (n,), the r of CSLS.

    Args:
        left: rows of unit length (n, dim).
        right: rows of unit length (m, dim).
        neighbours: K, or all where there are fewer.
    """
    count = min(neighbours, len(right))
    means = np.empty(len(left), dtype=np.result_type(left, right))
    for start in range(0, len(left), _BLOCK):
        scores = left[start : start + _BLOCK] @ right.T  # (block, m)
        nearest = np.partition(scores, len(right) - count, axis=1)[:, len(right) - count :]
        means[start : start + _BLOCK] = nearest.mean(axis=1)
    return means


def mutual_neighbours(left: AnyFloats, right: AnyFloats, neighbours: int = 10) -> NearestPairs:
    r"""The pairs that choose each other by CSLS, never holding all scores at once.

    .. math:: 2\cos(x, y) - r_T(x) - r_S(y)

    A hub, near to everything, has a large r and loses. ("Word Translation Without Parallel Data",
    section 2.3.)

    Args:
        left: rows of unit length (n, dim).
        right: rows of unit length (m, dim).
        neighbours: K.
    """
    to_right = mean_nearest(left, right, neighbours)
    to_left = mean_nearest(right, left, neighbours)
    chosen = np.empty(len(left), dtype=np.int64)
    best = np.full(len(right), -np.inf)
    chooser = np.zeros(len(right), dtype=np.int64)
    for start in range(0, len(left), _BLOCK):
        block = left[start : start + _BLOCK]
        scores = 2 * (block @ right.T) - to_left  # r of the row does not move its maximum
        chosen[start : start + _BLOCK] = scores.argmax(axis=1)
        scores += to_left - to_right[start : start + _BLOCK, None]  # nor r of the column this one
        rows, top = scores.argmax(axis=0), scores.max(axis=0)
        better = top > best
        best[better], chooser[better] = top[better], start + rows[better]
    rows = np.flatnonzero(chooser[chosen] == np.arange(len(left)))
    columns = chosen[rows]
    pairs = np.einsum("ij,ij->i", left[rows], right[columns])
    return NearestPairs(rows, columns, float(pairs.mean()) if len(rows) else -1.0)

"""Rotating one language onto another without a single translation."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pocketquery.sdk.arrays import AnyFloats
from pocketquery_research.calibration.csls import mutual_neighbours

__all__ = ["Refinement", "procrustes", "refine"]


class Refinement(NamedTuple):
    """A rotation and how it was come by."""

    rotation: NDArray[np.float64]
    """W, float64 (dim, dim), orthogonal: W x of the one language lies near the other."""
    pairs: int
    """Mutual neighbours found under the rotation."""
    cosine: float
    """Their mean cosine: to compare rotations with, where nothing parallel is known."""


def procrustes(source: AnyFloats, target: AnyFloats) -> NDArray[np.float64]:
    r"""The orthogonal W that brings the rows of ``source`` nearest to those of ``target``.

    .. math:: M = Y^T X,\quad U S V^T = \mathrm{svd}(M),\quad W = U V^T

    Args:
        source: X, float (n, dim).
        target: Y, float (n, dim), row by row what X should become.

    Returns:
        float64 (dim, dim); apply as ``source @ W.T``.

    Source: Schönemann, "A generalized solution of the orthogonal Procrustes problem" (1966).
    """
    u, _, v = np.linalg.svd(target.astype(np.float64).T @ source.astype(np.float64))
    rotation: NDArray[np.float64] = u @ v
    return rotation


def refine(
    source: AnyFloats,
    target: AnyFloats,
    *,
    start: AnyFloats | None = None,
    rounds: int = 5,
    neighbours: int = 10,
    least_pairs: int | None = None,
) -> Refinement:
    """Alternate between mutual neighbours by CSLS and the rotation that fits them.

    Repairs a moderate rotation, not an arbitrary one: for that the start has to be near, as
    :func:`pocketquery_research.calibration.adversarial.adversarial_start` makes it.

    Args:
        source: rows of unit length (n, dim).
        target: rows of unit length (m, dim); nothing need be parallel.
        start: W before the first round; None for no rotation.
        rounds: how often.
        neighbours: K of CSLS.
        least_pairs: with fewer mutual neighbours the rotation stays as it is; by default the
            dimension, below which a rotation is not determined.
    """
    dimension = source.shape[1]
    least = dimension if least_pairs is None else least_pairs
    rotation = np.eye(dimension) if start is None else start.astype(np.float64)
    for _ in range(rounds):
        matches = mutual_neighbours(source @ rotation.T, target, neighbours)
        if len(matches.left) < least:
            break
        rotation = procrustes(source[matches.left], target[matches.right])
    matches = mutual_neighbours(source @ rotation.T, target, neighbours)
    return Refinement(rotation, len(matches.left), matches.cosine)

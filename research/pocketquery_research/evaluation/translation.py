"""Do sentences of two languages with one meaning lie together? Accuracy, isomorphism."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pocketquery.sdk.arrays import AnyFloats
from pocketquery.sdk.errors import InvalidInputError
from pocketquery.server.evaluation.geometry import unit_rows

__all__ = ["TwoWay", "relational_similarity", "two_way"]

_BLOCK = 1024  # rows scored at once


@dataclass(frozen=True)
class TwoWay:
    """Whether each sentence found its translation, in either direction.

    Attributes:
        forward: bool (pairs,), from the left language to the right.
        backward: bool (pairs,).
    """

    forward: NDArray[np.bool_]
    backward: NDArray[np.bool_]

    @property
    def accuracy(self) -> float:
        """The mean of the two directions."""
        return float(self.forward.mean() + self.backward.mean()) / 2

    def per_pair(self) -> NDArray[np.float64]:
        """0, 0.5 or 1 for every pair, float64 (pairs,): what a paired bootstrap takes."""
        halves: NDArray[np.float64] = (self.forward.astype(np.float64) + self.backward) / 2
        return halves


def two_way(left: AnyFloats, right: AnyFloats, *, seed: int = 0) -> TwoWay:
    """Nearest neighbours by cosine among all sentences of the other language.

    Row i of one side translates row i of the other; only that row counts as right. Equal scores are
    broken by a seeded shuffle, the same for both sides, so that a collapsed encoder is right one
    time in n and exchanging the languages changes nothing.

    Args:
        left: float (n, dim).
        right: float (n, dim).
        seed: of the shuffle.

    Raises:
        InvalidInputError: the shapes differ, or there is no pair.

    Source: Artetxe and Schwenk, "Massively Multilingual Sentence Embeddings for Zero-Shot
    Cross-Lingual Transfer and Beyond" (2019), similarity search on Tatoeba.
    """
    _check(left, right)
    order = np.random.default_rng(seed).permutation(len(left))
    one, other = unit_rows(left)[order], unit_rows(right)[order]
    is_right = np.empty((2, len(order)), dtype=bool)
    is_right[0, order], is_right[1, order] = _right(one, other), _right(other, one)
    return TwoWay(is_right[0], is_right[1])


def relational_similarity(left: AnyFloats, right: AnyFloats) -> float:
    """Pearson correlation of the two languages' within-language cosines, RSIM, in [-1, 1].

    How isomorphic the spaces are, wherever they lie: shifts along a rotation do not change it.

    Args:
        left: float (n, dim), three rows at least.
        right: float (n, dim), their translations.

    Raises:
        InvalidInputError: the shapes differ, or there are fewer than three pairs.
    """
    _check(left, right)
    if len(left) < 3:
        raise InvalidInputError(f"there are {len(left)} pairs; expected three or more")
    upper = np.triu_indices(len(left), k=1)
    one, other = ((unit @ unit.T)[upper] for unit in (unit_rows(left), unit_rows(right)))
    if min(one.std(), other.std()) < 1e-9:  # a collapsed side has no relations
        return 0.0
    return float(np.corrcoef(one, other)[0, 1])


def _right(queries: AnyFloats, candidates: AnyFloats) -> NDArray[np.bool_]:
    right = np.empty(len(queries), dtype=bool)
    for start in range(0, len(queries), _BLOCK):
        scores = queries[start : start + _BLOCK] @ candidates.T  # (block, n)
        rows = np.arange(start, start + len(scores))
        right[rows] = scores.argmax(axis=1) == rows
    return right


def _check(left: AnyFloats, right: AnyFloats) -> None:
    if left.shape != right.shape or left.ndim != 2 or not len(left):
        raise InvalidInputError(
            f"the two sides have shapes {left.shape} and {right.shape}; expected the same number "
            "of vectors, of the same width, one pair at least"
        )

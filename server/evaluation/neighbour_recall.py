"""Does a held-out sentence find its neighbours in the document? The check beside CCP's own loss."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pocketquery.sdk.errors import InvalidInputError
from pocketquery.server.calibration.statistics import unit_rows

__all__ = ["neighbour_recall"]

_BLOCK = 1024  # sentences scored at once


def neighbour_recall(
    vectors: NDArray[np.floating],
    documents: Sequence[str],
    positions: Sequence[int],
    *,
    window_len: int = 5,
    depth: int = 10,
    seed: int = 0,
) -> float:
    """Share of the sentences with a neighbour among the ``depth`` nearest others.

    A loss that falls while this does not rise is an information leak: the batches tell the answer.

    Args:
        vectors: float (n, dim), of one language.
        documents: n names.
        positions: n places in the document.
        window_len: W; neighbours are at most W - 1 sentences apart.
        depth: how many of the nearest are looked at; the sentence itself never counts.
        seed: of the shuffle that breaks ties.

    Raises:
        InvalidInputError: lengths that differ, or no sentence with a neighbour.
    """
    if not len(vectors) == len(documents) == len(positions):
        raise InvalidInputError(
            f"there are {len(vectors)} vectors, {len(documents)} documents and {len(positions)} "
            "positions; expected as many of each"
        )
    order = np.random.default_rng(seed).permutation(len(vectors))
    unit = unit_rows(vectors)[order]
    names = np.unique(np.asarray(documents, dtype=object).astype(str), return_inverse=True)[1][
        order
    ]
    places = np.asarray(positions, dtype=np.int64)[order]
    hits = asked = 0
    for start in range(0, len(unit), _BLOCK):
        rows = np.arange(start, min(start + _BLOCK, len(unit)))
        scores = unit[rows] @ unit.T  # (block, n)
        scores[np.arange(len(rows)), rows] = -np.inf
        near = (names[rows, None] == names) & (abs(places[rows, None] - places) < window_len)
        near[np.arange(len(rows)), rows] = False
        nearest = np.argsort(-scores, axis=1, kind="stable")[:, :depth]
        found = np.take_along_axis(near, nearest, axis=1).any(axis=1)
        hits += int(found.sum())
        asked += int(near.any(axis=1).sum())
    if not asked:
        raise InvalidInputError("no sentence has a neighbour; give whole documents")
    return hits / asked

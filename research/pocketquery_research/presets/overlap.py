"""How much of a teacher's neighbourhood a student finds."""

from __future__ import annotations

import numpy as np

from pocketquery.sdk.arrays import Floats

__all__ = ["nearest_shared"]


def nearest_shared(queries: Floats, vectors: Floats) -> float:
    """The share of the ten nearest of ``vectors``, itself left out, that ``queries``, which stand
    for the first of them, find."""
    tops = []
    for asked in (queries, vectors[: len(queries)]):
        scores = asked @ vectors.T
        np.fill_diagonal(scores, -np.inf)
        tops.append(np.argpartition(-scores, 10, axis=1)[:, :10])
    return float(np.mean([np.isin(a, b).mean() for a, b in zip(*tops, strict=True)]))

"""Shift and scale: every language's vectors brought to mean 0 and spread 1."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pocketquery.sdk.arrays import AnyFloats
from pocketquery.server.evaluation.geometry import unit_rows

__all__ = ["Statistics", "fit_statistics"]


_FLOOR = 0.05  # of the median spread: a dimension that hardly varies is noise, not to be blown up


@dataclass(frozen=True)
class Statistics:
    """Where one language's vectors lie.

    Attributes:
        mean: float64 (dim,).
        spread: float64 (dim,), what each dimension is divided by.
    """

    mean: NDArray[np.float64]
    spread: NDArray[np.float64]

    def shifted(self, vectors: AnyFloats) -> AnyFloats:
        """Vectors (n, dim) less the mean, rows of unit length."""
        return unit_rows(vectors - self.mean)

    def scaled(self, vectors: AnyFloats) -> AnyFloats:
        """Vectors (n, dim) less the mean, over the spread, rows of unit length."""
        return unit_rows((vectors - self.mean) / self.spread)


def fit_statistics(vectors: AnyFloats, divisor: str = "std") -> Statistics:
    """The statistics of one language's sentences.

    Args:
        vectors: float (n, dim), as the encoder gives them.
        divisor: ``std``, at least 0.05 of its median; or ``variance``, as the paper's text has it
            and without that bound, which serves to compare: it has the wrong unit, and dimensions
            that hardly vary come to outweigh all others.
    """
    doubles = vectors.astype(np.float64)
    spread = doubles.std(axis=0) if divisor == "std" else doubles.var(axis=0)
    least = _FLOOR * float(np.median(spread)) if divisor == "std" else 0.0
    spread = np.maximum(spread, max(least, 1e-12))
    return Statistics(doubles.mean(axis=0), spread)

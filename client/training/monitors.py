"""Figures of an encoder's query vectors that show a collapse or a drift, and limits that end a run.

A loss cannot tell: it is lowest where everything has collapsed into one point. Two figures are
needed because each misses what the other sees. The spread (``std_ratio``) stays near 1 while
vectors fall into a few dimensions. The effective rank stays high while they shrink into one point.
The third, the drift from the shipped encoder, sees a space that rotates away from the index.

A device has a handful of queries on a few topics, so the figures are low where nothing is wrong.
They are therefore compared with the shipped encoder's for the same queries, not with limits for
texts of all kinds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated

import numpy as np

from pocketquery.sdk.arrays import Floats
from pocketquery.sdk.settings.common import Share
from pocketquery.sdk.settings.declaration import Settings
from pocketquery.sdk.validation import number

__all__ = ["Health", "MonitorLimits", "violation", "effective_rank", "measure", "std_ratio"]


@dataclass(frozen=True)
class MonitorLimits(Settings):
    """When a run is ended."""

    rank_kept: Annotated[Share, "least effective rank, as a share of the shipped encoder's"] = 0.5
    spread_kept: Annotated[Share, "least std_ratio, as a share of the shipped encoder's"] = 0.5
    drift: Annotated[
        float, number(most=2, above=0), "largest mean of 1 - cos to the shipped encoder's vectors"
    ] = 0.2


@dataclass(frozen=True)
class Health:
    """The figures of one set of queries.

    Attributes:
        effective_rank: of the vectors trained, from 1 to the number of queries.
        std_ratio: of the vectors trained; about 1 where they spread evenly over the sphere.
        drift: mean of ``1 - cos`` to the shipped encoder's vectors.
        rank_kept: the effective rank as a share of the shipped encoder's.
        spread_kept: ``std_ratio`` as a share of the shipped encoder's.
    """

    effective_rank: float
    std_ratio: float
    drift: float
    rank_kept: float
    spread_kept: float


def effective_rank(vectors: Floats) -> float:
    """``exp(-sum p log p)``, p the normalised singular values of the centred vectors.

    Roy and Vetterli, "The effective rank", section 2. From 1 (a line, or a single point) to the
    smaller of n - 1 and d.

    Args:
        vectors: float32 (n, d).
    """
    centred = vectors.astype(np.float64) - vectors.mean(axis=0, dtype=np.float64)
    values = np.linalg.svd(centred, compute_uv=False)
    if values.sum() <= 1e-12:
        return 1.0
    shares = values / values.sum()
    shares = shares[shares > 0]
    return float(np.exp(-(shares * np.log(shares)).sum()))


def std_ratio(vectors: Floats) -> float:
    """``sqrt(d)`` times the mean standard deviation of a coordinate, of L2-normalised vectors.

    About 1 for vectors spread evenly over the sphere, 0 for a point.

    Args:
        vectors: float32 (n, d).
    """
    return float(math.sqrt(vectors.shape[1]) * vectors.std(axis=0, dtype=np.float64).mean())


def measure(vectors: Floats, shipped: Floats) -> Health:
    """The figures of ``vectors``, beside the ``shipped`` encoder's for the same queries.

    Args:
        vectors: float32 (n, d), L2-normalised; n >= 1. Where one is not finite, no figure is.
        shipped: the same.
    """
    if not np.isfinite(vectors).all():
        return Health(math.nan, math.nan, math.nan, math.nan, math.nan)
    rank, spread = effective_rank(vectors), std_ratio(vectors)
    return Health(
        effective_rank=rank,
        std_ratio=spread,
        drift=float(1 - (vectors.astype(np.float64) * shipped).sum(axis=1).mean()),
        rank_kept=_share(rank, effective_rank(shipped)),
        spread_kept=_share(spread, std_ratio(shipped)),
    )


def violation(health: Health, limits: MonitorLimits) -> str | None:
    """What is wrong, as a sentence for the report; None where nothing is."""
    if not all(map(math.isfinite, (health.effective_rank, health.std_ratio, health.drift))):
        return "the vectors are not finite"
    if health.drift > limits.drift:
        return (
            f"drift: queries moved {health.drift:.3f} (mean of 1 - cos) from the shipped "
            f"encoder, at most {limits.drift} is allowed"
        )
    if health.spread_kept < limits.spread_kept:
        return (
            f"collapse: the spread fell to {health.spread_kept:.3f} of the shipped encoder's, at "
            f"least {limits.spread_kept} is required"
        )
    if health.rank_kept < limits.rank_kept:
        return (
            f"collapse: the effective rank fell to {health.rank_kept:.3f} of the shipped "
            f"encoder's, at least {limits.rank_kept} is required"
        )
    return None


def _share(value: float, reference: float) -> float:
    # One query, or several alike, spread nowhere whoever encodes them: nothing to keep.
    return value / reference if reference > 1e-6 else 1.0

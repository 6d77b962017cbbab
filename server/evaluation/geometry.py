"""The geometry of a set of vectors: collapse, spread, rank, hubs.

The definitions and alarms of the table that every pretraining run logs. Alignment and uniformity
are those of "Understanding Contrastive Representation Learning through Alignment and Uniformity on
the Hypersphere", section 4; hubness that of "Hubs in Space", section 2.1. No figure tells it all:
``std_ratio`` stays near 1 under dimensional collapse of a batch-normalised output, ``eff_rank``
stays high under total collapse, and a small ``alignment`` alone says nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

from pocketquery.sdk.arrays import AnyFloats
from pocketquery.sdk.errors import InvalidInputError

__all__ = [
    "Geometry",
    "alignment",
    "hubness",
    "language_probe",
    "measure_geometry",
    "partner_recall",
    "unit_rows",
]


_NEIGHBOURS = 10
_TIE_TOLERANCE = (
    1e-6  # of cosines: equal texts in batches of different widths differ in the last digits
)
_LEAST_DEVIATION = 1e-6  # standard deviation below which float32 vectors are one and the same


@dataclass(frozen=True)
class Geometry:
    """How n unit vectors of d dimensions lie.

    Attributes:
        std_ratio: sqrt(d) times the mean standard deviation of a coordinate: 1 for points spread
            evenly over the sphere, 0 for a single one.
        collapse_level: max(0, 1 - std_ratio).
        mean_cos: mean cosine of two different vectors.
        uniformity: log mean exp(-2 distance^2) over pairs; towards -4 + 8/d, 0 if collapsed.
        eff_rank: exp of the entropy of the normalised singular values of the centred vectors,
            1 to the lesser of n - 1 and d.
        top_pc: share of the variance along the first principal component.
        hubness: skewness of how often a vector is among another's ten nearest.
        count: n.
        dimension: d.
    """

    std_ratio: float
    collapse_level: float
    mean_cos: float
    uniformity: float
    eff_rank: float
    top_pc: float
    hubness: float
    count: int
    dimension: int

    @property
    def least_rank(self) -> float:
        """What ``eff_rank`` alarms below: a tenth of the way from 1 to all that n vectors can have.

        n centred vectors have a rank of at most n - 1, so a few of them have little of d, however
        healthy they are. None has less than 1, which a tenth of few would be.
        """
        return 1 + (min(self.count - 1, self.dimension) - 1) / 10

    def alarms(self) -> list[str]:
        """Names of the figures that are beyond what a healthy model shows."""
        beyond: Mapping[str, bool] = {
            "std_ratio": self.std_ratio < 0.3,
            "mean_cos": self.mean_cos > 0.9,
            "uniformity": self.uniformity > -0.5,
            "eff_rank": self.eff_rank < self.least_rank,
            "top_pc": self.top_pc > 0.5,
            "hubness": self.hubness > 6,
        }
        return [name for name, alarming in beyond.items() if alarming]

    def figures(self) -> dict[str, float]:
        """The figures by name, as the logs show them."""
        sizes = ("count", "dimension")
        return {name: value for name, value in asdict(self).items() if name not in sizes}


def measure_geometry(vectors: AnyFloats) -> Geometry:
    """The geometry of some vectors, which are normalised here.

    Args:
        vectors: float (n, d) with n from 2; a thousand or two give stable figures.

    Raises:
        InvalidInputError: fewer than two vectors, or one that is not finite.
    """
    if vectors.ndim != 2 or len(vectors) < 2 or not np.isfinite(vectors).all():
        raise InvalidInputError(
            f"the vectors have the shape {vectors.shape}; expected two or more rows of finite "
            "numbers"
        )
    x = _unit(vectors)
    cosines = x @ x.T  # (n, n)
    spread = float(x.std(axis=0).mean())
    ratio = spread * x.shape[1] ** 0.5
    rank, top = _spectrum(x) if spread > _LEAST_DEVIATION else (1.0, 1.0)
    others = cosines[~np.eye(len(x), dtype=bool)]  # (n (n - 1),)
    return Geometry(
        std_ratio=ratio,
        collapse_level=max(0.0, 1 - ratio),
        mean_cos=float(others.mean()),
        uniformity=float(np.log(np.exp(4 * others - 4).mean())),  # distance^2 is 2 - 2 cos
        eff_rank=rank,
        top_pc=top,
        hubness=_occurrence_skewness(cosines - 2 * np.eye(len(x)), _NEIGHBOURS),
        count=len(x),
        dimension=x.shape[1],
    )


def alignment(first: AnyFloats, second: AnyFloats) -> float:
    """Mean squared distance of positive pairs, row by row, after normalisation; 0 to 4.

    Args:
        first: float (n, d).
        second: float (n, d).
    """
    difference = _unit(first) - _unit(second)
    return float((difference**2).sum(axis=1).mean())


def partner_recall(first: AnyFloats, second: AnyFloats, neighbours: int = _NEIGHBOURS) -> float:
    """Share of the first whose partner is among their nearest; ties count against it.

    Args:
        first: float (n, d).
        second: float (n, d); row i is the partner of row i, and all the others are not.
        neighbours: how many are near.
    """
    cosines = _unit(first) @ _unit(second).T  # (n, n)
    own = cosines.diagonal()[:, None]
    return float(((cosines >= own - _TIE_TOLERANCE).sum(axis=1) <= neighbours).mean())


def hubness(queries: AnyFloats, documents: AnyFloats, neighbours: int = _NEIGHBOURS) -> float:
    """Skewness of how many queries have each document among their nearest.

    Args:
        queries: float (n, d).
        documents: float (m, d).
        neighbours: documents a query counts.
    """
    return _occurrence_skewness(_unit(queries) @ _unit(documents).T, neighbours)


def _unit(vectors: AnyFloats) -> NDArray[np.float64]:
    doubles = np.asarray(vectors, dtype=np.float64)
    unit: NDArray[np.float64] = doubles / np.maximum(
        np.linalg.norm(doubles, axis=1, keepdims=True), 1e-8
    )
    return unit


def _spectrum(x: NDArray[np.float64]) -> tuple[float, float]:
    """Effective rank, and the first component's share of the variance."""
    values = np.linalg.svd(x - x.mean(axis=0), compute_uv=False)
    share = values / values.sum()
    share = share[share > 0]
    rank = float(np.exp(-(share * np.log(share)).sum()))
    return rank, float(values[0] ** 2 / (values**2).sum())


def _occurrence_skewness(scores: NDArray[np.float64], neighbours: int) -> float:
    count = min(neighbours, scores.shape[1] - 1)
    if count < 1:
        return 0.0
    nearest = np.argpartition(-scores, count - 1, axis=1)[:, :count]
    occurrences = np.bincount(nearest.ravel(), minlength=scores.shape[1]).astype(np.float64)
    deviation = occurrences - occurrences.mean()
    spread = float(np.sqrt((deviation**2).mean()))
    return float((deviation**3).mean() / spread**3) if spread > 0 else 0.0


def language_probe(vectors: Mapping[str, AnyFloats]) -> float:
    """How often a sentence lies nearest to its own language's centroid, mean over the languages.

    Centroids of the even rows, asked of the odd ones. 1 / languages where no language shows; close
    to 1 is an alarm.

    Args:
        vectors: for every language float (n, dim), two rows at least.

    Raises:
        InvalidInputError: fewer than two languages, or one with fewer than two rows.
    """
    if len(vectors) < 2 or min(len(rows) for rows in vectors.values()) < 2:
        raise InvalidInputError("expected two languages or more, each with two vectors at least")
    unit = [unit_rows(rows) for rows in vectors.values()]
    centroids = np.stack([rows[::2].mean(axis=0) for rows in unit])  # (languages, dim)
    shares = []
    for code, rows in enumerate(unit):
        distances = ((rows[1::2, None] - centroids) ** 2).sum(axis=2)  # (rows, languages)
        shares.append((distances.argmin(axis=1) == code).mean())
    return float(np.mean(shares))


def unit_rows(vectors: AnyFloats) -> AnyFloats:
    """Rows of unit length; a zero row stays zero."""
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit: AnyFloats = vectors / np.maximum(norms, 1e-12)
    return unit

"""How far a query encoder puts relevant documents above hard negatives.

*Query-BERT*, the anchor-positive-negative margin of its alignment.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pocketquery.sdk.arrays import Floats, Integers
from pocketquery.sdk.errors import InvalidInputError

__all__ = ["TRIPLES", "Margin", "margin"]

TRIPLES = 2**15
"""Triples a margin is the mean of."""

_SLICE = 200  # resamples drawn at once: bounds the memory to _SLICE x queries


@dataclass(frozen=True)
class Margin:
    """The margin of a query encoder over one document space.

    Attributes:
        margin: mean of cos(query, positive) - cos(query, negative), in [-2, 2].
        standard_error: of the margin, by a bootstrap over the queries, which triples share.
        positive_share: of the triples, those with a margin above 0.
        standardized: the margin over the standard deviation of the cosine of queries and documents
            at random. The margin itself depends on how narrow a cone the documents lie in, so it
            compares query encoders of one document space; this compares across spaces. 0 where
            all cosines are equal.
        triples: how many were drawn.
        queries: those that have a positive and a negative, and so could be drawn.
    """

    margin: float
    standard_error: float
    positive_share: float
    standardized: float
    triples: int
    queries: int


def margin(
    queries: Floats,
    documents: Floats,
    positives: Sequence[Sequence[int]],
    negatives: Sequence[Sequence[int]],
    *,
    triples: int = TRIPLES,
    samples: int = 1000,
    seed: int = 0,
) -> Margin:
    """Draw triples: a query, one of its positives, one of its hard negatives, each uniformly.

    Args:
        queries: float (n, dim), from the query side, of any length.
        documents: float (m, dim), from the document side, of any length.
        positives: for every query the rows of its relevant documents.
        negatives: for every query the rows of its hard negatives.
        triples: how many are drawn.
        samples: resamples of the bootstrap.
        seed: of everything drawn; equal seeds give equal figures.

    Raises:
        InvalidInputError: shapes that do not fit, or no query has both.
    """
    _check(queries, documents, positives, negatives)
    usable = [row for row in range(len(queries)) if len(positives[row]) and len(negatives[row])]
    if not usable:
        raise InvalidInputError("no query has both a positive and a hard negative; expected one")
    rng = np.random.default_rng(seed)
    q, d = _unit(queries), _unit(documents)
    rows = np.array(usable)[rng.integers(len(usable), size=triples)]
    good, bad = _one_each(positives, rows, rng), _one_each(negatives, rows, rng)
    differences = _cosines(q, d, rows, good) - _cosines(q, d, rows, bad)  # (triples,)
    anyone = rng.integers(len(queries), size=triples), rng.integers(len(documents), size=triples)
    spread = float(_cosines(q, d, *anyone).std())
    mean = float(differences.mean())
    return Margin(
        margin=mean,
        standard_error=_standard_error(differences, rows, len(queries), samples, rng),
        positive_share=float((differences > 0).mean()),
        standardized=mean / spread if spread > 1e-9 else 0.0,
        triples=triples,
        queries=len(usable),
    )


def _check(
    queries: Floats,
    documents: Floats,
    positives: Sequence[Sequence[int]],
    negatives: Sequence[Sequence[int]],
) -> None:
    if queries.ndim != 2 or documents.ndim != 2 or queries.shape[1:] != documents.shape[1:]:
        raise InvalidInputError(
            f"queries have the shape {queries.shape} and documents {documents.shape}; expected "
            "(n, dim) and (m, dim)"
        )
    if not len(queries) == len(positives) == len(negatives):
        raise InvalidInputError(
            f"there are {len(queries)} queries, {len(positives)} lists of positives and "
            f"{len(negatives)} of negatives; expected one of each a query"
        )


def _one_each(lists: Sequence[Sequence[int]], rows: Integers, rng: np.random.Generator) -> Integers:
    """One entry of ``lists[row]`` for each row, uniformly."""
    sizes = np.array([len(entries) for entries in lists])
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    flat = np.array([entry for entries in lists for entry in entries], dtype=np.int64)
    drawn: Integers = flat[starts[rows] + rng.integers(sizes[rows])]
    return drawn


def _unit(vectors: Floats) -> Floats:
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit: Floats = vectors / np.maximum(norms, 1e-8)
    return unit


def _cosines(q: Floats, d: Floats, rows: Integers, columns: Integers) -> Floats:
    found: Floats = np.concatenate(
        [
            np.einsum("ij,ij->i", q[rows[i : i + 4096]], d[columns[i : i + 4096]])
            for i in range(0, len(rows), 4096)
        ]
    )
    return found


def _standard_error(
    values: Floats, rows: Integers, queries: int, samples: int, rng: np.random.Generator
) -> float:
    """Standard deviation of the mean over resamples of the queries, each with all its triples."""
    counts = np.bincount(rows, minlength=queries).astype(np.float64)
    sums = np.bincount(rows, weights=values, minlength=queries)
    drawn = counts > 0
    sums, counts = sums[drawn], counts[drawn]
    means = []
    for start in range(0, samples, _SLICE):
        size = (min(_SLICE, samples - start), len(counts))
        chosen = rng.integers(len(counts), size=size)
        means.append(sums[chosen].sum(axis=1) / counts[chosen].sum(axis=1))
    return float(np.concatenate(means).std())

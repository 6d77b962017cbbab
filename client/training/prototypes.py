"""Prototypes: the documents against which local training compares queries.

For each query its nearest documents, among which ranking well matters, and some drawn from all,
which keep the rest of the space in its place. They are fixed points: the index is frozen, so a
loss over them cannot be met by rotating or shrinking the space.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from pocketquery.sdk.arrays import Floats, Rows
from pocketquery.sdk.errors import InvalidInputError, SpaceMismatchError
from pocketquery.sdk.index.index import Index
from pocketquery.sdk.index.vectors import unit_rows

__all__ = ["DocumentVectors", "MatrixVectors", "PrototypeSource", "open_vectors", "with_random"]


class DocumentVectors(Protocol):
    """The vectors of a set of documents, by row; ``Index.vectors`` returns one.

    Attributes:
        row_of: the rows of the documents asked for, by id.
    """

    @property
    def row_of(self) -> Mapping[str, int]: ...

    @property
    def dimension(self) -> int: ...

    def __len__(self) -> int: ...

    def vectors(self, rows: Rows) -> Floats:
        """Float32 (rows' shape, dimension)."""

    def nearest(self, queries: Floats, k: int) -> Rows:
        """The rows nearest to each of float32 (n, dimension), best first, (n, at most k)."""


class MatrixVectors:
    """Document vectors in a matrix: for simulations, and indexes that are not ours.

    Args:
        matrix: float (n, dimension); used at length 1.
        ids: the documents' ids, where opened results are to be found, one a row.

    Raises:
        InvalidInputError: not such a matrix, or another number of ids.
    """

    def __init__(self, matrix: NDArray[np.floating], ids: Sequence[str] | None = None) -> None:
        shape = np.shape(matrix)
        self._matrix = unit_rows(matrix, shape[-1] if shape else 0, "the document matrix")
        if ids is not None and len(ids) != len(self._matrix):
            raise InvalidInputError(
                f"found {len(ids)} ids for {len(self._matrix)} document vectors, expected one each"
            )
        self.row_of: Mapping[str, int] = {name: row for row, name in enumerate(ids or ())}

    def __len__(self) -> int:
        return len(self._matrix)

    @property
    def dimension(self) -> int:
        """The number of dimensions of a vector."""
        return int(self._matrix.shape[1])

    def vectors(self, rows: Rows) -> Floats:
        """Float32 (rows' shape, dimension)."""
        return self._matrix[rows]

    def nearest(self, queries: Floats, k: int) -> Rows:
        """The rows nearest to each of float32 (n, dimension), best first, (n, at most k)."""
        scores = queries @ self._matrix.T  # (n, documents)
        k = min(k, len(self))
        near: Rows = (
            np.argpartition(-scores, k - 1, axis=1)[:, :k]
            if k
            else np.empty((len(queries), 0), np.intp)
        )
        order = np.argsort(-np.take_along_axis(scores, near, 1), axis=1, kind="stable")
        return np.take_along_axis(near, order, 1)


PrototypeSource = Index | MatrixVectors | NDArray[np.float32]


def open_vectors(source: PrototypeSource, space_id: str, ids: Iterable[str]) -> DocumentVectors:
    """The document vectors in ``source``, with the rows of ``ids`` where it has them.

    Args:
        source: an open index, or a matrix (float32 (n, dimension), or with ids).
        space_id: of the encoder that is to be compared with them. A matrix carries none.
        ids: documents that were shown or opened.

    Raises:
        SpaceMismatchError: the index is of another space.
        InvalidInputError: there is no document, so nothing to compare with.
    """
    if isinstance(source, Index):
        if source.space_id != space_id:
            raise SpaceMismatchError.between(
                f"the index {source.path}", source.space_id, "the encoder", space_id
            )
        opened: DocumentVectors = source.vectors(ids)
    else:
        opened = source if isinstance(source, MatrixVectors) else MatrixVectors(source)
    if not len(opened):
        raise InvalidInputError(
            "the index has no documents, so there is nothing to compare queries with; expected "
            "at least one. Train after documents were added"
        )
    return opened


def with_random(nearest: Rows, count: int, size: int, rng: np.random.Generator) -> Rows:
    """``nearest`` and up to ``count`` further rows for each query, drawn from the rest evenly.

    Args:
        nearest: (n, k), rows that a query has already, none twice.
        count: how many to add, 0 or more; fewer where the index has no more.
        size: rows of the index.
        rng: the source of randomness.

    Returns:
        (n, k + min(count, size - k)), in each line no row twice.
    """
    taken = nearest.shape[1]
    count = min(count, size - taken)
    drawn = np.empty((len(nearest), count), np.intp)
    for line, near in zip(drawn, nearest, strict=True):
        # Enough that, whatever is struck out, enough are left.
        candidates = rng.choice(size, taken + count, replace=False)
        line[:] = candidates[~np.isin(candidates, near)][:count]
    return np.concatenate([nearest, drawn], axis=1)

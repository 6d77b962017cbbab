"""The vectors an index stores, as local training reads them: one state, by row.

A view of the state it was made in: what is added, deleted or compacted afterwards does not show.
Rows count the living documents alone, from 0. The vector of a document without a place by meaning
is 0, and it is near to no query.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping

import numpy as np

from pocketquery.sdk.arrays import Floats, NDArray, Rows
from pocketquery.sdk.index.documents import find_rows
from pocketquery.sdk.index.segments import Snapshot
from pocketquery.sdk.index.vectors import Vectors, unit_rows
from pocketquery.sdk.validation import check_count, check_text

__all__ = ["StoredVectors"]


class StoredVectors:
    """The vectors of an index's living documents; made by ``Index.vectors``.

    Attributes:
        row_of: the row of each document that was asked for and is there, by id.
    """

    def __init__(
        self, vectors: Vectors, alive: NDArray[np.bool_] | None, rows: Mapping[str, int]
    ) -> None:
        self._vectors = vectors
        self._alive = alive
        self._living: Rows = np.arange(len(vectors)) if alive is None else np.flatnonzero(alive)
        self.row_of = {name: int(np.searchsorted(self._living, row)) for name, row in rows.items()}

    @classmethod
    def read(
        cls, connection: sqlite3.Connection, snapshot: Snapshot, ids: Iterable[str]
    ) -> StoredVectors:
        """The vectors of ``snapshot``, which ``connection`` sees, with the rows of ``ids``."""
        checked = [check_text(one, f"ids[{position}]") for position, one in enumerate(ids)]
        return cls(snapshot.vectors, snapshot.alive(connection), find_rows(connection, checked))

    def __len__(self) -> int:
        return len(self._living)

    @property
    def dimension(self) -> int:
        """The number of dimensions of a vector."""
        return self._vectors.dimension

    def vectors(self, rows: Rows) -> Floats:
        """The stored vectors of ``rows``, float32 (rows' shape, dimension), of length 0 or about 1.

        Args:
            rows: of any shape, each from 0 to ``len(self) - 1``.
        """
        flat = self._vectors.floats(self._living[rows.reshape(-1)])
        return flat.reshape(*rows.shape, self.dimension)

    def nearest(self, queries: Floats, k: int) -> Rows:
        """The rows of the ``k`` nearest documents of each query, best first.

        Args:
            queries: float (n, dimension), of any length but 0.
            k: at least 1.

        Returns:
            (n, min(k, the number of documents with a vector)).

        Raises:
            InvalidInputError: a query that is not finite or of another dimension, k < 1.
        """
        units = unit_rows(queries, self.dimension, "queries")
        placed = int(np.count_nonzero(self._vectors.placed()[self._living]))
        nearest = np.empty((len(units), min(check_count(k, "k"), placed)), np.intp)
        for row, query in enumerate(units if placed else ()):
            rows, _ = self._vectors.search(query, nearest.shape[1], self._alive)
            nearest[row] = np.searchsorted(self._living, rows)
        return nearest

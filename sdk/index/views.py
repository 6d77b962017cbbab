"""What an index shows beside hits: its documents, their vectors and fields, snippets."""

from __future__ import annotations

import abc
import sqlite3
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

import numpy as np

from pocketquery.sdk.arrays import Floats, NDArray, Rows
from pocketquery.sdk.index.documents import (
    Document,
    find_document,
    find_rows,
    stored_document,
)
from pocketquery.sdk.index.search import expanded
from pocketquery.sdk.index.segments import Snapshot
from pocketquery.sdk.index.untrusted_file import Connection
from pocketquery.sdk.index.vectors import Vectors, unit_rows
from pocketquery.sdk.results.facets import FacetCount, count_fields, count_values, fields_of
from pocketquery.sdk.results.filters import Condition, add_functions, compile_filter
from pocketquery.sdk.results.hits import Hits
from pocketquery.sdk.results.snippet import HasText, Snippet, snippet
from pocketquery.sdk.validation import check_count, check_text, nearest

__all__ = ["IndexViews", "StoredVectors"]


class StoredVectors:
    """The vectors of an index's living documents, as local training reads them; made by
    ``Index.vectors``.

    A view of the state it was made in: what is added, deleted or compacted afterwards does not
    show. Rows count the living documents alone, from 0. The vector of a document without a place by
    meaning is 0, and it is near to no query.

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


class IndexViews(abc.ABC):
    """The part of an index that shows its documents."""

    @abc.abstractmethod
    def reading(self) -> AbstractContextManager[tuple[Connection, Snapshot]]:
        """One committed state."""

    @abc.abstractmethod
    def search(self, *query: Any, **options: Any) -> Hits:
        """The best documents."""

    def __len__(self) -> int:
        """Documents that can be found."""
        with self.reading() as (_, snapshot):
            return len(snapshot)

    def get(self, id: str) -> Document | None:
        """The document with this id, None where there is none."""
        with self.reading() as (connection, _):
            return find_document(connection, check_text(id, "the id"))

    def vectors(self, ids: Iterable[str] = ()) -> StoredVectors:
        """The vectors of the present state, by row, with the rows of the documents ``ids``."""
        with self.reading() as (connection, snapshot):
            return StoredVectors.read(connection, snapshot, ids)

    def facets(
        self, field: str, *, filter: Mapping[str, Any] | None = None, query: str | None = None
    ) -> list[FacetCount]:
        """The values of ``field`` with the number of documents that have each, most frequent first:
        ``index.facets("tags")[0]`` is ``FacetCount(value="garden", documents=12)``.

        Args:
            field: as in a filter; each value of a list counts.
            filter: only documents that meet it.
            query: only documents that a search for its words finds.

        Raises:
            InvalidInputError: as ``search``.
        """
        check_text(field, "the field")
        if query is None:
            return count_values(self._metadata(filter), field)
        with self.reading() as (_, snapshot):
            most = max(len(snapshot.vectors), 1)
        hits = self.search(query, most, filter=filter, mode="lexical")
        return count_values((hit.metadata for hit in hits), field)

    def fields(self) -> dict[str, int]:
        """The fields of the documents' metadata, with how many documents have each."""
        return count_fields(self._metadata(None))

    def unknown_fields(self, filter: Mapping[str, Any]) -> dict[str, str | None]:
        """The fields in ``filter`` that no document has, each with the field that was probably
        meant: ``{"yaer": "year"}``. A search takes them for absent."""
        compile_filter(filter)
        known = self.fields()
        objects = {name[:dot] for name in known for dot, sign in enumerate(name) if sign == "."}
        asked = dict.fromkeys(fields_of(filter))
        return {
            name: nearest(name, known)
            for name in asked
            if name not in known and name not in objects
        }

    def snippet(
        self, hit: HasText | str, query: str, *, length: int = 160, prefix: bool = False
    ) -> Snippet:
        """The passage of a hit around the words of ``query``, marked, in the index's language; see
        :func:`pocketquery.sdk.snippet`. Words of the index that stood for one of the query's, since
        it is mistyped or still being typed (``prefix``), are marked too."""
        with self.reading() as (connection, snapshot):
            asked = snapshot.analyzer.query(check_text(query, "the query"), prefix=prefix)
            asked = replace(asked, terms=expanded(connection, snapshot, asked).weights)
        return snippet(hit, asked, length=length, language=snapshot.analyzer.language)

    def _metadata(self, filter: Mapping[str, Any] | None) -> list[Mapping[str, Any]]:
        condition = Condition("1") if filter is None else compile_filter(filter)
        with self.reading() as (connection, _):
            add_functions(connection)
            sql = f"SELECT id, metadata FROM documents WHERE {condition.sql}"
            rows = connection.execute(sql, condition.parameters)
            return [stored_document(one, "", text).metadata for one, text in rows]

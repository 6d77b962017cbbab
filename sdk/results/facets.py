"""What fields documents have, and how many documents have each value of one."""

from __future__ import annotations

import abc
import json
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

from pocketquery.sdk.arrays import Rows
from pocketquery.sdk.index.analysis import Analyzer
from pocketquery.sdk.index.database import Connection
from pocketquery.sdk.index.filters import Condition, compile_filter, fields_of, values_at
from pocketquery.sdk.index.search import Selection, check_query, rank
from pocketquery.sdk.index.segments import Snapshot
from pocketquery.sdk.validation import check_text, nearest

__all__ = ["FacetCount", "FacetReader"]


class FacetCount(NamedTuple):
    """A value of a field and how many documents have it."""

    value: str | float | bool
    documents: int


class FacetReader(abc.ABC):
    """What an index says about its documents' metadata."""

    dimension: int
    _analyzer: Analyzer

    @abc.abstractmethod
    def reading(self) -> AbstractContextManager[tuple[Connection, Snapshot]]:
        """One committed state."""

    def facets(
        self, field: str, *, filter: Mapping[str, Any] | None = None, query: str | None = None
    ) -> list[FacetCount]:
        """The values of ``field`` with the number of documents that have each, most frequent first:
        ``index.facets("tags")[0]`` is ``FacetCount(value="garden", documents=12)``.

        Args:
            field: as in a filter; each value of a list counts.
            filter: only documents that meet it.
            query: only documents that have a word of it.

        Raises:
            InvalidInputError: as :meth:`search`.
        """
        check_text(field, "the field")
        condition = None if filter is None else compile_filter(filter)
        with self.reading() as (connection, snapshot):
            rows = None
            if query is not None:
                count = len(snapshot.vectors)
                request = check_query(query, max(count, 1), "lexical", None, self.dimension, None)
                selection = Selection(connection, count, snapshot.alive(connection), condition)
                rows = rank(connection, snapshot, self._analyzer, request, selection)[0]
            return _count_values(connection, field, condition, rows)

    def fields(self) -> dict[str, int]:
        """The fields of the documents' metadata, with how many documents have each."""
        with self.reading() as (connection, _):
            return _count_fields(connection)

    def unknown_fields(self, filter: Mapping[str, Any]) -> dict[str, str | None]:
        """The fields in ``filter`` that no document has, each with the field that was probably
        meant: ``{"yaer": "year"}``. A search does not refuse them."""
        compile_filter(filter)
        with self.reading() as (connection, _):
            return _absent_fields(connection, fields_of(filter))


def _count_values(
    connection: sqlite3.Connection, field: str, condition: Condition | None, rows: Rows | None
) -> list[FacetCount]:
    """The values of ``field``, most frequent first, of equal ones numbers, then texts, rising.

    Args:
        connection: on one state.
        field: as in a filter. A list counts once for each of its values; null, lists and objects
            do not count.
        condition: only documents that meet it; None for all.
        rows: only these; None for all.
    """
    sql, parameters = "SELECT metadata FROM documents", tuple[str | float, ...]()
    if rows is not None:
        sql += " WHERE row IN (SELECT value FROM json_each(?))"
        parameters = (json.dumps(rows.tolist()),)
    elif condition is not None:
        sql, parameters = f"{sql} WHERE {condition.sql}", condition.parameters
    counts: Counter[tuple[bool, str | float]] = Counter()  # 1 and true are equal in Python
    for (metadata,) in connection.execute(sql, parameters):
        values = values_at(json.loads(metadata), field) or []
        counts.update({(isinstance(one, bool), one) for one in values if _counts(one)})
    found = [FacetCount(value, count) for (_, value), count in counts.items()]
    return sorted(found, key=lambda one: (-one.documents, _order(one.value)))


def _count_fields(connection: sqlite3.Connection) -> dict[str, int]:
    """How many documents have each field, most frequent first; a field in an object by dots."""
    counts: Counter[str] = Counter()
    for (metadata,) in connection.execute("SELECT metadata FROM documents"):
        counts.update(set(_fields(json.loads(metadata))))
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def _absent_fields(connection: sqlite3.Connection, fields: Iterable[str]) -> dict[str, str | None]:
    """Those of ``fields`` that no document has, with the nearest that some have."""
    absent = []
    for field in dict.fromkeys(fields):
        exists = compile_filter({field: {"$exists": True}})
        sql = f"SELECT 1 FROM documents WHERE {exists.sql} LIMIT 1"
        if connection.execute(sql, exists.parameters).fetchone() is None:
            absent.append(field)
    known = _count_fields(connection) if absent else {}
    return {field: nearest(field, known) for field in absent}


def _fields(record: Mapping[str, Any], within: str = "") -> Iterator[str]:
    for name, value in record.items():
        if within and "." in name:  # which no filter reaches
            continue
        items = value if isinstance(value, list) else [value]
        objects = [one for one in items if isinstance(one, Mapping)]
        if len(objects) < max(len(items), 1):
            yield within + name
        for one in objects:
            yield from _fields(one, f"{within}{name}.")


def _counts(value: object) -> bool:
    return isinstance(value, (str, int, float))


def _order(value: Any) -> tuple[bool, bool, Any]:
    return isinstance(value, str), not isinstance(value, bool), value

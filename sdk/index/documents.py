"""Documents: what they are, and their tables in the index's database.

A document's row number is its vector's. Deleting removes id, metadata and text at once (the pages
are overwritten with zeros, see :mod:`pocketquery.sdk.index.database`) and leaves the row number in
``tombstones``; the vector and the postings of that row go when the index is compacted.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pocketquery.sdk.errors import InvalidInputError
from pocketquery.sdk.texts import check_text

__all__ = [
    "Document",
    "content",
    "check_document",
    "create_tables",
    "insert_documents",
    "delete_documents",
    "find_document",
    "find_rows",
    "has_document",
    "read_documents",
    "stream_documents",
]

_AT_A_TIME = 500  # SQLite allows 999 parameters in old builds


@dataclass(frozen=True)
class Document:
    """A text to be found.

    Attributes:
        id: unique in its index, not empty.
        text: what a search returns.
        metadata: JSON values by name, for filters; ``title``, where there is one, is searched too.
    """

    id: str
    text: str
    metadata: Mapping[str, Any] = field(default_factory=dict)


def content(document: Document) -> str:
    """The text that is encoded and searched: the title, where there is one, and the text."""
    title = document.metadata.get("title")
    return f"{title} {document.text}".strip() if isinstance(title, str) else document.text.strip()


def check_document(document: Document, where: str = "the document") -> None:
    """Raise InvalidInputError where ``document`` cannot be stored, naming it ``where``."""
    if not isinstance(document, Document):
        raise InvalidInputError(f"{where} is a {type(document).__name__}, expected a Document")
    if not check_text(document.id, f"the id of {where}"):
        raise InvalidInputError(f"the id of {where} is empty; expected a unique text")
    where = f"{where} ({document.id!r})"
    check_text(document.text, f"the text of {where}")
    _to_json(document.metadata, where)


def create_tables(connection: sqlite3.Connection) -> None:
    """The tables of the documents, empty. Texts lie apart so that a filter reads no text."""
    connection.execute(
        "CREATE TABLE documents"
        " (row INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, metadata TEXT NOT NULL)"
    )
    connection.execute("CREATE TABLE texts (row INTEGER PRIMARY KEY, text TEXT NOT NULL)")
    connection.execute("CREATE TABLE tombstones (row INTEGER PRIMARY KEY)")


def insert_documents(
    connection: sqlite3.Connection, first_row: int, documents: Sequence[Document]
) -> None:
    """Store checked ``documents`` in the rows from ``first_row`` on.

    Raises:
        InvalidInputError: an id that is there already; names it.
    """
    for row, document in enumerate(documents, first_row):
        metadata = _to_json(document.metadata, repr(document.id))
        try:
            connection.execute(
                "INSERT INTO documents VALUES (?, ?, ?)", (row, document.id, metadata)
            )
        except sqlite3.IntegrityError as error:
            raise InvalidInputError(
                f"the id {document.id!r} is in the index already; ids are unique. "
                "Delete the old document first, or give this one another id"
            ) from error
        connection.execute("INSERT INTO texts VALUES (?, ?)", (row, document.text))


def delete_documents(connection: sqlite3.Connection, ids: Iterable[str]) -> int:
    """Delete the documents with these ids; those that are not there are passed over.

    Returns:
        How many were deleted.
    """
    rows = []
    for identifier in ids:
        found = connection.execute(
            "DELETE FROM documents WHERE id = ? RETURNING row", (identifier,)
        ).fetchall()
        rows += found
    connection.executemany("DELETE FROM texts WHERE row = ?", rows)
    connection.executemany("INSERT INTO tombstones VALUES (?)", rows)
    return len(rows)


def has_document(connection: sqlite3.Connection, identifier: str) -> bool:
    """Whether there is a document with this id."""
    found = connection.execute("SELECT 1 FROM documents WHERE id = ?", (identifier,)).fetchone()
    return found is not None


def find_document(connection: sqlite3.Connection, identifier: str) -> Document | None:
    """The document with this id, where there is one."""
    found = connection.execute(
        "SELECT id, text, metadata FROM documents JOIN texts USING (row) WHERE id = ?",
        (identifier,),
    ).fetchone()
    return _document(*found) if found else None


def find_rows(connection: sqlite3.Connection, ids: Iterable[str]) -> dict[str, int]:
    """The row of each of ``ids`` that is there."""
    found = {}
    for identifier in ids:
        for (row,) in connection.execute("SELECT row FROM documents WHERE id = ?", (identifier,)):
            found[identifier] = int(row)
    return found


def read_documents(connection: sqlite3.Connection, rows: Sequence[int]) -> dict[int, Document]:
    """The documents of ``rows``, by row."""
    documents = {}
    for start in range(0, len(rows), _AT_A_TIME):
        some = rows[start : start + _AT_A_TIME]
        marks = ", ".join("?" * len(some))
        for row, *fields in connection.execute(
            "SELECT row, id, text, metadata FROM documents JOIN texts USING (row)"
            f" WHERE row IN ({marks})",
            some,
        ):
            documents[row] = _document(*fields)
    return documents


def stream_documents(
    connection: sqlite3.Connection, first_row: int, stop_row: int
) -> Iterator[Document]:
    """The documents from row ``first_row`` to ``stop_row`` in their order."""
    for fields in connection.execute(
        "SELECT id, text, metadata FROM documents JOIN texts USING (row)"
        " WHERE row >= ? AND row < ? ORDER BY row",
        (first_row, stop_row),
    ):
        yield _document(*fields)


def _document(identifier: str, text: str, metadata: str) -> Document:
    return Document(identifier, text, json.loads(metadata))


def _to_json(metadata: Mapping[str, Any], where: str) -> str:
    if not isinstance(metadata, Mapping) or not all(isinstance(key, str) for key in metadata):
        raise InvalidInputError(f"the metadata of {where} is not a mapping with names as keys")
    try:
        text = json.dumps(dict(metadata), ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInputError(
            f"the metadata of {where} cannot be JSON: {error}; expected texts, finite numbers, "
            "booleans, null, lists and mappings of them"
        ) from error
    return check_text(text, f"the metadata of {where}")

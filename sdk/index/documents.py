"""Documents: what they are, and their tables in the index's database.

A document's row number is its vector's. Deleting removes id, metadata and text at once (the pages
are overwritten with zeros, see :mod:`pocketquery.sdk.index.database`) and leaves the row number in
``tombstones``. The vector and the postings of that row are deleted when the index is compacted.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pocketquery.sdk.arrays import NDArray
from pocketquery.sdk.errors import InvalidInputError
from pocketquery.sdk.fields import no_constant
from pocketquery.sdk.index.database import damaged
from pocketquery.sdk.index.untrusted_file import Schema
from pocketquery.sdk.languages.scripts import language_number
from pocketquery.sdk.validation import check_text

__all__ = [
    "DOCUMENT_TABLES",
    "Document",
    "as_documents",
    "content",
    "check_document",
    "check_tables",
    "create_tables",
    "insert_documents",
    "delete_documents",
    "find_document",
    "find_rows",
    "has_document",
    "documents_of_rows",
    "metadata_text",
    "stored_document",
    "stream_documents",
]

# Texts lie apart so that a filter reads no text.
DOCUMENT_TABLES: Schema = {
    "documents": "CREATE TABLE documents"
    " (row INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, metadata TEXT NOT NULL)",
    "texts": "CREATE TABLE texts (row INTEGER PRIMARY KEY, text TEXT NOT NULL)",
    "tombstones": "CREATE TABLE tombstones (row INTEGER PRIMARY KEY)",
}
_PARAMETERS_PER_QUERY = 500  # SQLite allows 999 parameters in old builds
_MOST_CHARACTERS = 1 << 27  # of an id, a text or metadata: SQLite's limit is 10**9 bytes
_NESTING = (Mapping, list, tuple)
_MOST_DEPTH = 100  # lists and mappings within each other; SQLite and Python read more, not all do


@dataclass(frozen=True)
class Document:
    """A text to be found.

    A document whose title and text have no word, or a single letter or digit, is stored and found
    by its words alone, whatever its vector. By meaning it would be first for most short queries.

    Attributes:
        id: unique in its index, not empty.
        text: what a search returns.
        metadata: JSON values by name, for filters; ``title``, where there is one, is searched too.
        private: it comes of a file that others cannot read: the index it is added to is for its
            owner alone from then on (0700, files 0600). Not stored.
    """

    id: str
    text: str
    metadata: Mapping[str, Any] = field(default_factory=dict)
    private: bool = field(default=False, compare=False, repr=False)


def content(document: Document) -> str:
    """The text that is encoded and searched: the title, where there is one, and the text."""
    title = document.metadata.get("title")
    return f"{title} {document.text}".strip() if isinstance(title, str) else document.text.strip()


def as_documents(given: object, first_number: int | None) -> list[Document]:
    """What a user passes as documents: each a Document, a text, a pair of id and text, or a mapping
    with ``text`` and perhaps ``id`` (or ``_id``); its further values, or those of its ``metadata``,
    are the metadata.

    Args:
        given: any iterable of them, of one kind or mixed.
        first_number: what comes without an id has its number as one, counted from here; None: each
            must have one.

    Raises:
        InvalidInputError: one text, a mapping of texts, or something that is none of these.
    """
    if isinstance(given, (str, Document)):
        kind = "text" if isinstance(given, str) else "document"
        raise InvalidInputError(f"documents is one {kind}, expected a list: add([{kind}])")
    if isinstance(given, Mapping):
        raise InvalidInputError(
            "documents is a mapping, expected a list; for texts by id: add(documents.items()), for "
            "one document: add([document])"
        )
    if not isinstance(given, Iterable):
        raise InvalidInputError(
            f"documents is a {type(given).__name__}, expected a list of texts, of (id, text) pairs,"
            " of mappings or of Documents"
        )
    return [
        one if isinstance(one, Document) else _as_document(one, position, first_number)
        for position, one in enumerate(given)
    ]


def _as_document(given: object, position: int, first_number: int | None) -> Document:
    number = "" if first_number is None else str(first_number + position)
    if isinstance(given, str):
        if not number:
            raise InvalidInputError(
                f"documents[{position}] is a text without an id, by which documents are replaced; "
                "expected a pair (id, text), a mapping with id and text, or a Document"
            )
        return Document(number, given)
    if isinstance(given, (tuple, list)) and len(given) in (2, 3):
        return Document(*given)
    if isinstance(given, Mapping):
        values = dict(given)
        if "text" not in values:
            raise InvalidInputError(
                f"documents[{position}] has no text, but {', '.join(map(str, values)) or 'nothing'}"
                '; expected {"text": ...}, perhaps with "id", "title" and further metadata'
            )
        text, metadata = values.pop("text"), values.pop("metadata", {})
        identifier = values.pop("id", values.pop("_id", number))
        if isinstance(metadata, Mapping):
            metadata = {**values, **metadata}
        return Document(identifier, text, metadata)
    raise InvalidInputError(
        f"documents[{position}] is a {type(given).__name__}, expected a text, (id, text), "
        "(id, text, metadata), a mapping with text, or a Document"
    )


def check_document(document: Document, where: str = "the document") -> None:
    """Raise InvalidInputError where ``document`` cannot be stored, naming it ``where``."""
    if not isinstance(document, Document):
        raise InvalidInputError(f"{where} is a {type(document).__name__}, expected a Document")
    if not check_text(document.id, f"the id of {where}"):
        raise InvalidInputError(f"the id of {where} is empty; expected a unique text")
    where = f"{where} ({document.id[:80]!r})"
    check_text(document.text, f"the text of {where}")
    metadata = _to_json(document.metadata, where)
    for text, what in ((document.id, "id"), (document.text, "text"), (metadata, "metadata")):
        if len(text) > _MOST_CHARACTERS:
            raise InvalidInputError(
                f"the {what} of {where} has {len(text)} characters, expected at most "
                f"{_MOST_CHARACTERS}; cut it into several documents"
            )


def metadata_text(document: Document) -> str:
    """The metadata as they are stored."""
    return _to_json(document.metadata, repr(document.id))


def create_tables(connection: sqlite3.Connection) -> None:
    """The tables of the documents, empty."""
    for statement in DOCUMENT_TABLES.values():
        connection.execute(statement)


def insert_documents(
    connection: sqlite3.Connection, first_row: int, documents: Sequence[Document]
) -> None:
    """Store checked ``documents`` in the rows from ``first_row`` on.

    Raises:
        InvalidInputError: an id that is there already; names it.
    """
    for row, document in enumerate(documents, first_row):
        metadata = metadata_text(document)
        try:
            connection.execute(
                "INSERT INTO documents VALUES (?, ?, ?)", (row, document.id, metadata)
            )
        except sqlite3.IntegrityError as error:
            if not has_document(connection, document.id):  # a row that should be free
                raise
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
    rows = [(row,) for row in find_rows(connection, ids).values()]
    connection.executemany("DELETE FROM documents WHERE row = ?", rows)
    connection.executemany("DELETE FROM texts WHERE row = ?", rows)
    connection.executemany("INSERT INTO tombstones VALUES (?)", rows)
    return len(rows)


def has_document(connection: sqlite3.Connection, identifier: str) -> bool:
    """Whether there is a document with this id."""
    row = connection.execute("SELECT 1 FROM documents WHERE id = ?", (identifier,)).fetchone()
    return row is not None


def find_document(connection: sqlite3.Connection, identifier: str) -> Document | None:
    """The document with this id, where there is one."""
    fields = connection.execute(
        "SELECT id, text, metadata FROM documents JOIN texts USING (row) WHERE id = ?",
        (identifier,),
    ).fetchone()
    return stored_document(*fields) if fields else None


def find_rows(connection: sqlite3.Connection, ids: Iterable[str]) -> dict[str, int]:
    """The row of each of ``ids`` that is there."""
    rows = {}
    for identifier in ids:
        for (row,) in connection.execute("SELECT row FROM documents WHERE id = ?", (identifier,)):
            rows[identifier] = int(row)
    return rows


def documents_of_rows(connection: sqlite3.Connection, rows: Sequence[int]) -> dict[int, Document]:
    """The documents of ``rows``, by row."""
    documents = {}
    for start in range(0, len(rows), _PARAMETERS_PER_QUERY):
        some = rows[start : start + _PARAMETERS_PER_QUERY]
        marks = ", ".join("?" * len(some))
        for row, *fields in connection.execute(
            "SELECT row, id, text, metadata FROM documents JOIN texts USING (row)"
            f" WHERE row IN ({marks})",
            some,
        ):
            documents[row] = stored_document(*fields)
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
        yield stored_document(*fields)


def check_tables(connection: sqlite3.Connection, rows: int, languages: NDArray[np.uint16]) -> None:
    """Read every document, and whether each of ``rows`` rows has one or is a deleted one's, and
    ``languages``, uint16 (documents,), are the numbers of the documents' languages, in order.

    Raises:
        CorruptArtifactError: a row has neither or both, or no document, or of another language.
    """
    for query, what in (
        ("SELECT count(*) FROM documents", "documents"),
        ("SELECT count(*) FROM texts", "texts"),
        ("SELECT count(*) FROM documents JOIN texts USING (row)", "documents with a text"),
    ):
        (count,) = connection.execute(
            f"SELECT ({query}) + (SELECT count(*) FROM tombstones)"
        ).fetchone()
        if count != rows:
            raise damaged(f"{count} {what} and deleted documents", f"{rows}, the number of rows")
    (both,) = connection.execute(
        "SELECT count(*) FROM documents JOIN tombstones USING (row)"
    ).fetchone()
    if both:
        raise damaged(f"{both} documents that are deleted, too", "none")
    documents = stream_documents(connection, 0, rows)
    for document, language in zip(documents, languages.tolist(), strict=True):
        if not document.id:
            raise damaged("a document with an empty id", "a unique text")
        if language_number(document.metadata) != language:
            raise damaged(f"{document.id[:80]!r} in another language", "the one its metadata say")


def stored_document(identifier: object, text: object, metadata: object) -> Document:
    """A stored document, where it is one; SQLite keeps any type in any column.

    Raises:
        CorruptArtifactError: it is none.
    """
    if not (isinstance(identifier, str) and isinstance(text, str) and isinstance(metadata, str)):
        raise damaged("a document whose id, text or metadata is a blob or a number", "texts")
    try:
        values = json.loads(metadata, parse_constant=no_constant)
        if "\\u" in metadata:  # an escape can be half a character, which no text of SQLite's is
            json.dumps(values, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        found = f"metadata of {identifier[:80]!r} that cannot be read ({error})"
        raise damaged(found, "JSON") from error
    if not isinstance(values, dict):
        raise damaged(
            f"metadata of {identifier[:80]!r} that is a {type(values).__name__}", "an object"
        )
    return Document(identifier, text, values)


def _depth(value: object) -> int:
    """How many lists and mappings lie within each other, level by level."""
    depth, level = 0, [value]
    while (level := [one for one in level if isinstance(one, _NESTING)]) and depth <= _MOST_DEPTH:
        depth += 1
        once = {id(one): one for one in level}.values()  # what holds itself would never end
        level = [
            item for one in once for item in (one.values() if isinstance(one, Mapping) else one)
        ]
    return depth


def _to_json(metadata: Mapping[str, Any], where: str) -> str:
    if not isinstance(metadata, Mapping) or not all(isinstance(key, str) for key in metadata):
        raise InvalidInputError(f"the metadata of {where} is not a mapping with names as keys")
    if _depth(metadata) > _MOST_DEPTH:
        raise InvalidInputError(
            f"the metadata of {where} is nested more than {_MOST_DEPTH} deep; expected lists and "
            "mappings of fewer levels"
        )
    try:
        text = json.dumps(dict(metadata), ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInputError(
            f"the metadata of {where} cannot be JSON: {error}; expected texts, finite numbers, "
            "booleans, null, lists and mappings of them"
        ) from error
    return check_text(text, f"the metadata of {where}")

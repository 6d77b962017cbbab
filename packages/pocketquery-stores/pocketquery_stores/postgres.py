"""An index's documents in Postgres with pgvector: what changed is written, in one transaction.

Beside the documents' table stands a manifest, a row for each table: the space of its vectors,
without which they mean nothing. A digest of each document, kept in its row, tells what changed.
Who reads meanwhile sees the old state until the new one is complete, and a sync that is killed
changes nothing.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import numpy as np

from pocketquery.sdk.arrays import Floats, Rows
from pocketquery.sdk.bundle.signature import Key
from pocketquery.sdk.errors import (
    InvalidInputError,
    MissingExtraError,
    PocketQueryError,
    SpaceMismatchError,
)
from pocketquery.sdk.index.documents import Document, metadata_text
from pocketquery.sdk.slices.source import IndexState, read_source
from pocketquery_stores.sync import FOLDER, SyncReport, document_digest

if TYPE_CHECKING:
    from psycopg import Connection
    from psycopg.sql import Composable

__all__ = ["MANIFEST", "VectorType", "sync_postgres"]

VectorType: TypeAlias = Literal["halfvec", "vector"]
MANIFEST = "pocketquery_spaces"
_NAME = re.compile(r"[a-z_][a-z0-9_]{0,62}(\.[a-z_][a-z0-9_]{0,62})?")
_MOST_DIMENSIONS = 16_000  # of pgvector
_ESCAPED_ZERO = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")  # in JSON; a backslash is escaped, too
_COPY_HEAD = b"PGCOPY\n\xff\r\n\x00" + bytes(8)
_COPY_END = b"\xff\xff"


def sync_postgres(
    index: Path | str,
    database: str,
    *,
    table: str = "documents",
    vector_type: VectorType = "halfvec",
    public_key: Key | None = None,
) -> SyncReport:
    """Make ``table`` hold the documents of ``index``: what is new or changed is written, what the
    index has no more goes (the package's extra "postgres").

    The table has the columns ``id`` (text, the key), ``text``, ``metadata`` (jsonb), ``vector`` and
    ``digest``; it is made where it is not there, as is the extension ``vector``. Columns that you
    add, say a generated ``tsvector``, are left to the database. The row of
    ``pocketquery_spaces`` whose ``table_name`` is ``table`` has ``space_id``, ``dimension``,
    ``vector_type`` and ``documents``.

    Args:
        index: the index's folder; it is read whole.
        database: as libpq has it: ``postgresql://user@host/name``, or ``host=... dbname=...``.
        table: lower-case letters, digits and ``_``; a schema and a dot may go before it.
        vector_type: "halfvec" (2 bytes a value; pgvector 0.7) or "vector" (4 bytes).
        public_key: the index must be signed by its private half.

    Raises:
        SpaceMismatchError: the table's vectors are of another space.
        InvalidInputError: a name or type that cannot be used; the table has other vectors; a
            document holds U+0000, which no text of Postgres may.
        MissingExtraError: psycopg is not installed.
        PocketQueryError: the database cannot be reached or written, or has no pgvector.
        ArtifactNotFoundError, CorruptArtifactError, UnsupportedVersionError, SignatureError: the
            index cannot be used.
    """
    if vector_type not in get_args(VectorType):
        raise InvalidInputError(f"the type is {vector_type!r}, expected halfvec or vector")
    if not _NAME.fullmatch(table):
        raise InvalidInputError(
            f"the table is {table!r}; expected lower-case letters, digits and _, say documents or "
            "search.documents"
        )
    try:
        import psycopg
    except ImportError as error:  # or its libpq is missing
        raise MissingExtraError.of("psycopg", f"{FOLDER}[postgres]") from error
    with read_source(index, public_key) as source:
        if source.info.dimension > _MOST_DIMENSIONS:
            raise InvalidInputError(
                f"the vectors have {source.info.dimension} dimensions, expected at most "
                f"{_MOST_DIMENSIONS}, which is pgvector's limit"
            )
        try:
            with psycopg.connect(database) as connection:  # commits, or takes everything back
                return _Sync(connection, source, table, vector_type).run()
        except psycopg.Error as error:
            raise PocketQueryError(
                f"the database cannot be used: {str(error).strip()}; nothing was changed"
            ) from error


class _Sync:
    """One transaction."""

    def __init__(
        self, connection: Connection, source: IndexState, table: str, vector_type: VectorType
    ) -> None:
        from psycopg import sql

        self._connection = connection
        self._source = source
        self._table = table
        self._type = vector_type
        dimension = source.info.dimension
        schema = table.split(".")[:-1]
        self._names: dict[str, Composable] = {
            "table": sql.Identifier(*table.split(".")),
            "manifest": sql.Identifier(*schema, MANIFEST),
            "type": sql.SQL(f"{vector_type}({dimension})"),
            "extension": sql.SQL("vector"),
        }

    def run(self) -> SyncReport:
        """Compare, delete, write."""
        self._prepare()
        rows, removed = self._compared()
        before = self._count()
        self._write(rows)
        after = self._count()
        info = self._source.info
        self._do("UPDATE {manifest} SET documents = %s WHERE table_name = %s", (after, self._table))
        return SyncReport(
            table=self._table,
            documents=after,
            added=after - before,
            changed=len(rows) - (after - before),
            removed=removed,
            space_id=info.space_id,
            dimension=info.dimension,
        )

    def _do(self, text: str, values: tuple[object, ...] = ()) -> Any:
        from psycopg import sql

        return self._connection.execute(sql.SQL(text).format(**self._names), values)

    def _count(self) -> int:
        return int(self._do("SELECT count(*) FROM {table}").fetchone()[0])

    def _prepare(self) -> None:
        """Extension, tables and the manifest's row, compared with ours where they are there."""
        if self._do("SELECT to_regtype(%s)", (self._type,)).fetchone()[0] is None:
            self._do("CREATE EXTENSION IF NOT EXISTS {extension}")
        self._do(
            "CREATE TABLE IF NOT EXISTS {manifest} (table_name text PRIMARY KEY, space_id text "
            "NOT NULL, dimension integer NOT NULL, vector_type text NOT NULL, documents bigint NOT "
            "NULL)"
        )
        self._do("LOCK TABLE {manifest} IN SHARE ROW EXCLUSIVE MODE")  # one sync at a time
        info = self._source.info
        ours = (info.space_id, info.dimension, self._type)
        row = self._do(
            "SELECT space_id, dimension, vector_type FROM {manifest} WHERE table_name = %s",
            (self._table,),
        ).fetchone()
        if row is None:
            self._do(
                "CREATE TABLE {table} (id text PRIMARY KEY, text text NOT NULL, metadata jsonb NOT "
                "NULL, vector {type} NOT NULL, digest bytea NOT NULL)"
            )
            self._do("INSERT INTO {manifest} VALUES (%s, %s, %s, %s, 0)", (self._table, *ours))
            return
        if row[0] != ours[0]:
            raise SpaceMismatchError.between(
                f"the table {self._table}", row[0], "the index", ours[0]
            )
        if tuple(row) != ours:
            raise InvalidInputError(
                f"the table {self._table} has {row[1]} dimensions as {row[2]}, and "
                f"{ours[1]} as {ours[2]} are asked for; name another table, or drop it and its row "
                f"of {MANIFEST}"
            )

    def _compared(self) -> tuple[Rows, int]:
        """The index's rows that are new or changed, and how many of the table's were deleted."""
        self._do(
            "CREATE TEMPORARY TABLE pocketquery_incoming (place bigint NOT NULL, id text PRIMARY "
            "KEY, digest bytea NOT NULL) ON COMMIT DROP"
        )
        with self._copying("pocketquery_incoming", ("place", "id", "digest")) as copy:
            for rows, documents, vectors in self._batches(self._source.placed()):
                for row, document, vector in zip(rows, documents, vectors, strict=True):
                    digest = self._digest(document, vector)
                    copy.write(_fields(struct.pack(">q", row), document.id.encode(), digest))
            copy.write(_COPY_END)
        self._do("ANALYZE pocketquery_incoming")
        removed = self._do(
            "DELETE FROM {table} WHERE NOT EXISTS (SELECT 1 FROM pocketquery_incoming AS incoming "
            "WHERE incoming.id = {table}.id)"
        ).rowcount
        differing = self._do(
            "SELECT incoming.place FROM pocketquery_incoming AS incoming LEFT JOIN {table} USING "
            "(id) WHERE {table}.digest IS DISTINCT FROM incoming.digest ORDER BY 1"
        ).fetchall()
        return np.array([place for (place,) in differing], np.int64), removed

    def _write(self, rows: Rows) -> None:
        """Put these rows of the index in the table, over those with their ids."""
        # By name, and no LIKE or *: the table may have further columns, which are not ours.
        self._do(
            "CREATE TEMPORARY TABLE pocketquery_new (id text, text text, metadata jsonb, vector "
            "{type}, digest bytea) ON COMMIT DROP"
        )
        columns = ("id", "text", "metadata", "vector", "digest")
        with self._copying("pocketquery_new", columns) as copy:
            for _, documents, vectors in self._batches(rows):
                for document, vector in zip(documents, vectors, strict=True):
                    copy.write(
                        _fields(
                            document.id.encode(),
                            document.text.encode(),
                            b"\x01" + metadata_text(document).encode(),  # jsonb's version
                            self._packed(vector),
                            self._digest(document, vector),
                        )
                    )
            copy.write(_COPY_END)
        self._do(
            "INSERT INTO {table} (id, text, metadata, vector, digest) SELECT id, text, metadata, "
            "vector, digest FROM pocketquery_new ON CONFLICT (id) DO UPDATE SET text = "
            "excluded.text, metadata = excluded.metadata, vector = excluded.vector, digest = "
            "excluded.digest"
        )

    def _copying(self, table: str, columns: tuple[str, ...]) -> Any:
        """psycopg's copy into a temporary table, its head written."""
        from contextlib import contextmanager

        @contextmanager
        def copying() -> Iterator[Any]:
            text = f"COPY {table} ({', '.join(columns)}) FROM STDIN (FORMAT BINARY)"
            with self._connection.cursor() as cursor, cursor.copy(text) as copy:
                copy.write(_COPY_HEAD)
                yield copy

        return copying()

    def _batches(self, rows: Rows) -> Iterator[tuple[list[int], list[Document], Floats]]:
        for some, documents, vectors in self._source.with_vectors(rows):
            for document in documents:
                metadata = metadata_text(document)
                if "\0" in document.id + document.text or _ESCAPED_ZERO.search(metadata):
                    raise InvalidInputError(
                        f"the document {document.id!r} holds U+0000, which Postgres does not "
                        "store; expected texts without it: change the document"
                    )
            yield some, documents, vectors

    def _packed(self, vector: Floats) -> bytes:
        """pgvector's binary form: int16 dimensions, int16 0, the values; all big-endian."""
        kind = ">f2" if self._type == "halfvec" else ">f4"
        return struct.pack(">hh", len(vector), 0) + vector.astype(kind).tobytes()

    def _digest(self, document: Document, vector: Floats) -> bytes:
        return document_digest(document, self._packed(vector))


def _fields(*values: bytes) -> bytes:
    """A row of Postgres's binary copy: int16 number of fields, then each after its int32 length."""
    packed = [struct.pack(">i", len(value)) + value for value in values]
    return struct.pack(">h", len(values)) + b"".join(packed)

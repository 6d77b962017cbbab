"""An index's rows: segments in the database, vectors beside it, one state at a time.

Every add makes segments, runs of rows whose vectors, postings and documents came together. The
database says how many rows there are and which file has their vectors, so its commit is the one
moment at which an index changes. Vector rows beyond are ignored, and overwritten by the next add.
"""

from __future__ import annotations

import hashlib
import re
import sqlite3
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from pocketquery.sdk.arrays import NDArray
from pocketquery.sdk.errors import CorruptArtifactError
from pocketquery.sdk.index.bm25 import (
    POSTINGS_TABLE,
    check_postings,
    insert_postings,
    renumber_postings,
    vocabulary_of,
    without_place,
)
from pocketquery.sdk.index.database import META, get_meta, get_numbers, set_meta, set_numbers
from pocketquery.sdk.index.documents import (
    DOCUMENT_TABLES,
    Document,
    check_tables,
    content,
    insert_documents,
)
from pocketquery.sdk.index.untrusted_file import Schema
from pocketquery.sdk.index.vector_file import (
    SCALE_BYTES,
    SUM_UNIT,
    Codes,
    append_vectors,
    create_vectors,
    sum_of,
    without_vectors,
)
from pocketquery.sdk.index.vectors import Vectors
from pocketquery.sdk.plain_files import close_to_others
from pocketquery.sdk.words import LANGUAGES, NONE, Vocabulary, analyzer_for

__all__ = [
    "MOST_LANGUAGE",
    "SCHEMA",
    "Snapshot",
    "append_segments",
    "compact_segments",
    "create_segments",
    "drop_segments",
    "generation_of",
    "is_vectors_name",
    "language_of",
    "load_snapshot",
    "next_generation",
    "row_count",
    "stray_files",
    "vectors_name",
    "verify_segments",
]

SCHEMA: Schema = {
    **META,
    **DOCUMENT_TABLES,
    **POSTINGS_TABLE,
    "segments": "CREATE TABLE segments (first_row INTEGER PRIMARY KEY, count INTEGER NOT NULL,"
    " lengths BLOB NOT NULL, vectors_sha256 TEXT NOT NULL)",
    # The files that documents were read from, for what updates the index; no search reads it.
    "files": "CREATE TABLE files (path TEXT PRIMARY KEY, size INTEGER NOT NULL,"
    " mtime_ns INTEGER NOT NULL, sha256 TEXT NOT NULL, ids TEXT NOT NULL) WITHOUT ROWID",
}
MOST_LANGUAGE = 32  # characters of a language's name
_VECTOR_SUM = "vector_sum"
_SEGMENT_DOCUMENTS = 1024  # documents in a segment: bounds the memory of analysing them
_LENGTH = np.dtype("<u4")
_NUMBER = "(?:0|[1-9][0-9]{0,17})"  # within 64 bits
_GENERATION = re.compile(_NUMBER)
_VECTORS = re.compile(rf"vectors-{_NUMBER}\.u8")  # a name in the folder, and no path


class Snapshot:
    """One committed state. What takes time in a large index is read when it is first asked for,
    over a connection that sees this state.

    Attributes:
        generation: counts the commits.
        analyzer: makes terms of texts in the index's language.
        vectors: the rows, deleted ones among them.
        mean: float64 (d,), the mean vector of all rows that have one, and of one more that is 0, so
            that a document which is alone stands out from it.
    """

    def __init__(
        self,
        generation: int,
        language: str,
        vectors: Vectors,
        vector_sum: NDArray[np.int64],
        deleted: int,
    ) -> None:
        self.generation = generation
        self.analyzer = analyzer_for(language)
        self.vectors = vectors
        self.mean = vector_sum[1:].astype(np.float64) * (SUM_UNIT / (float(vector_sum[0]) + 1))
        self._deleted = deleted
        self._alive: NDArray[np.bool_] | None = None
        self._lengths: NDArray[np.float32] | None = None
        self._vocabulary: Vocabulary | None = None

    def __len__(self) -> int:
        return len(self.vectors) - self._deleted

    def lengths(self, connection: sqlite3.Connection) -> NDArray[np.float32]:
        """float32 (n,), terms in each document."""
        if self._lengths is None:
            cursor = connection.execute("SELECT lengths FROM segments ORDER BY first_row")
            packed = b"".join([lengths for (lengths,) in cursor])
            self._lengths = np.frombuffer(packed, _LENGTH).astype(np.float32)
        return self._lengths

    def vocabulary(self, connection: sqlite3.Connection) -> Vocabulary:
        """Its terms."""
        if self._vocabulary is None:
            self._vocabulary = vocabulary_of(connection)
        return self._vocabulary

    def alive(self, connection: sqlite3.Connection) -> NDArray[np.bool_] | None:
        """bool (n,), False where a row is deleted; None where none is."""
        if self._alive is None and self._deleted:
            alive = np.ones(len(self.vectors), bool)
            alive[[row for (row,) in connection.execute("SELECT row FROM tombstones")]] = False
            self._alive = alive
        return self._alive


def create_segments(connection: sqlite3.Connection, folder: Path, dimension: int) -> None:
    """The vector file of an index of no rows."""
    set_meta(connection, "generation", "0")
    set_meta(connection, "language", "english")  # until texts say another
    _use_vectors(connection, folder, dimension, 0)
    set_numbers(connection, _VECTOR_SUM, np.zeros(dimension + 1, np.int64))


def generation_of(connection: sqlite3.Connection) -> int:
    """How many commits the index has seen.

    Raises:
        CorruptArtifactError: what stands there is no number of theirs.
    """
    stored = get_meta(connection, "generation")
    if not _GENERATION.fullmatch(stored):
        raise _damaged(f"the generation {stored[:40]!r}", "a number")
    return int(stored)


def language_of(connection: sqlite3.Connection) -> str:
    """The language of the texts.

    Raises:
        CorruptArtifactError: none that is known.
    """
    language = get_meta(connection, "language")
    if language != NONE and language not in LANGUAGES:
        raise _damaged(f"the language {language[:40]!r}", f"one of {NONE}, {', '.join(LANGUAGES)}")
    return language


def is_vectors_name(name: str) -> bool:
    """Whether a vector file of ours can have this name."""
    return _VECTORS.fullmatch(name) is not None


def vectors_name(connection: sqlite3.Connection) -> str:
    """The name of the vector file in the index's folder.

    Raises:
        CorruptArtifactError: it is no such name, and might lead elsewhere.
    """
    name = get_meta(connection, "vectors")
    if not is_vectors_name(name):
        raise _damaged(f"the vector file {name[:80]!r}", "a name such as 'vectors-0.u8'")
    return name


def load_snapshot(connection: sqlite3.Connection, folder: Path, dimension: int) -> Snapshot:
    """The state ``connection`` sees; open its vectors while the transaction holds them in place.

    Raises:
        ArtifactNotFoundError, CorruptArtifactError: the vectors do not fit the database.
    """
    count = 0
    # Neither function reads the lengths themselves, which are megabytes.
    for first_row, documents, kind, size in connection.execute(
        "SELECT first_row, count, typeof(lengths), length(lengths) FROM segments ORDER BY first_row"
    ):
        if (
            first_row != count
            or not isinstance(documents, int)
            or documents < 1
            or kind != "blob"
            or size != documents * _LENGTH.itemsize
        ):
            raise _damaged(f"a segment at row {first_row}", f"one at {count} with all its lengths")
        count += documents
    for table in ("documents", "texts", "tombstones"):
        low, high = connection.execute(
            f"SELECT (SELECT min(row) FROM {table}), (SELECT max(row) FROM {table})"
        ).fetchone()
        if low is not None and not 0 <= low <= high < count:
            raise _damaged(f"the rows {low} to {high} in {table}", f"rows from 0, below {count}")
    (deleted,) = connection.execute("SELECT count(*) FROM tombstones").fetchone()
    vectors = Vectors(folder / vectors_name(connection), dimension, count)
    language = language_of(connection)
    vector_sum = get_numbers(connection, _VECTOR_SUM, dimension + 1)
    if not 0 <= vector_sum[0] <= count:
        raise _damaged(f"a sum of {vector_sum[0]} vectors", f"one of at most {count}")
    return Snapshot(generation_of(connection), language, vectors, vector_sum, deleted)


def append_segments(
    connection: sqlite3.Connection,
    folder: Path,
    documents: Sequence[Document],
    codes: Codes,
) -> None:
    """Add checked ``documents`` with their vectors as the file has them, uint8 (n, d + 4).

    Those that say too little to have a place by meaning are stored without a vector, see
    :func:`~pocketquery.sdk.index.bm25.without_place`.
    """
    path, analyzer = folder / vectors_name(connection), analyzer_for(language_of(connection))
    if any(document.private for document in documents):
        close_to_others(folder)
    for start in range(0, len(documents), _SEGMENT_DOCUMENTS):
        some = documents[start : start + _SEGMENT_DOCUMENTS]
        rows = codes[start : start + _SEGMENT_DOCUMENTS]
        first_row = row_count(connection)
        insert_documents(connection, first_row, some)
        occurrences, lengths = analyzer.occurrences([content(document) for document in some])
        insert_postings(connection, first_row, occurrences)
        rows = without_vectors(rows, without_place(occurrences, lengths))
        append_vectors(path, first_row, rows)
        dimension = rows.shape[1] - SCALE_BYTES
        set_numbers(
            connection,
            _VECTOR_SUM,
            get_numbers(connection, _VECTOR_SUM, dimension + 1) + sum_of([rows], dimension, path),
        )
        _insert(connection, first_row, lengths, hashlib.sha256(rows.data).hexdigest())
    next_generation(connection)


def drop_segments(
    connection: sqlite3.Connection, folder: Path, dimension: int, first_row: int
) -> None:
    """Take back the segments from the one that begins at ``first_row`` on."""
    vectors = Vectors(folder / vectors_name(connection), dimension, row_count(connection))
    dropped = sum_of(vectors.blocks(first_row, len(vectors)), dimension, vectors.path)
    set_numbers(
        connection, _VECTOR_SUM, get_numbers(connection, _VECTOR_SUM, dimension + 1) - dropped
    )
    for table, column in (
        ("segments", "first_row"),
        ("postings", "first_row"),
        ("documents", "row"),
        ("texts", "row"),
        ("tombstones", "row"),
    ):
        connection.execute(f"DELETE FROM {table} WHERE {column} >= ?", (first_row,))
    next_generation(connection)


def compact_segments(connection: sqlite3.Connection, folder: Path, dimension: int) -> None:
    """Copy the rows that are alive into a new vector file and one segment, and renumber them.

    Raises:
        CorruptArtifactError: what would be copied is not what was written.
    """
    verify_segments(connection, folder, dimension)
    snapshot = load_snapshot(connection, folder, dimension)
    alive = snapshot.alive(connection)
    if alive is None:
        alive = np.ones(len(snapshot.vectors), bool)
    new_rows = np.where(alive, np.cumsum(alive) - 1, -1)
    next_generation(connection)
    path = _use_vectors(connection, folder, dimension, generation_of(connection))
    digest, vector_sum = _copy_rows(snapshot.vectors, alive, path)
    set_numbers(connection, _VECTOR_SUM, vector_sum)
    # In rising order a row moves to its own place or to one that was freed before.
    moves = [(int(new_rows[row]), int(row)) for row in np.flatnonzero(alive)]
    for table in ("documents", "texts"):
        connection.executemany(f"UPDATE {table} SET row = ? WHERE row = ?", moves)
    renumber_postings(connection, new_rows)
    lengths = snapshot.lengths(connection)[alive]
    connection.execute("DELETE FROM tombstones")
    connection.execute("DELETE FROM segments")
    if moves:
        _insert(connection, 0, lengths.astype(_LENGTH), digest)


def stray_files(connection: sqlite3.Connection, folder: Path) -> list[Path]:
    """Vector files that no state names, left by a compaction that was killed."""
    used = vectors_name(connection)
    return [
        path
        for path in sorted(folder.iterdir())
        if is_vectors_name(path.name) and path.name != used and not path.is_dir()
    ]


def verify_segments(connection: sqlite3.Connection, folder: Path, dimension: int) -> None:
    """Read every row: vectors against their hash, documents, postings against the lengths.

    Raises:
        CorruptArtifactError: names the file and the rows that were changed.
    """
    snapshot = load_snapshot(connection, folder, dimension)
    vectors = snapshot.vectors
    segments = connection.execute(
        "SELECT first_row, count, vectors_sha256 FROM segments ORDER BY first_row"
    ).fetchall()
    for first_row, count, expected in segments:
        digest = hashlib.sha256()
        for rows in vectors.blocks(first_row, first_row + count):
            digest.update(rows.data)
        if digest.hexdigest() != expected:
            raise CorruptArtifactError(
                f"{vectors.path} was changed after it was written: rows {first_row} to "
                f"{first_row + count - 1} have another SHA-256 than recorded; copy the index anew"
            )
    vector_sum = sum_of(vectors.blocks(0, len(vectors)), dimension, vectors.path)
    if not np.array_equal(vector_sum, get_numbers(connection, _VECTOR_SUM, dimension + 1)):
        raise _damaged("another sum of the vectors", "that of the vectors which are there")
    check_tables(connection, len(vectors))
    lengths = snapshot.lengths(connection)
    check_postings(connection, lengths, [first_row for first_row, _, _ in segments])


def row_count(connection: sqlite3.Connection) -> int:
    """Rows committed, deleted ones among them."""
    (count,) = connection.execute("SELECT coalesce(max(first_row + count), 0) FROM segments")
    return int(count[0])


def next_generation(connection: sqlite3.Connection) -> None:
    """Mark the state as changed, so that readers load it anew."""
    set_meta(connection, "generation", str(generation_of(connection) + 1))


def _use_vectors(
    connection: sqlite3.Connection, folder: Path, dimension: int, generation: int
) -> Path:
    """Begin a new vector file; it counts from this transaction's commit on."""
    path = folder / f"vectors-{generation}.u8"
    if path.is_dir() and not path.is_symlink():
        raise _damaged(f"a folder in the place of {path.name}", "a file or nothing")
    path.unlink(missing_ok=True)
    create_vectors(path, dimension)
    set_meta(connection, "vectors", path.name)
    return path


def _copy_rows(
    vectors: Vectors, alive: NDArray[np.bool_], path: Path
) -> tuple[str, NDArray[np.int64]]:
    """Write the alive rows to ``path`` in pieces; the SHA-256 and the sum of them all."""
    digest, written = hashlib.sha256(), 0
    vector_sum = np.zeros(vectors.dimension + 1, np.int64)
    start = 0
    for block in vectors.blocks(0, len(vectors)):
        rows = np.ascontiguousarray(block[alive[start : start + len(block)]])
        append_vectors(path, written, rows)
        digest.update(rows.data)
        vector_sum += sum_of([rows], vectors.dimension, path)
        start, written = start + len(block), written + len(rows)
    return digest.hexdigest(), vector_sum


def _insert(
    connection: sqlite3.Connection, first_row: int, lengths: NDArray[np.uint32], digest: str
) -> None:
    connection.execute(
        "INSERT INTO segments VALUES (?, ?, ?, ?)",
        (first_row, len(lengths), lengths.astype(_LENGTH).tobytes(), digest),
    )


def _damaged(found: str, expected: str) -> CorruptArtifactError:
    return CorruptArtifactError(
        f"the index's database has {found}, expected {expected}; copy the index anew or build it "
        "again"
    )

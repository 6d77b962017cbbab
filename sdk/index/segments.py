"""An index's rows: segments in the database, vectors beside it, one state at a time.

Every add makes segments, runs of rows whose vectors, postings and documents came together. The
database says how many rows there are and which file has their vectors, so its commit is the one
moment at which an index changes. Vector rows beyond are ignored, and overwritten by the next add.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

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
from pocketquery.sdk.index.database import (
    META,
    damaged,
    generation_of,
    get_numbers,
    is_vectors_name,
    language_of,
    next_generation,
    set_meta,
    set_numbers,
    vectors_name,
)
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
    Codes,
    Languages,
    append_vectors,
    create_vectors,
    means_of,
    merged_sums,
    sums_of,
    without_vectors,
)
from pocketquery.sdk.index.vectors import QueryVector, Vectors
from pocketquery.sdk.languages.scripts import language_number
from pocketquery.sdk.plain_files import close_to_others
from pocketquery.sdk.words import AUTO, Vocabulary, analyzer_for, detect_language

__all__ = [
    "SCHEMA",
    "Snapshot",
    "append_segments",
    "compact_segments",
    "create_segments",
    "drop_segments",
    "load_snapshot",
    "row_count",
    "stray_files",
    "verify_segments",
]

SCHEMA: Schema = {
    **META,
    **DOCUMENT_TABLES,
    **POSTINGS_TABLE,
    "segments": "CREATE TABLE segments (first_row INTEGER PRIMARY KEY, count INTEGER NOT NULL,"
    " lengths BLOB NOT NULL, languages BLOB NOT NULL, vectors_sha256 TEXT NOT NULL)",
    # The files that documents were read from, for what updates the index; no search reads it.
    "files": "CREATE TABLE files (path TEXT PRIMARY KEY, size INTEGER NOT NULL,"
    " mtime_ns INTEGER NOT NULL, sha256 TEXT NOT NULL, ids TEXT NOT NULL) WITHOUT ROWID",
}
_VECTOR_SUM = "vector_sum"
_SEGMENT_DOCUMENTS = 1024  # documents in a segment: bounds the memory of analysing them
_LENGTH = np.dtype("<u4")
_LANGUAGE = np.dtype("<u2")
_NUMBERS = 1 << 16  # that a language can have


class Snapshot:
    """One committed state. What takes time in a large index is read when it is first asked for,
    over a connection that sees this state.

    Attributes:
        generation: counts the commits.
        analyzer: makes terms of texts in the index's language.
        vectors: the rows, deleted ones among them.
        mean: of the vectors, see :func:`~pocketquery.sdk.index.vector_file.means_of`.
    """

    def __init__(
        self,
        generation: int,
        language: str,
        vectors: Vectors,
        sums: NDArray[np.int64],
        deleted: int,
    ) -> None:
        self.generation = generation
        self.analyzer = analyzer_for("english" if language == AUTO else language)
        self.vectors = vectors
        self.mean, self._apart = means_of(sums)
        self._numbers = sums[sums[:, 0] > 0, 0]
        self._deleted = deleted
        self._alive: NDArray[np.bool_] | None = None
        self._lengths: NDArray[np.float32] | None = None
        self._languages: Languages | None = None
        self._vocabulary: Vocabulary | None = None

    def __len__(self) -> int:
        return len(self.vectors) - self._deleted

    def lengths(self, connection: sqlite3.Connection) -> NDArray[np.float32]:
        """float32 (n,), terms in each document."""
        if self._lengths is None:
            self._lengths = _of_rows(connection, "lengths", _LENGTH).astype(np.float32)
        return self._lengths

    def languages(self, connection: sqlite3.Connection, query: QueryVector) -> Languages | None:
        """Its languages, as ``query`` sees them; None where no two are named."""
        if (count := len(self._numbers)) < 2:
            return None
        if self._languages is None:
            places = np.full(_NUMBERS, count)
            places[self._numbers] = np.arange(count)
            of_rows = places[_of_rows(connection, "languages", _LANGUAGE)]
            counts = np.bincount(of_rows, minlength=count)[:count, None].astype(np.float64)
            self._languages = Languages(of_rows, counts, self._apart)
        return self._languages._replace(apart=query.cosine(self._apart))

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
    set_meta(connection, "language", AUTO)
    _use_vectors(connection, folder, dimension, 0)
    set_numbers(connection, _VECTOR_SUM, np.zeros((0, dimension + 2), np.int64))


def load_snapshot(connection: sqlite3.Connection, folder: Path, dimension: int) -> Snapshot:
    """The state ``connection`` sees; open its vectors while the transaction holds them in place.

    Raises:
        ArtifactNotFoundError, CorruptArtifactError: the vectors do not fit the database.
    """
    count = 0
    # Neither function reads the lengths themselves, which are megabytes.
    for first_row, documents, *found in connection.execute(
        "SELECT first_row, count, typeof(lengths), length(lengths), typeof(languages),"
        " length(languages) FROM segments ORDER BY first_row"
    ):
        if (
            first_row != count
            or not isinstance(documents, int)
            or documents < 1
            or found[::2] != ["blob", "blob"]
            or found[1::2] != [documents * _LENGTH.itemsize, documents * _LANGUAGE.itemsize]
        ):
            raise damaged(f"a segment at row {first_row}", f"one at {count} with all its numbers")
        count += documents
    for table in ("documents", "texts", "tombstones"):
        low, high = connection.execute(
            f"SELECT (SELECT min(row) FROM {table}), (SELECT max(row) FROM {table})"
        ).fetchone()
        if low is not None and not 0 <= low <= high < count:
            raise damaged(f"the rows {low} to {high} in {table}", f"rows from 0, below {count}")
    (deleted,) = connection.execute("SELECT count(*) FROM tombstones").fetchone()
    vectors = Vectors(folder / vectors_name(connection), dimension, count)
    language = language_of(connection)
    sums = get_numbers(connection, _VECTOR_SUM, dimension + 2)
    numbers, counts = [-1, *sums[:, 0].tolist(), _NUMBERS], sums[:, 1].tolist()
    if sorted(set(numbers)) != numbers or min(counts, default=1) < 1 or sum(counts) > count:
        raise damaged(f"sums of {counts[:10]} vectors", f"of each language some, at most {count}")
    return Snapshot(generation_of(connection), language, vectors, sums, deleted)


def append_segments(
    connection: sqlite3.Connection, folder: Path, documents: Sequence[Document], codes: Codes
) -> None:
    """Add checked ``documents`` with their vectors as the file has them, uint8 (n, d + 4).

    The first ones give the index its language, where it was not chosen.

    Those that say too little to have a place by meaning are stored without a vector, see
    :func:`~pocketquery.sdk.index.bm25.without_place`.
    """
    path, language = folder / vectors_name(connection), language_of(connection)
    if language == AUTO:
        language = detect_language(content(document) for document in documents)
        set_meta(connection, "language", language if documents else AUTO)
    analyzer = analyzer_for(language)
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
        languages = np.array([language_number(one.metadata) for one in some], _LANGUAGE)
        _add_sums(connection, sums_of([rows], languages, rows.shape[1] - SCALE_BYTES, path))
        _insert(connection, first_row, lengths, languages, hashlib.sha256(rows.data).hexdigest())
    next_generation(connection)


def drop_segments(
    connection: sqlite3.Connection, folder: Path, dimension: int, first_row: int
) -> None:
    """Take back the segments from the one that begins at ``first_row`` on."""
    vectors = Vectors(folder / vectors_name(connection), dimension, row_count(connection))
    languages = _of_rows(connection, "languages", _LANGUAGE)[first_row:]
    dropped = sums_of(vectors.blocks(first_row, len(vectors)), languages, dimension, vectors.path)
    dropped[:, 1:] *= -1
    _add_sums(connection, dropped)
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
    digest = _copy_rows(snapshot.vectors, alive, path)
    languages = _of_rows(connection, "languages", _LANGUAGE)[alive]
    copied = Vectors(path, dimension, len(languages))
    sums = sums_of(copied.blocks(0, len(copied)), languages, dimension, path)
    set_numbers(connection, _VECTOR_SUM, sums)
    # In rising order a row moves to its own place or to one that was freed before.
    moves = [(int(new_rows[row]), int(row)) for row in np.flatnonzero(alive)]
    for table in ("documents", "texts"):
        connection.executemany(f"UPDATE {table} SET row = ? WHERE row = ?", moves)
    renumber_postings(connection, new_rows)
    lengths = snapshot.lengths(connection)[alive]
    connection.execute("DELETE FROM tombstones")
    connection.execute("DELETE FROM segments")
    if moves:
        _insert(connection, 0, lengths.astype(_LENGTH), languages, digest)


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
    languages = _of_rows(connection, "languages", _LANGUAGE)
    sums = sums_of(vectors.blocks(0, len(vectors)), languages, dimension, vectors.path)
    if not np.array_equal(sums, get_numbers(connection, _VECTOR_SUM, dimension + 2)):
        raise damaged("other sums of the vectors", "those of the vectors which are there")
    alive = snapshot.alive(connection)
    check_tables(connection, len(vectors), languages if alive is None else languages[alive])
    lengths = snapshot.lengths(connection)
    check_postings(connection, lengths, [first_row for first_row, _, _ in segments])


def row_count(connection: sqlite3.Connection) -> int:
    """Rows committed, deleted ones among them."""
    (count,) = connection.execute("SELECT coalesce(max(first_row + count), 0) FROM segments")
    return int(count[0])


def _use_vectors(
    connection: sqlite3.Connection, folder: Path, dimension: int, generation: int
) -> Path:
    """Begin a new vector file; it counts from this transaction's commit on."""
    path = folder / f"vectors-{generation}.u8"
    if path.is_dir() and not path.is_symlink():
        raise damaged(f"a folder in the place of {path.name}", "a file or nothing")
    path.unlink(missing_ok=True)
    create_vectors(path, dimension)
    set_meta(connection, "vectors", path.name)
    return path


def _copy_rows(vectors: Vectors, alive: NDArray[np.bool_], path: Path) -> str:
    """Write the alive rows to ``path`` in pieces; the SHA-256 of them all."""
    digest, written, start = hashlib.sha256(), 0, 0
    for block in vectors.blocks(0, len(vectors)):
        rows = np.ascontiguousarray(block[alive[start : start + len(block)]])
        append_vectors(path, written, rows)
        digest.update(rows.data)
        start, written = start + len(block), written + len(rows)
    return digest.hexdigest()


def _insert(
    connection: sqlite3.Connection,
    first_row: int,
    lengths: NDArray[np.uint32],
    languages: NDArray[np.uint16],
    digest: str,
) -> None:
    packed = lengths.astype(_LENGTH).tobytes(), languages.tobytes()
    connection.execute(
        "INSERT INTO segments VALUES (?, ?, ?, ?, ?)", (first_row, len(lengths), *packed, digest)
    )


def _of_rows(connection: sqlite3.Connection, column: str, dtype: np.dtype[Any]) -> NDArray[Any]:
    """A column of the segments, of all rows, (n,)."""
    cursor = connection.execute(f"SELECT {column} FROM segments ORDER BY first_row")
    return np.frombuffer(b"".join([packed for (packed,) in cursor]), dtype)


def _add_sums(connection: sqlite3.Connection, more: NDArray[np.int64]) -> None:
    sums = get_numbers(connection, _VECTOR_SUM, more.shape[1])
    set_numbers(connection, _VECTOR_SUM, merged_sums(sums, more))

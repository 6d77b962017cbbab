"""An index's rows: segments in the database, vectors beside it, one state at a time.

Every add makes segments, runs of rows whose vectors, postings and documents came together. The
database says how many rows there are and in which file their vectors lie, so its commit is the one
moment at which an index changes; vector rows beyond are ignored, and overwritten by the next add.
"""

from __future__ import annotations

import hashlib
import re
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pocketquery.sdk.errors import CorruptArtifactError
from pocketquery.sdk.index.analysis import Analyzer
from pocketquery.sdk.index.bm25 import (
    POSTINGS_TABLE,
    check_postings,
    document_lengths,
    insert_postings,
    renumber_postings,
)
from pocketquery.sdk.index.database import META, get_meta, set_meta
from pocketquery.sdk.index.documents import (
    DOCUMENT_TABLES,
    Document,
    check_tables,
    content,
    insert_documents,
)
from pocketquery.sdk.index.untrusted_file import Schema
from pocketquery.sdk.index.vectors import Vectors, append_vectors, create_vectors, quantize

__all__ = [
    "SCHEMA",
    "Snapshot",
    "append_segments",
    "compact_segments",
    "create_segments",
    "drop_segments",
    "generation_of",
    "is_vectors_name",
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
    "segments": [
        "CREATE TABLE segments (first_row INTEGER PRIMARY KEY, count INTEGER NOT NULL,"
        " lengths BLOB NOT NULL, vectors_sha256 TEXT NOT NULL)"
    ],
}
_AT_A_TIME = 1024  # documents in a segment: bounds the memory of analysing them
_LENGTH = np.dtype("<u4")
_NUMBER = "(?:0|[1-9][0-9]{0,17})"  # within 64 bits
_GENERATION = re.compile(_NUMBER)
_VECTORS = re.compile(rf"vectors-{_NUMBER}\.u8")  # a name in the folder, and no path


@dataclass(frozen=True)
class Snapshot:
    """One committed state.

    Attributes:
        generation: counts the commits.
        vectors: the rows, deleted ones among them.
        lengths: float32 (n,), terms in each document.
        alive: bool (n,), False where a row is deleted; None where none is.
    """

    generation: int
    vectors: Vectors
    lengths: NDArray[np.float32]
    alive: NDArray[np.bool_] | None

    def __len__(self) -> int:
        return len(self.vectors) if self.alive is None else int(self.alive.sum())


def create_segments(connection: sqlite3.Connection, folder: Path, dimension: int) -> None:
    """The vector file of an index of no rows."""
    set_meta(connection, "generation", "0")
    _use_vectors(connection, folder, dimension, 0)


def generation_of(connection: sqlite3.Connection) -> int:
    """How many commits the index has seen.

    Raises:
        CorruptArtifactError: what stands there is no number of theirs.
    """
    found = get_meta(connection, "generation")
    if not _GENERATION.fullmatch(found):
        raise _damaged(f"the generation {found[:40]!r}", "a number")
    return int(found)


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
    packed, count = [], 0
    for first_row, documents, lengths in connection.execute(
        "SELECT first_row, count, lengths FROM segments ORDER BY first_row"
    ):
        if (
            first_row != count
            or not isinstance(documents, int)
            or documents < 1
            or not isinstance(lengths, bytes)
            or len(lengths) != documents * _LENGTH.itemsize
        ):
            raise _damaged(f"a segment at row {first_row}", f"one at {count} with all its lengths")
        packed.append(lengths)
        count += documents
    for table in ("documents", "texts", "tombstones"):
        low, high = connection.execute(
            f"SELECT (SELECT min(row) FROM {table}), (SELECT max(row) FROM {table})"
        ).fetchone()
        if low is not None and not 0 <= low <= high < count:
            raise _damaged(f"the rows {low} to {high} in {table}", f"rows from 0, below {count}")
    return Snapshot(
        generation=generation_of(connection),
        vectors=Vectors(folder / vectors_name(connection), dimension, count),
        lengths=np.frombuffer(b"".join(packed), _LENGTH).astype(np.float32),
        alive=_alive(connection, count),
    )


def append_segments(
    connection: sqlite3.Connection,
    folder: Path,
    analyzer: Analyzer,
    documents: Sequence[Document],
    vectors: NDArray[np.float32],
) -> None:
    """Add checked ``documents`` with their unit ``vectors``, float32 (n, d)."""
    path = folder / vectors_name(connection)
    for start in range(0, len(documents), _AT_A_TIME):
        some = documents[start : start + _AT_A_TIME]
        rows = quantize(vectors[start : start + _AT_A_TIME])
        first_row = row_count(connection)
        insert_documents(connection, first_row, some)
        append_vectors(path, first_row, rows)
        occurrences = analyzer.occurrences([content(document) for document in some])
        insert_postings(connection, first_row, occurrences)
        lengths = document_lengths(occurrences, len(some))
        _insert(connection, first_row, lengths, hashlib.sha256(rows.data).hexdigest())
    next_generation(connection)


def drop_segments(connection: sqlite3.Connection, first_row: int) -> None:
    """Take back the segments from the one that begins at ``first_row`` on."""
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
    alive = np.ones(len(snapshot.vectors), bool) if snapshot.alive is None else snapshot.alive
    new_rows = np.where(alive, np.cumsum(alive) - 1, -1)
    next_generation(connection)
    path = _use_vectors(connection, folder, dimension, generation_of(connection))
    digest = _copy_rows(snapshot.vectors, alive, path)
    # In rising order a row moves to its own place or to one that was freed before.
    moves = [(int(new_rows[row]), int(row)) for row in np.flatnonzero(alive)]
    for table in ("documents", "texts"):
        connection.executemany(f"UPDATE {table} SET row = ? WHERE row = ?", moves)
    renumber_postings(connection, new_rows)
    connection.execute("DELETE FROM tombstones")
    connection.execute("DELETE FROM segments")
    if moves:
        _insert(connection, 0, snapshot.lengths[alive].astype(_LENGTH), digest)


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
    vectors.check_scales()
    check_tables(connection, len(vectors))
    check_postings(connection, snapshot.lengths, [first_row for first_row, _, _ in segments])


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


def _copy_rows(vectors: Vectors, alive: NDArray[np.bool_], path: Path) -> str:
    """Write the alive rows to ``path`` in pieces; the SHA-256 of them all."""
    digest, written = hashlib.sha256(), 0
    start = 0
    for block in vectors.blocks(0, len(vectors)):
        rows = np.ascontiguousarray(block[alive[start : start + len(block)]])
        append_vectors(path, written, rows)
        digest.update(rows.data)
        start, written = start + len(block), written + len(rows)
    return digest.hexdigest()


def _insert(
    connection: sqlite3.Connection, first_row: int, lengths: NDArray[np.uint32], digest: str
) -> None:
    connection.execute(
        "INSERT INTO segments VALUES (?, ?, ?, ?)",
        (first_row, len(lengths), lengths.astype(_LENGTH).tobytes(), digest),
    )


def _alive(connection: sqlite3.Connection, count: int) -> NDArray[np.bool_] | None:
    rows = [row for (row,) in connection.execute("SELECT row FROM tombstones")]
    if not rows:
        return None
    alive = np.ones(count, bool)
    alive[rows] = False
    return alive


def _damaged(found: str, expected: str) -> CorruptArtifactError:
    return CorruptArtifactError(
        f"the index's database has {found}, expected {expected}; copy the index anew or build it "
        "again"
    )

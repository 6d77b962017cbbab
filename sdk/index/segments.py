"""An index's rows: segments in the database, vectors beside it, one state at a time.

Every add makes segments, runs of rows whose vectors, postings and documents came together. The
database says how many rows there are and in which file their vectors lie, so its commit is the one
moment at which an index changes; vector rows beyond are ignored, and overwritten by the next add.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pocketquery.sdk.errors import CorruptArtifactError
from pocketquery.sdk.index.analysis import Analyzer
from pocketquery.sdk.index.bm25 import (
    create_postings,
    document_lengths,
    insert_postings,
    renumber_postings,
)
from pocketquery.sdk.index.database import get_meta, set_meta
from pocketquery.sdk.index.documents import Document, content, create_tables, insert_documents
from pocketquery.sdk.index.vectors import Vectors, append_vectors, create_vectors, quantize

__all__ = [
    "Snapshot",
    "append_segments",
    "compact_segments",
    "create_segments",
    "drop_segments",
    "generation_of",
    "load_snapshot",
    "next_generation",
    "row_count",
    "stray_files",
    "verify_segments",
]

_AT_A_TIME = 1024  # documents in a segment: bounds the memory of analysing them
_LENGTH = np.dtype("<u4")


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
    """The tables and the vector file of an index of no rows."""
    create_tables(connection)
    create_postings(connection)
    connection.execute(
        "CREATE TABLE segments (first_row INTEGER PRIMARY KEY, count INTEGER NOT NULL,"
        " lengths BLOB NOT NULL, vectors_sha256 TEXT NOT NULL)"
    )
    set_meta(connection, "generation", "0")
    _use_vectors(connection, folder, dimension, 0)


def generation_of(connection: sqlite3.Connection) -> int:
    """How many commits the index has seen."""
    return int(get_meta(connection, "generation"))


def load_snapshot(connection: sqlite3.Connection, folder: Path, dimension: int) -> Snapshot:
    """The state ``connection`` sees; open its vectors while the transaction holds them in place.

    Raises:
        ArtifactNotFoundError, CorruptArtifactError: the vectors do not fit the database.
    """
    lengths = [
        np.frombuffer(blob, _LENGTH)
        for (blob,) in connection.execute("SELECT lengths FROM segments ORDER BY first_row")
    ]
    count = row_count(connection)
    joined = np.concatenate([np.zeros(0, _LENGTH), *lengths]).astype(np.float32)
    if len(joined) != count:
        raise CorruptArtifactError(
            f"{folder} has {len(joined)} document lengths for {count} rows; copy the index anew"
        )
    return Snapshot(
        generation=generation_of(connection),
        vectors=Vectors(folder / get_meta(connection, "vectors"), dimension, count),
        lengths=joined,
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
    path = folder / get_meta(connection, "vectors")
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
    """Copy the rows that are alive into a new vector file and one segment, and renumber them."""
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
    used = get_meta(connection, "vectors")
    return [path for path in sorted(folder.glob("vectors*.u8")) if path.name != used]


def verify_segments(connection: sqlite3.Connection, folder: Path, dimension: int) -> None:
    """Compare every segment's vectors with their hash.

    Raises:
        CorruptArtifactError: names the file and the rows that were changed.
    """
    vectors = load_snapshot(connection, folder, dimension).vectors
    for first_row, count, expected in connection.execute(
        "SELECT first_row, count, vectors_sha256 FROM segments ORDER BY first_row"
    ):
        digest = hashlib.sha256()
        for rows in vectors.blocks(first_row, first_row + count):
            digest.update(rows.data)
        if digest.hexdigest() != expected:
            raise CorruptArtifactError(
                f"{vectors.path} was changed after it was written: rows {first_row} to "
                f"{first_row + count - 1} have another SHA-256 than recorded; copy the index anew"
            )


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
    deleted: Iterable[tuple[int]] = connection.execute("SELECT row FROM tombstones")
    rows = [row for (row,) in deleted]
    if not rows:
        return None
    alive = np.ones(count, bool)
    alive[rows] = False
    return alive

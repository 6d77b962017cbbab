"""The hash of what an index holds, whatever its files look like.

SQLite lays the same rows out in other pages from release to release, so the hash of a file says
whether it is the very file, and not whether two indexes answer alike. This one is over everything a
search reads (documents in their order, vectors, lengths, postings) and nothing of how it is stored:
neither pages nor segments. docs/formats/search-index.md has it byte by byte.
"""

from __future__ import annotations

import hashlib
import sqlite3
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from pocketquery.sdk.errors import InvalidInputError
from pocketquery.sdk.index.bm25 import postings_by_term
from pocketquery.sdk.index.database import damaged, get_meta
from pocketquery.sdk.index.segments import load_snapshot

__all__ = ["StoredTexts", "contents_sha256", "packed_texts", "stored_texts"]

_VERSION = b"pocketquery-contents-2\n"
_LENGTH = struct.Struct("<I")


class StoredTexts(NamedTuple):
    """The texts of a row, to the letter."""

    id: str
    metadata: str
    text: str


def contents_sha256(connection: sqlite3.Connection, folder: Path, dimension: int) -> str:
    """64 hexadecimal digits.

    Args:
        connection: on one state.
        folder: where its vectors lie.
        dimension: of the vectors.

    Raises:
        InvalidInputError: the index has deleted documents, whose terms still count.
        CorruptArtifactError: it holds something that no index has.
    """
    snapshot = load_snapshot(connection, folder, dimension)
    count = len(snapshot.vectors)
    if len(snapshot) != count:
        raise InvalidInputError(
            f"{folder} has {count - len(snapshot)} deleted documents, whose terms count until it "
            "is compacted; expected none. Call compact() on it first"
        )
    digest = hashlib.sha256(_VERSION)
    digest.update(packed_texts(get_meta(connection, "space"), get_meta(connection, "language")))
    digest.update(_LENGTH.pack(count))
    for texts in stored_texts(connection, count):
        digest.update(packed_texts(*texts))
    for rows in snapshot.vectors.blocks(0, count):
        digest.update(rows.data)
    for column in ("lengths", "languages"):
        for (packed,) in connection.execute(f"SELECT {column} FROM segments ORDER BY first_row"):
            digest.update(packed)
    for term, numbers, counts in postings_by_term(connection, count):
        digest.update(packed_texts(term) + _LENGTH.pack(len(numbers)))
        digest.update(numbers.astype("<u4").tobytes() + counts.astype(np.dtype("<u2")).tobytes())
    return digest.hexdigest()


def packed_texts(*texts: str) -> bytes:
    """Each text as its length in bytes, u32, and its UTF-8."""
    encoded = [text.encode("utf-8") for text in texts]
    return b"".join(_LENGTH.pack(len(one)) + one for one in encoded)


def stored_texts(connection: sqlite3.Connection, count: int) -> Iterator[StoredTexts]:
    """The texts of the rows 0 to ``count`` - 1 of an index without deleted documents.

    Raises:
        CorruptArtifactError: a row lacks one, or has it as another thing than a text.
    """
    row = -1
    for row, (number, *texts) in enumerate(
        connection.execute(
            "SELECT row, id, metadata, text FROM documents JOIN texts USING (row) ORDER BY row"
        )
    ):
        if number != row or not all(isinstance(one, str) for one in texts):
            break
        yield StoredTexts(*texts)
    else:
        row += 1
    if row != count:
        raise damaged(f"no document of row {row}, or another thing there", f"{count} documents")

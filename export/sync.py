"""What keeping a server's documents in step with an index takes, whichever server it is."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator
from dataclasses import dataclass

from pocketquery.sdk.arrays import Floats, Rows
from pocketquery.sdk.index.documents import Document, metadata_text
from pocketquery.sdk.slices.source import IndexState

__all__ = ["SyncReport", "document_digest", "in_batches"]


@dataclass(frozen=True)
class SyncReport:
    """What a sync did.

    Attributes:
        table: of the documents; the collection's name, where the server has collections.
        documents: in it now.
        added, changed, removed: of these, and of those that were there.
        space_id: of the vectors.
        dimension: of the vectors.
    """

    table: str
    documents: int
    added: int
    changed: int
    removed: int
    space_id: str
    dimension: int


def in_batches(
    source: IndexState, rows: Rows, at_a_time: int = 1024
) -> Iterator[tuple[list[int], list[Document], Floats]]:
    """These rows of an index, with their documents and vectors, some at a time."""
    for start in range(0, len(rows), at_a_time):
        some = rows[start : start + at_a_time]
        documents, _ = source.read(some)
        yield some.tolist(), documents, source.floats(some)


def document_digest(document: Document, packed: bytes) -> bytes:
    """SHA-256 of all that is written of a document, 32 bytes: what tells that it changed.

    Args:
        document: with its texts and metadata.
        packed: its vector as the server has it.
    """
    digest = hashlib.sha256(packed)
    for part in (document.id, document.text, metadata_text(document)):
        data = part.encode()
        digest.update(struct.pack(">q", len(data)) + data)
    return digest.digest()

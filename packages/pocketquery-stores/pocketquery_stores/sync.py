"""What keeping a server's documents in step with an index takes, whichever server it is."""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass

from pocketquery.sdk.index.documents import Document, metadata_text

__all__ = ["FOLDER", "SyncReport", "document_digest"]

FOLDER = "./packages/pocketquery-stores"
"""What pip installs, in a checkout."""


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

"""An index as slices and deltas read it: one committed state, found sound before it is copied."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from pocketquery.sdk.arrays import Floats, Rows
from pocketquery.sdk.bundle.signature import Key
from pocketquery.sdk.index.builder import COMMITTED_TOGETHER
from pocketquery.sdk.index.contents import StoredTexts, contents_sha256, stored_texts
from pocketquery.sdk.index.database import Connection, generation_of, get_meta
from pocketquery.sdk.index.delta_manifest import Contents
from pocketquery.sdk.index.documents import Document, documents_of_rows, stream_documents
from pocketquery.sdk.index.folder import check_whole
from pocketquery.sdk.index.index import open_index
from pocketquery.sdk.index.info import IndexInfo
from pocketquery.sdk.index.segments import Snapshot
from pocketquery.sdk.index.vector_file import Codes
from pocketquery.sdk.results.filters import compile_filter, matching_rows

__all__ = ["IndexState", "read_source", "state_of"]


class IndexState:
    """One state of an index, within a transaction; made by :func:`read_source`.

    Attributes:
        folder: the index's.
        info: what its ``index.json`` says.
        encoded_by: what made the vectors, where it is not the space's own encoder.
        state: which database file, which generation: what changes where somebody writes.
    """

    def __init__(
        self, folder: Path, connection: Connection, snapshot: Snapshot, info: IndexInfo
    ) -> None:
        self.folder = folder
        self.info = info
        self.encoded_by = get_meta(connection, "encoded_by", "")
        self.state = connection.file, generation_of(connection)
        self._connection = connection
        self._snapshot = snapshot

    def __len__(self) -> int:
        """Documents that can be found."""
        return len(self._snapshot)

    def living(self) -> Rows:
        """The rows whose documents can be found, rising."""
        alive = self._snapshot.alive(self._connection)
        return np.arange(len(self._snapshot.vectors)) if alive is None else np.flatnonzero(alive)

    def placed(self) -> Rows:
        """Those of :meth:`living` whose documents have a vector."""
        living = self.living()
        return living[self._snapshot.vectors.placed()[living]]

    def matching(self, filter: Mapping[str, Any]) -> Rows:
        """The rows that ``filter`` selects, rising.

        Raises:
            InvalidInputError: it is no filter.
        """
        count = len(self._snapshot.vectors)
        return np.flatnonzero(matching_rows(self._connection, compile_filter(filter), count))

    def documents(self) -> Iterator[tuple[int, Document]]:
        """Every document that can be found, with its row."""
        documents = stream_documents(self._connection, 0, len(self._snapshot.vectors))
        return zip(self.living().tolist(), documents, strict=True)

    def texts(self) -> Iterator[StoredTexts]:
        """The texts of every row, to the letter, where no document was deleted."""
        return stored_texts(self._connection, len(self._snapshot.vectors))

    def codes(self, rows: Rows) -> Codes:
        """The stored vectors of ``rows``, uint8 (m, d + 4)."""
        return self._snapshot.vectors.raw(rows)

    def floats(self, rows: Rows) -> Floats:
        """The stored vectors of ``rows``, float32 (m, d), of about length 1."""
        return self._snapshot.vectors.floats(rows)

    def read(self, rows: Rows) -> tuple[list[Document], Codes]:
        """The documents of ``rows``, in that order, and their vectors."""
        documents = documents_of_rows(self._connection, rows.tolist())
        return [documents[row] for row in rows.tolist()], self.codes(rows)

    def batches(self, rows: Rows) -> Iterator[tuple[list[Document], Codes]]:
        """The documents of ``rows``, as many at a time as a build adds."""
        for start in range(0, len(rows), COMMITTED_TOGETHER):
            yield self.read(rows[start : start + COMMITTED_TOGETHER])

    def with_vectors(
        self, rows: Rows, at_a_time: int = 1024
    ) -> Iterator[tuple[list[int], list[Document], Floats]]:
        """These rows with their documents and vectors, float32, some at a time."""
        for start in range(0, len(rows), at_a_time):
            some = rows[start : start + at_a_time]
            yield some.tolist(), self.read(some)[0], self.floats(some)

    def contents(self) -> Contents:
        """What it holds. Raises InvalidInputError where it has deleted documents."""
        sha256 = contents_sha256(self._connection, self.folder, self.info.dimension)
        return Contents(sha256, len(self))


@contextlib.contextmanager
def read_source(path: Path | str, public_key: Key | None = None) -> Iterator[IndexState]:
    """The present state of the index at ``path``, every byte of which was read and compared.

    Raises:
        ArtifactNotFoundError, CorruptArtifactError, UnsupportedVersionError: name the file.
        SignatureError: a key is given and the index is not signed by it.
    """
    with (
        open_index(path, public_key=public_key) as index,
        index.reading() as (connection, snapshot),
    ):
        yield IndexState(index.path, connection, snapshot, check_whole(connection, index.path))


def state_of(path: Path | str) -> tuple[object, int]:
    """The present state of the index at ``path``, as :attr:`Source.state`."""
    with open_index(path) as index, index.reading() as (connection, _):
        return connection.file, generation_of(connection)

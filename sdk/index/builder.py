"""Building an index beside its place, and putting it there in one step when it is complete.

The work lies in ``.<name>.building``. Every add is committed, so a build that is killed can be
taken up again (``resume=True``) where it was; what stands at ``path`` is untouched until the end.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from pocketquery.sdk.bundle.signature import SIGNATURE_FILE, Key, public_key_of
from pocketquery.sdk.errors import ArtifactError, InvalidInputError
from pocketquery.sdk.files import publish_folder, real_path, recover_folder
from pocketquery.sdk.index.analysis import Analyzer
from pocketquery.sdk.index.database import Database, get_meta, held, set_meta
from pocketquery.sdk.index.documents import (
    Document,
    check_document,
    has_document,
    stream_documents,
)
from pocketquery.sdk.index.folder import DATABASE, check_contents, seal, space_record
from pocketquery.sdk.index.segments import (
    SCHEMA,
    append_segments,
    create_segments,
    drop_segments,
    row_count,
    vectors_name,
)
from pocketquery.sdk.index.vectors import MOST_DIMENSIONS, unit_rows
from pocketquery.sdk.plain_files import check_own_file
from pocketquery.sdk.texts import check_text

__all__ = ["IndexBuilder", "check_rows", "create_index"]


def create_index(
    path: Path | str,
    *,
    space_id: str,
    dimension: int,
    resume: bool = False,
    encoded_by: str = "",
    signing_key: Key | None = None,
) -> IndexBuilder:
    """Begin to build an index; :meth:`IndexBuilder.close` publishes it at ``path``. ::

        with create_index("index", space_id=teacher.space_id, dimension=384) as builder:
            builder.add(documents, vectors)

    Args:
        path: the folder to be; an index that is there is replaced at the end.
        space_id: the space of the vectors.
        dimension: of the vectors.
        resume: keep what a build that was killed, or failed, had committed, and keep it again if
            this one fails; :meth:`IndexBuilder.stored` tells what is there.
        encoded_by: what makes the vectors, where it is not the encoder that the space is named
            after. A build that was killed is not resumed with another.
        signing_key: an Ed25519 private key to sign the index with when it is published: 32 raw
            bytes, 64 hexadecimal digits or a PEM file.

    Raises:
        InvalidInputError: the key is none; a dimension below 1, an empty space id, or ``path`` is
            a file.
        ArtifactError: another process is building the same index; the disk is full.
    """
    path = Path(path)
    if not 1 <= dimension <= MOST_DIMENSIONS or not check_text(space_id, "the space id"):
        raise InvalidInputError(
            f"the dimension is {dimension} and the space id {space_id!r}; expected 1 to "
            f"{MOST_DIMENSIONS} and the id of the encoder's space"
        )
    if path.exists() and not path.is_dir():
        raise InvalidInputError(f"{path} is a file; an index is a folder, choose another path")
    real_path(path).parent.mkdir(parents=True, exist_ok=True)
    recover_folder(path)
    if signing_key is not None:
        public_key_of(signing_key)  # now, and not when all is done
    return IndexBuilder(path, space_id, dimension, resume, encoded_by, signing_key)


class IndexBuilder:
    """An index in the making; made by :func:`create_index`. For one thread.

    Left through an error, or by :meth:`abandon`, nothing is published.
    """

    def __init__(
        self,
        path: Path,
        space_id: str,
        dimension: int,
        resume: bool,
        encoded_by: str = "",
        signing_key: Key | None = None,
    ) -> None:
        self.path = path
        self.space_id = space_id
        self.dimension = dimension
        self._keep = resume
        self._signing_key = signing_key
        real = real_path(path)
        self._folder = real.parent / f".{real.name}.building"
        self._analyzer = Analyzer()
        self._lock = _hold(self._folder)
        try:
            self._database = _begin(self._folder, space_id, dimension, resume, encoded_by)
        except BaseException:
            _let_go(self._lock)
            raise

    def __len__(self) -> int:
        """Documents committed."""
        with self._database.reading() as connection:
            return row_count(connection)

    def add(self, documents: Iterable[Document], vectors: NDArray[Any]) -> None:
        """Add documents with their vectors, float (n, dimension), and commit.

        Raises:
            InvalidInputError: an id that came before, a document or vector that cannot be used.
        """
        checked, rows = check_rows(documents, vectors, self.dimension)
        with self._database.writing() as connection:
            append_segments(connection, self._folder, self._analyzer, checked, rows)

    def known(self, ids: Iterable[str]) -> list[str]:
        """Those of ``ids`` that are committed."""
        with self._database.reading() as connection:
            return [one for one in ids if has_document(connection, check_text(one, "an id"))]

    def stored(self) -> Iterator[list[Document]]:
        """The committed documents, segment by segment, in their order."""
        with self._database.reading() as connection:
            segments = connection.execute(
                "SELECT first_row, count FROM segments ORDER BY first_row"
            ).fetchall()
        for first_row, count in segments:
            with self._database.reading() as connection:
                yield list(stream_documents(connection, first_row, first_row + count))

    def truncate(self, documents: int) -> None:
        """Take back the segments that begin at row ``documents`` or later."""
        with self._database.writing() as connection:
            drop_segments(connection, documents)

    def close(self) -> None:
        """Publish the index. Closing twice is harmless."""
        if self._database.closed:
            return
        try:
            (self._folder / SIGNATURE_FILE).unlink(missing_ok=True)  # of a build that failed
            seal(self._folder, self._database, signing_key=self._signing_key)
            self._database.close()
            with held(self.path / DATABASE):
                publish_folder(self._folder, self.path)
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Close without publishing; the work is kept only where the build may be resumed."""
        self._database.close()
        self._analyzer.close()
        if not self._keep:
            shutil.rmtree(self._folder, ignore_errors=True)
        _let_go(self._lock)
        self._lock = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            self.close()
        else:
            self.abandon()


def check_rows(
    documents: Iterable[Document], vectors: NDArray[Any], dimension: int
) -> tuple[list[Document], NDArray[np.float32]]:
    """Documents that can be stored and their vectors at length 1, float32 (n, dimension).

    Raises:
        InvalidInputError: another number of vectors, or the first document or vector that is bad.
    """
    if not isinstance(documents, Iterable):
        raise InvalidInputError(f"documents is a {type(documents).__name__}, expected a list")
    checked = list(documents)
    for position, document in enumerate(checked):
        check_document(document, f"documents[{position}]")
    empty = np.zeros((0, dimension), np.float32)
    rows = unit_rows(vectors, dimension, "vectors") if checked or np.size(vectors) else empty
    if len(checked) != len(rows):
        raise InvalidInputError(f"{len(checked)} documents came with {len(rows)} vectors")
    return checked, rows


def _begin(folder: Path, space_id: str, dimension: int, resume: bool, encoded_by: str) -> Database:
    space = space_record(space_id, dimension)
    if resume:
        with contextlib.suppress(ArtifactError):
            return _reopen(folder, space, dimension, encoded_by)
    for file in folder.iterdir():
        if file.is_dir() and not file.is_symlink():
            shutil.rmtree(file)
        else:
            file.unlink()
    database = Database(folder / DATABASE, writable=True, create=True, schema=SCHEMA)
    try:
        with database.writing() as connection:
            create_segments(connection, folder, dimension)
            set_meta(connection, "space", space)
            if encoded_by:
                set_meta(connection, "encoded_by", encoded_by)
    except BaseException:
        database.close()
        raise
    return database


def _reopen(folder: Path, space: str, dimension: int, encoded_by: str) -> Database:
    database = Database(folder / DATABASE, writable=True, schema=SCHEMA)
    try:
        with database.reading() as connection:
            if get_meta(connection, "space") != space:
                raise ArtifactError(f"{folder} was begun for another space")
            if get_meta(connection, "encoded_by", "") != encoded_by:
                raise ArtifactError(f"{folder} was begun with another encoder")
            check_own_file(folder / vectors_name(connection))
            check_contents(connection, folder, dimension)  # or the seal would call damage good
    except BaseException:
        database.close()
        raise
    return database


def _hold(folder: Path) -> int | None:
    """Make ``folder`` and keep other processes from building in it; a kill lets go."""
    if folder.is_symlink():  # what it leads to would be emptied
        raise ArtifactError(f"{folder} is a link, expected a folder of our own; remove it")
    folder.mkdir(exist_ok=True)
    if os.name == "nt":  # there a folder with open files cannot be renamed or emptied anyway
        return None
    import fcntl

    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(descriptor), folder.stat()):
            return descriptor
    except (BlockingIOError, FileNotFoundError):
        pass
    os.close(descriptor)  # held by another, or published by another just before
    raise ArtifactError(f"another process is building in {folder}; wait for it or end it")


def _let_go(descriptor: int | None) -> None:
    if descriptor is not None:
        os.close(descriptor)

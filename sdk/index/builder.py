"""Building an index beside its place, and putting it there in one step when it is complete.

The build is in ``.<name>.building``. Every add is committed, so a killed build can continue where
it was (``resume=True``). What is at ``path`` is untouched until the end.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

from pocketquery.sdk.arrays import NDArray
from pocketquery.sdk.bundle.manifest import SIGNATURE_FILE
from pocketquery.sdk.bundle.signature import Key, public_key_of
from pocketquery.sdk.errors import ArtifactError, InvalidInputError, SpaceMismatchError
from pocketquery.sdk.files import checked_path, make_folder, real_path, write_atomic
from pocketquery.sdk.folders import (
    building_folder,
    check_replaceable,
    hold_folder,
    publish_folder,
    recover_folder,
    release_folder,
)
from pocketquery.sdk.index.contents import contents_sha256
from pocketquery.sdk.index.database import Database, get_meta, held, set_meta, vectors_name
from pocketquery.sdk.index.delta_manifest import DELTA_FILE
from pocketquery.sdk.index.documents import (
    Document,
    as_documents,
    check_document,
    has_document,
    stream_documents,
)
from pocketquery.sdk.index.encoders import (
    QueryEncoder,
    check_encoder,
    encode_documents,
    encoder_name,
)
from pocketquery.sdk.index.folder import check_contents, seal, space_record
from pocketquery.sdk.index.info import DATABASE, INDEX_FOLDER
from pocketquery.sdk.index.segments import (
    SCHEMA,
    append_segments,
    create_segments,
    drop_segments,
    row_count,
)
from pocketquery.sdk.index.updates import FileState, IndexSource, record_files, record_source
from pocketquery.sdk.index.vector_file import MOST_DIMENSIONS, Codes, quantize
from pocketquery.sdk.index.vectors import unit_rows
from pocketquery.sdk.languages.reading import ReadingTally
from pocketquery.sdk.lazy import log
from pocketquery.sdk.plain_files import check_own_file, is_closed
from pocketquery.sdk.validation import check, check_text, whole
from pocketquery.sdk.words import AUTO
from pocketquery.sdk.words.stemming import check_language

__all__ = ["COMMITTED_TOGETHER", "IndexBuilder", "check_documents", "check_rows", "create_index"]

COMMITTED_TOGETHER = 512
"""Documents that a build adds at a time: what a kill can cost. Whatever is built so of the same
documents has the same bytes."""

_DIGEST = "encoder.sha256"  # beside a build that may be resumed


def create_index(
    path: Path | str,
    *,
    encoder: QueryEncoder | None = None,
    space_id: str | None = None,
    dimension: int | None = None,
    resume: bool = False,
    encoded_by: str = "",
    encoder_digest: str = "",
    language: str | None = None,
    signing_key: Key | None = None,
    private: bool = False,
) -> IndexBuilder:
    """Begin to build an index; :meth:`IndexBuilder.close` publishes it at ``path``. ::

        with create_index("index") as builder:
            builder.add(["The train leaves at seven.", "Green tea: 80 degrees."])

    With vectors from elsewhere::

        with create_index("index", space_id=teacher.space_id, dimension=384) as builder:
            builder.add(documents, vectors)

    Args:
        path: the folder to be; an index that is there is replaced at the end.
        encoder: makes the vectors of documents that come without. None: the one that ``sdk.encode``
            uses, unless space and dimension are given.
        space_id: the space of the vectors; the encoder's, where it is not given.
        dimension: of the vectors; likewise.
        resume: keep what a build that was killed, or failed, had committed, and keep it again if
            this one fails; :meth:`IndexBuilder.stored` tells what is there.
        encoded_by: what makes the vectors, where it is not the encoder that the space is named
            after. A build that was killed is not resumed with another.
        encoder_digest: what tells that encoder from another of the same name and space; likewise.
            It is beside the build, and the index does not have it.
        language: of the texts, by which words are stemmed: "german", say, or "none" to keep words
            whole. None: found by the first documents, whenever they are added.
        signing_key: an Ed25519 private key to sign the index with when it is published: 32 raw
            bytes, 64 hexadecimal digits or a PEM file.
        private: for its owner alone (0700, files 0600), as it is anyway where it replaces an index
            that is; else as the umask says.

    Raises:
        InvalidInputError: the key is none; a dimension below 1, an empty space id, one of both
            without the other or an encoder; ``encoder`` is none; or ``path`` is a file, or a folder
            that holds something else than an index.
        SpaceMismatchError: the encoder is of another space than ``space_id``.
        ArtifactError: another process is building the same index; the disk is full.
    """
    path = checked_path(path, "the index").absolute()  # the working folder may change
    if encoder is None and space_id is None and dimension is None:
        from pocketquery.sdk.loading import default_encoder  # an encoder's package

        encoder = default_encoder()
    if encoder is not None:
        check_encoder(encoder)
        if space_id not in (None, encoder.space_id):
            raise SpaceMismatchError.between(
                "the index to be", str(space_id), "the encoder", encoder.space_id
            )
        space_id = encoder.space_id
        if dimension is None:
            dimension = getattr(encoder, "dimension", None)
        encoded_by = encoded_by or encoder_name(encoder)
    if dimension is None or space_id is None:
        raise InvalidInputError(
            "space_id and dimension go together; give both, or an encoder alone, or none of them"
        )
    check("dimension", dimension, whole(1, MOST_DIMENSIONS))
    language = AUTO if language in (None, AUTO) else check_language(language)
    if not check_text(space_id, "the space id"):
        raise InvalidInputError("the space id is empty, expected that of the encoder's space")
    if path.exists() and not path.is_dir():
        raise InvalidInputError(f"{path} is a file; an index is a folder, choose another path")
    check_replaceable(path, INDEX_FOLDER)
    make_folder(real_path(path).parent)
    if signing_key is not None:
        public_key_of(signing_key)  # now, and not when all is done
    return IndexBuilder(
        path,
        space_id,
        dimension,
        resume=resume,
        encoder=encoder,
        encoded_by=(encoded_by, encoder_digest),
        language=language,
        signing_key=signing_key,
        private=private,
    )


class IndexBuilder:
    """An index in the making; made by :func:`create_index`. For one thread.

    Left through an error, or by :meth:`abandon`, nothing is published.
    """

    def __init__(
        self,
        path: Path,
        space_id: str,
        dimension: int,
        *,
        resume: bool,
        encoder: QueryEncoder | None,
        encoded_by: tuple[str, str],
        language: str,
        signing_key: Key | None = None,
        private: bool = False,
    ) -> None:
        self.path = path
        self.space_id = space_id
        self.dimension = dimension
        self._encoder = encoder
        self._tally = ReadingTally(encoder)
        self._keep = resume
        self._signing_key = signing_key
        self._folder = building_folder(path)
        self._lock = hold_folder(self._folder, private=private or is_closed(real_path(path)))
        self._published = False
        try:
            recover_folder(path)  # now that no other build is between its two renames
            facts = {"space": space_record(space_id, dimension), "encoded_by": encoded_by[0]}
            facts |= {} if language == AUTO else {"language": language}
            self._database = _begin(self._folder, dimension, resume, facts, encoded_by[1])
        except BaseException:
            release_folder(self._lock)
            raise

    def __len__(self) -> int:
        """Documents committed."""
        with self._database.reading() as connection:
            return row_count(connection)

    def add(self, documents: Iterable[Any], vectors: NDArray[Any] | None = None) -> None:
        """Add documents, and commit. ::

            builder.add(["a text", "another"])  # their ids are "0" and "1"
            builder.add([("tea", "Green tea: 80 degrees.")])
            builder.add([{"id": "oslo", "title": "Trains", "text": "At seven.", "year": 2024}])

        Args:
            documents: texts, pairs of id and text, mappings, or :class:`Document` objects. Further
                values of a mapping are its metadata. What comes without an id is numbered.
            vectors: float (n, dimension), where they are made already; else the encoder makes them.

        Raises:
            InvalidInputError: an id that came before, a document or vector that cannot be used; no
                vectors, and the index was begun without an encoder.
        """
        listed = as_documents(documents, len(self))
        if vectors is None:
            vectors = encode_documents(listed, self._encoder, self._tally)
        self.add_rows(listed, quantize(check_rows(listed, vectors, self.dimension)))

    def add_rows(self, documents: Sequence[Document], codes: Codes) -> None:
        """Add checked documents with their vectors as another index stores them, and commit.

        Args:
            documents: with ids that did not come before.
            codes: uint8 (n, dimension + 4), as the vector file has them.
        """
        with self._database.writing() as connection:
            append_segments(connection, self._folder, documents, codes)

    def __repr__(self) -> str:
        return f"IndexBuilder({str(self.path)!r}, space_id={self.space_id!r})"

    def contents_sha256(self) -> str:
        """The hash of what is committed, see :mod:`pocketquery.sdk.index.contents`."""
        with self._database.reading() as connection:
            return contents_sha256(connection, self._folder, self.dimension)

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

    def record(self, source: IndexSource | None, files: Mapping[str, FileState]) -> None:
        """Remember the folder that the documents came from, and its files by path."""
        with self._database.writing() as connection:
            record_source(connection, source)
            record_files(connection, files)

    def truncate(self, documents: int) -> None:
        """Take back the segments that begin at row ``documents`` or later, and their room."""
        with self._database.writing() as connection:
            drop_segments(connection, self._folder, self.dimension, documents)
            file = connection.file
        self._database.vacuum(file)

    def close(self, proof: Mapping[str, bytes] | None = None, signed_by: str | None = None) -> None:
        """Publish the index. Closing twice is harmless.

        Args:
            proof: files beside it that say whose contents these are, by name: those of the delta
                they came from.
            signed_by: the id of the key that signed them.
        """
        if self._database.closed:
            return
        try:
            stale = SIGNATURE_FILE, DELTA_FILE, _DIGEST  # of a build that failed, or was resumed
            for name in stale:
                (self._folder / name).unlink(missing_ok=True)
            for name, data in (proof or {}).items():
                write_atomic(self._folder / name, data)
            seal(self._folder, self._database, signing_key=self._signing_key, signed_by=signed_by)
            self._database.close()
            with held(self.path / DATABASE):
                publish_folder(self._folder, self.path)
            self._published = True
            self._tally.warn(self.path)
            log("info", "published the index %s", self.path)
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Close without publishing; the work is kept only where the build may be resumed."""
        self._database.close()
        if not self._keep and not self._published:  # then another build may have that name
            shutil.rmtree(self._folder, ignore_errors=True)
        release_folder(self._lock)
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


def check_documents(documents: Sequence[Document]) -> None:
    """Raise InvalidInputError at the first that cannot be stored, or has the id of another."""
    seen: set[str] = set()
    for position, document in enumerate(documents):
        check_document(document, f"documents[{position}]")
        if document.id in seen:
            raise InvalidInputError(
                f"documents[{position}] has the id {document.id!r} of one before it; ids are unique"
            )
        seen.add(document.id)


def check_rows(
    documents: Sequence[Document], vectors: NDArray[Any], dimension: int
) -> NDArray[np.float32]:
    """The vectors of documents that can be stored, at length 1, float32 (n, dimension).

    Raises:
        InvalidInputError: another number of vectors, or the first document or vector that is bad.
    """
    check_documents(documents)
    empty = np.zeros((0, dimension), np.float32)
    rows = unit_rows(vectors, dimension, "vectors") if documents or np.size(vectors) else empty
    if len(documents) != len(rows):
        raise InvalidInputError(f"{len(documents)} documents came with {len(rows)} vectors")
    return rows


def _begin(
    folder: Path, dimension: int, resume: bool, facts: Mapping[str, str], digest: str
) -> Database:
    """The database of a build: what an earlier one left, where it may be resumed and had the same
    ``facts``, by their names in ``meta``, and ``digest``; else a new one."""
    if resume:
        with contextlib.suppress(ArtifactError):
            return _reopen(folder, dimension, facts, digest)
    for file in folder.iterdir():
        if file.is_dir() and not file.is_symlink():
            shutil.rmtree(file)
        else:
            file.unlink()
    database = Database(folder / DATABASE, writable=True, create=True, schema=SCHEMA)
    try:
        with database.writing() as connection:
            create_segments(connection, folder, dimension)
            for name, value in facts.items():
                set_meta(connection, name, value)
        if digest:
            write_atomic(folder / _DIGEST, digest)
    except BaseException:
        database.close()
        raise
    return database


def _reopen(folder: Path, dimension: int, facts: Mapping[str, str], digest: str) -> Database:
    database = Database(folder / DATABASE, writable=True, schema=SCHEMA)
    try:
        with database.reading() as connection:
            for name, value in facts.items():
                if get_meta(connection, name) != value:
                    raise ArtifactError(f"{folder} was begun with another {name}")
            mark = folder / _DIGEST
            if digest != (mark.read_text("utf-8") if mark.is_file() else ""):
                raise ArtifactError(f"{folder} was begun with another encoder")
            check_own_file(folder / vectors_name(connection))
            check_contents(connection, folder, dimension)  # or the seal would call damage good
    except BaseException:
        database.close()
        raise
    return database

"""The index on the device: documents, their vectors, and search over both.

::

    with open_index("index") as index:
        for hit in index.search("when was the bridge built", k=3):
            print(hit.score, hit.id, hit.text)
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Self

from pocketquery.sdk.arrays import NDArray
from pocketquery.sdk.bundle.signature import Key
from pocketquery.sdk.errors import (
    ArtifactError,
    InvalidInputError,
    SignatureError,
    SpaceMismatchError,
)
from pocketquery.sdk.files import checked_path
from pocketquery.sdk.folders import TWO_RENAMES, present_folder
from pocketquery.sdk.index import database, segments
from pocketquery.sdk.index.builder import check_documents, check_rows, create_index
from pocketquery.sdk.index.database import Connection, Database, get_meta
from pocketquery.sdk.index.documents import (
    Document,
    as_documents,
    delete_documents,
    stream_documents,
)
from pocketquery.sdk.index.encoders import QueryEncoder, encode_documents, index_encoder
from pocketquery.sdk.index.folder import (
    begin_compacting,
    begin_writing,
    check_sizes,
    end_compacting,
    seal,
    space_record,
    verify_index,
)
from pocketquery.sdk.index.info import DATABASE, read_info
from pocketquery.sdk.index.search import (
    CheckedQuery,
    Mode,
    check_query,
    hits_of,
    rank,
)
from pocketquery.sdk.index.selection import Selection
from pocketquery.sdk.index.signature import check_claim, check_signed
from pocketquery.sdk.index.updates import Changes, IndexSource, change_index, read_source
from pocketquery.sdk.index.vector_file import quantize
from pocketquery.sdk.index.views import IndexViews
from pocketquery.sdk.lazy import log
from pocketquery.sdk.results.filters import condition_of
from pocketquery.sdk.results.grouping import best_of_groups
from pocketquery.sdk.results.hits import Hit, Hits
from pocketquery.sdk.sqlite_file import identity
from pocketquery.sdk.validation import check_text

__all__ = [
    "Document",
    "Hit",
    "Hits",
    "Index",
    "QueryEncoder",
    "create_index",
    "open_index",
    "verify_index",
]


def open_index(
    path: Path | str,
    *,
    encoder: QueryEncoder | None = None,
    writable: bool = False,
    public_key: Key | None = None,
) -> Index:
    """Open the index at ``path``.

    Args:
        path: the folder.
        encoder: turns a query's text into a vector of the index's space. None: the one that
            ``sdk.encode`` uses, loaded with the first text that needs it.
        writable: allow :meth:`Index.add`, :meth:`Index.delete` and :meth:`Index.compact`.
        public_key: where given, the index must be signed by its private half: 32 raw bytes, 64
            hexadecimal digits or the path of a PEM file. Every file is then read and hashed first,
            some seconds a gigabyte.

    Raises:
        ArtifactNotFoundError: the folder, or one of its files, is not there.
        CorruptArtifactError: a file is truncated, of another size than recorded or of another
            format. (:func:`verify_index` reads every byte.)
        UnsupportedVersionError: a newer version of the format.
        SpaceMismatchError: the encoder is of another space; names both.
        SignatureError: a key is given and the index is not signed by it, or was changed on this
            device since; or it says it is signed and has no signature.
        InvalidInputError: a key for an index that is to be written; ``path`` is no path,
            ``encoder`` no encoder.
    """
    path = checked_path(path, "the index")
    try:
        return Index(path, encoder=encoder, writable=writable, public_key=public_key)
    except FileNotFoundError:  # or a build is putting it there, which takes two renames
        time.sleep(TWO_RENAMES)
        return Index(path, encoder=encoder, writable=writable, public_key=public_key)


class Index(IndexViews):
    """An open index; made by :func:`open_index`.

    Any number of threads may search at once. Each search sees one committed state, also while
    another thread or process writes; writers wait for each other. An index that is built anew in
    its place is taken up by the next call.
    """

    def __init__(
        self,
        path: Path,
        *,
        encoder: QueryEncoder | None = None,
        writable: bool = False,
        public_key: Key | None = None,
    ) -> None:
        if writable and public_key is not None:
            raise InvalidInputError(
                f"{path}: a public key is given for an index that is to be written; what is "
                "changed here is no longer what was signed. Open it without a key"
            )
        self.path = present_folder(path.absolute())  # the working folder may change
        self._signed = None if public_key is None else _check_signed(self.path, public_key)
        info = read_info(self.path)
        self.space_id = info.space_id
        self.dimension = info.dimension
        self._encoder = index_encoder(encoder, path, self.space_id, self._encoded_by)
        self._streams: Counter[int] = Counter()  # by thread: documents() that have not ended
        self._written: tuple[int, int] | None = None  # the database file, once it was changed
        self._loaded: tuple[tuple[object, int], segments.Snapshot] | None = None
        self._database = Database(self.path / DATABASE, writable=writable, schema=segments.SCHEMA)
        with self._opening(), self._database.reading() as connection:
            self._current(connection)
            # Read again: now no other index takes this one's place any more.
            info = read_info(self.path)
            check_claim(self.path, info)
            check_sizes(self.path, info, connection)
            log("debug", "opened the index %s, generation %d", self.path, info.generation)

    def __repr__(self) -> str:
        count = "closed" if self._database.closed else f"{len(self):,} documents"
        return (
            f"Index({str(self.path)!r}, {count}, {self.dimension} dimensions, "
            f"space_id={self.space_id!r}, encoder={self._encoder!r})"
        )

    def documents(self) -> Iterator[Document]:
        """Every document that can be found, in the order they came; of one committed state.

        Nobody can write until it has ended: to change documents on the way, make a list first.
        """
        with self._database.reading() as connection:
            rows = len(self._current(connection).vectors)
            self._streams[thread := threading.get_ident()] += 1
            try:
                yield from stream_documents(connection, 0, rows)
            finally:
                self._streams[thread] -= 1

    @contextlib.contextmanager
    def reading(self) -> Iterator[tuple[Connection, segments.Snapshot]]:
        """One committed state, for what reads the index row by row: slices and deltas of it."""
        with self._database.reading() as connection:
            yield connection, self._current(connection)

    def search(
        self,
        query: str | NDArray[Any],
        k: int = 10,
        *,
        filter: Mapping[str, Any] | None = None,
        mode: Mode | None = None,
        vector: NDArray[Any] | None = None,
        min_score: float | None = None,
        offset: int = 0,
        prefix: bool = False,
        group_by: str | None = None,
        languages: Iterable[str] | None = None,
    ) -> Hits:
        """The ``k`` best documents, best first; fewer where fewer match.

        Args:
            query: a text, or its vector, float (dimension,), of any length but 0. A document must
                have ``"what stands in quotes"`` if any has, ``+this``, and not ``-that``.
            k: how many, at least 1.
            filter: conditions on the metadata, see :mod:`pocketquery.sdk.results.filters`.
            mode: ``"dense"`` (by meaning), ``"lexical"`` (by words, BM25) or ``"hybrid"`` (both,
                see :class:`pocketquery.sdk.index.search.Fusion`; by words alone where the encoder
                does not read the text). By default hybrid for a text, dense for a vector.
            vector: the vector of a text ``query``, where it is encoded already.
            min_score: the least score of a hit. A hybrid score can be compared between queries:
                what no document answers reaches about 0.2 among 50 documents, 0.3 among thousands.
            offset: how many of the best to pass over: the second page of ten begins at 10. Pages
                fit together: the first hits do not depend on how many are asked for.
            group_by: a field of the metadata such as "path", as in a filter. Of the documents that
                have one value of it only the best is a hit; ``others`` counts further ones.
            prefix: the last word is still being typed, and stands for all that begin with it. What
                asks for nothing yet, blanks, a quotation mark or ``-word``, finds nothing.
            languages: only documents whose field ``language`` is one of these codes: ``["de"]``.

        Raises:
            InvalidInputError: a blank text, a vector of another dimension or not finite, k < 1, an
                unknown mode or filter operator; the encoder at hand is of another space.
            ArtifactError: the encoder at hand cannot be loaded.
        """
        request = check_query(
            query, k, mode, vector, self.dimension, self._encoder, offset, min_score, prefix
        )
        condition = None if filter is languages is None else condition_of(filter, languages)
        if request is None:
            return Hits()
        with self._database.reading() as connection:
            snapshot = self._current(connection)
            typed = snapshot.analyzer.query(request.text, prefix=prefix) if request.text else None
            selection = Selection(connection, snapshot, condition, typed)

            def found(request: CheckedQuery) -> Hits:
                return hits_of(connection, rank(connection, snapshot, request, selection))

            if group_by is None:
                hits = found(request)
            else:
                whole = partial(replace, request, offset=0)
                hits = best_of_groups(lambda k: found(whole(k=k)), group_by, request.k, offset)
            hits.absent_phrases = selection.absent_phrases
            return hits

    def add(self, documents: Iterable[Any], vectors: NDArray[Any] | None = None) -> None:
        """Add documents with their vectors, all or none.

        Args:
            documents: with ids that the index does not have; of any kind that
                :meth:`IndexBuilder.add` takes.
            vectors: float (n, dimension), encoded by the index's document encoder; stored at
                length 1. None: by the encoder that the index was opened with, else the one of
                ``sdk.encode`` where that made the others.

        The first change after opening reads the files and compares them with what was sealed.

        Raises:
            InvalidInputError: an id twice or already there, a vector or text that cannot be used.
            CorruptArtifactError: the files are not what was sealed; nothing is changed.
            ArtifactError: the disk is full, or a file is a link; the index is as it was.
        """
        with self._database.reading() as connection:
            rows_before = segments.row_count(connection)
        listed = as_documents(documents, rows_before)
        if vectors is None:
            vectors = encode_documents(listed, self._encoder)
        rows = check_rows(listed, vectors, self.dimension)
        with self.writing() as connection:
            segments.append_segments(connection, self.path, listed, quantize(rows))

    def upsert(self, documents: Iterable[Any], vectors: NDArray[Any] | None = None) -> Changes:
        """Add documents, or put them in the place of those with their ids, all or none. ::

            index.upsert([{"id": "oslo", "text": "The train leaves at eight."}])

        What is unchanged is left alone, and a document whose title and text are unchanged keeps its
        vector. Arguments and errors as :meth:`add`, but that every document has an id of its own.

        Returns:
            How many were added, replaced, unchanged and encoded.
        """
        listed = as_documents(documents, None)
        check_documents(listed)
        codes = None
        if vectors is not None:
            codes = quantize(check_rows(listed, vectors, self.dimension))
        return change_index(self, listed, partial(encode_documents, encoder=self._encoder), codes)

    def _encoded_by(self) -> str:
        with self._database.reading() as connection:
            return get_meta(connection, "encoded_by", "")

    @property
    def source(self) -> IndexSource | None:
        """The folder that the index was made of, and how; None where it was not."""
        with self._database.reading() as connection:
            return read_source(connection)

    def delete(self, ids: Iterable[str]) -> int:
        """Delete the documents with these ids; unknown ids are passed over.

        Texts, ids and metadata are erased at once; vectors and postings by :meth:`compact`.

        Returns:
            How many documents were deleted.
        """
        if isinstance(ids, str) or not isinstance(ids, Iterable):
            raise InvalidInputError(f"ids is {ids!r}, expected a list of ids")
        checked = [check_text(one, f"ids[{position}]") for position, one in enumerate(ids)]
        with self.writing() as connection:
            deleted = delete_documents(connection, checked)
            database.next_generation(connection)
        return deleted

    def compact(self) -> None:
        """Drop what deleted documents left behind, and merge what many adds wrote."""
        with self.writing() as connection:
            segments.compact_segments(connection, self.path, self.dimension)
            begin_compacting(connection)
        with contextlib.suppress(ArtifactError):  # no room to rewrite the file: it stays larger
            self._database.vacuum(self._written)
        with self._database.writing() as connection:  # no other writer's file is a stray one
            if connection.file == self._written:
                end_compacting(self.path, connection)
            for path in segments.stray_files(connection, self.path):
                with contextlib.suppress(PermissionError):  # Windows: a reader has it open yet
                    path.unlink(missing_ok=True)

    def verify(self) -> None:
        """Read every byte and compare, see :func:`verify_index`."""
        verify_index(self.path)

    def close(self) -> None:
        """Close the files. Closing twice is harmless."""
        try:
            written, self._written = self._written, None
            if written is not None:
                seal(self.path, self._database, written)
        finally:
            self._database.close()
            self._loaded = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _current(self, connection: Connection) -> segments.Snapshot:
        """The state ``connection`` sees, loaded anew only where it has changed."""
        loaded, state = self._loaded, (connection.file, database.generation_of(connection))
        if loaded is None or loaded[0] != state:
            self._check_space(connection)
            if self._signed not in (None, state):
                raise SignatureError(
                    f"the index at {self.path} was changed or replaced since its signature was "
                    "checked; open it again"
                )
            loaded = state, segments.load_snapshot(connection, self.path, self.dimension)
            self._loaded = loaded
        return loaded[1]

    def _check_space(self, connection: Connection) -> None:
        record = get_meta(connection, "space")
        if record != space_record(self.space_id, self.dimension):
            found, place = record.partition(" ")[2], f"the index now at {self.path}"
            raise SpaceMismatchError.between(place, found, "the one opened", self.space_id)

    @contextlib.contextmanager
    def _opening(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            self.close()
            raise

    @contextlib.contextmanager
    def writing(self) -> Iterator[Connection]:
        """A transaction that changes the index, for what writes rows itself: updates of it."""
        if self._streams[threading.get_ident()]:  # which would wait for itself
            raise InvalidInputError(
                f"the documents of the index {self.path} are still being read here; make a list of "
                "documents() before you change them"
            )
        with self._database.writing() as connection:
            self._check_space(connection)
            begin_writing(self.path, connection, self._written)
            self._written = connection.file
            yield connection


def _check_signed(folder: Path, public_key: Key) -> tuple[object, int]:
    """The state that was found to be signed: which database file, which generation."""
    file = identity(folder / DATABASE)
    return file, check_signed(folder, public_key).generation

"""Documents to an index: encoded batch by batch, committed as they come, published at the end.

A build that is killed and started again with the same documents in the same order continues: what
was committed is compared with what comes, and kept as far as both are equal. Since the space id
names the encoder's weights, equal documents have equal vectors.
"""

from __future__ import annotations

import dataclasses
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any, Self, TypeAlias

import numpy as np

from pocketquery.sdk.arrays import NDArray
from pocketquery.sdk.bundle.signature import Key, key_id, public_key_of
from pocketquery.sdk.encoder import Encoder
from pocketquery.sdk.errors import CorpusError, InvalidInputError
from pocketquery.sdk.index.builder import COMMITTED_TOGETHER, IndexBuilder, create_index
from pocketquery.sdk.index.documents import Document, check_document, content, metadata_text
from pocketquery.sdk.index.info import read_info
from pocketquery.sdk.index.vectors import unit_rows
from pocketquery.sdk.languages.reading import ReadingTally
from pocketquery.sdk.progress import Progress

__all__ = [
    "Done",
    "Encode",
    "Encoding",
    "FileChanges",
    "IndexReport",
    "Vectors",
    "build_index",
    "build_index_of_rows",
    "cores",
    "encode_documents",
    "folder_bytes",
]

_Row: TypeAlias = tuple[Document, Any]  # and its vector, where there is one already
Encode: TypeAlias = Callable[[list[str]], NDArray[Any]]
Done: TypeAlias = Callable[[int], object]
"""Called with how many more are encoded."""
Vectors: TypeAlias = Callable[[], NDArray[Any]]
"""Gives vectors when it is called, and waits until they are there."""


def _ignore(_: object) -> None:
    """Where nobody asks."""


def cores() -> int:
    """The processor's cores that this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)  # Linux
    return len(affinity(0)) if affinity else os.cpu_count() or 1


@dataclass(frozen=True)
class FileChanges:
    """What became of a folder's files since the index was made, in documents: files with text.

    Attributes:
        added: that the index did not have.
        changed: with another content.
        moved: to another place or name, with the same content.
        removed: that are gone, or have no text any more.
    """

    added: int = 0
    changed: int = 0
    moved: int = 0
    removed: int = 0

    def __str__(self) -> str:
        counts = dataclasses.asdict(self).items()
        return ", ".join(f"{count:,} {name}" for name, count in counts if count) or "no change"


@dataclass(frozen=True)
class IndexReport:
    """What was built or updated.

    Attributes:
        path: the index's folder.
        documents: of a folder: its files with text; else as many as passages.
        passages: in the index: what a search returns.
        resumed: of these, taken over from a build that was killed.
        space_id: the space of the vectors.
        dimension: of the vectors.
        bytes: of all files.
        seconds: that it took.
        signature_key_id: of the key it was signed with; None where it was not.
        encoded_by: what made the vectors, where it is not the space's own encoder.
        language: of the texts.
        encoded: passages that were encoded.
        changes: of the folder's files; None where it was not made of a folder.
    """

    path: str
    documents: int
    passages: int
    resumed: int
    space_id: str
    dimension: int
    bytes: int
    seconds: float
    signature_key_id: str | None = None
    encoded_by: str = ""
    language: str = ""
    encoded: int = 0
    changes: FileChanges | None = None


def build_index(
    documents: Iterable[Document],
    encode: Encode,
    output: Path | str,
    *,
    space_id: str,
    dimension: int,
    batch_size: int = 64,
    show_progress_bar: bool = False,
    encoded_by: str = "",
    encoder_digest: str = "",
    signing_key: Key | None = None,
    language: str | None = None,
    threads: int | None = None,
) -> IndexReport:
    """Encode ``documents`` and build an index of them at ``output``. ::

        encoder = sdk.load()
        sdk.build_index(
            sdk.read_folder("notes"),
            encoder.encode_document,
            "index",
            space_id=encoder.space_id,
            dimension=encoder.dimension,
        )

    Args:
        documents: read once; never more than a few hundred of them are in memory.
        encode: texts to float (n, dimension), the document encoder.
        output: the folder; an index that is there is replaced when the new one is complete.
        space_id: the encoder's space.
        dimension: of its vectors.
        batch_size: texts a call of ``encode``; they come sorted by length.
        show_progress_bar: documents done, rate and time left, on stderr.
        encoded_by: as in :func:`~pocketquery.sdk.create_index`.
        encoder_digest: as there.
        signing_key: an Ed25519 private key to sign the index with: 32 raw bytes, 64 hexadecimal
            digits or a PEM file.
        language: of the texts, "german", say, or "none" to keep words whole; None: it is found.
        threads: calls of ``encode`` at once. By default one for each core where it is a method of
            an :class:`~pocketquery.sdk.Encoder`, else one, in this thread.

    Raises:
        CorpusError: no documents, or an id comes twice; names it. What was encoded is kept for the
            next try, and an index that is there stays.
        InvalidInputError: a document or a vector that cannot be stored, or ``output`` holds
            something that is not an index.
        ArtifactError: the disk is full, or another process builds the same index.
    """
    if batch_size < 1:
        raise InvalidInputError(f"batch_size is {batch_size}, expected at least 1")
    total = len(documents) if isinstance(documents, Sized) else None
    encoder = getattr(encode, "__self__", None)
    if threads is None:
        threads = cores() if isinstance(encoder, Encoder) else 1
    with Encoding(encode, batch_size, threads) as encoding:
        return build_index_of_rows(
            ((document, None) for document in documents),
            lambda chunk, _, done: encoding.begin(chunk, done),
            output,
            Progress(total, "index", "documents") if show_progress_bar else None,
            space_id=space_id,
            dimension=dimension,
            encoded_by=encoded_by,
            encoder_digest=encoder_digest,
            signing_key=signing_key,
            language=language,
            tally=ReadingTally(encoder),
        )


def encode_documents(
    documents: Sequence[Document], encode: Encode, batch_size: int, done: Done = _ignore
) -> NDArray[Any]:
    """Vectors of ``documents``, (n, dimension), in their order.

    Args:
        documents: some hundred; they are encoded in the order of their lengths.
        encode: texts to float (n, dimension).
        batch_size: texts a call of it.
        done: called with their number after each.

    Raises:
        InvalidInputError: it gave another number of vectors, or one without a direction, for which
            no index has a place.
    """
    with Encoding(encode, batch_size) as encoding:
        return encoding.begin(documents, done)()


class Encoding:
    """Encodes documents, in threads of its own where the encoder may be called by several at once.

    Texts of like length are encoded together. While the vectors of some documents are made, the
    caller can read and store others. Leaving waits for the batches under way, and drops the rest.

    Args:
        encode: texts to float (n, dimension).
        batch_size: texts a call of it.
        threads: calls of it at once; 1: in the caller's own thread.
    """

    def __init__(self, encode: Encode, batch_size: int, threads: int = 1) -> None:
        self._encode = encode
        self._batch_size = batch_size
        self._pool = ThreadPoolExecutor(threads) if threads > 1 else None

    def begin(self, documents: Sequence[Document], done: Done = _ignore) -> Vectors:
        """Begin to encode ``documents``; what is returned gives their vectors, when it is called.

        Args:
            documents: at least one.
            done: called with their number after each batch, in the caller's thread.
        """
        texts = [content(document) for document in documents]
        order = sorted(range(len(texts)), key=lambda position: -len(texts[position]))
        batches = [
            [texts[position] for position in order[start : start + self._batch_size]]
            for start in range(0, len(texts), self._batch_size)
        ]
        parts = (
            (self._encoded(batch) for batch in batches)
            if self._pool is None
            else map(Future.result, [self._pool.submit(self._encoded, one) for one in batches])
        )

        def vectors() -> NDArray[Any]:
            finished = []
            for part in parts:
                finished.append(part)
                done(len(part))
            return np.concatenate(finished)[np.argsort(order)]

        return vectors

    def _encoded(self, batch: list[str]) -> NDArray[Any]:
        vectors = np.asarray(self._encode(batch))
        if len(vectors) != len(batch):
            raise InvalidInputError(
                f"the encoder gave {len(vectors)} vectors for {len(batch)} texts"
            )
        unit_rows(vectors, vectors.shape[-1], "the encoder's vectors")
        return vectors

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)


def build_index_of_rows(
    rows: Iterable[_Row],
    begin: Callable[[Sequence[Document], Sequence[Any], Done], Vectors],
    output: Path | str,
    bar: Progress | None,
    *,
    space_id: str,
    dimension: int,
    encoded_by: str,
    encoder_digest: str,
    signing_key: Key | None,
    language: str | None = None,
    finish: Callable[[IndexBuilder], object] | None = None,
    tally: ReadingTally | None = None,
) -> IndexReport:
    """Build an index of documents, some of which may have a vector already.

    Args:
        rows: each document, and its vector or None.
        begin: begins to make the vectors of some documents, from these and the vectors that came
            with them; what it returns gives float (n, dimension). It calls its last argument with
            the number that is done.
        output, space_id, dimension, encoded_by, encoder_digest, signing_key, language: as for
            :func:`build_index`; errors as there.
        bar: shows how many rows are done.
        finish: called with the complete index before it is published, to record its source.
        tally: counts what the encoder reads, and warns of the rest.
    """
    start = time.perf_counter()
    with create_index(
        output,
        space_id=space_id,
        dimension=dimension,
        resume=True,
        encoded_by=encoded_by,
        encoder_digest=encoder_digest,
        signing_key=signing_key,
        language=language,
    ) as builder:
        remaining, resumed = _resume(builder, iter(rows))
        if bar:
            bar.resume(resumed)
        done: Done = bar.update if bar else _ignore
        waiting: tuple[list[Document], Vectors] | None = None
        while chunk := list(islice(remaining, COMMITTED_TOGETHER)):
            documents = [document for document, _ in chunk]
            _check(builder, documents, waiting[0] if waiting else ())
            vectors = begin(documents, [vector for _, vector in chunk], done)
            if tally:
                tally.add(documents)
            if waiting:  # stored while the next ones are encoded
                builder.add(waiting[0], waiting[1]())
            waiting = documents, vectors
        if waiting:
            builder.add(waiting[0], waiting[1]())
        count = len(builder)
        if not count:  # an export that went wrong must not empty the index devices search
            raise CorpusError(
                "there are no documents; expected at least one. For an index to be filled later "
                "use pocketquery.sdk.create_index"
            )
        if finish:
            finish(builder)
        elif resumed:  # from a build that may have been of a folder
            builder.record(None, {})
        if bar:
            bar.close()
    if tally:
        tally.warn(output)
    return IndexReport(
        path=str(output),
        documents=count,
        passages=count,
        resumed=resumed,
        space_id=space_id,
        dimension=dimension,
        bytes=folder_bytes(output),
        seconds=time.perf_counter() - start,
        signature_key_id=None if signing_key is None else key_id(public_key_of(signing_key)),
        encoded_by=encoded_by,
        language=read_info(Path(output)).language,
        encoded=count - resumed,
    )


def folder_bytes(index: Path | str) -> int:
    """The size of an index's files."""
    return sum(file.stat().st_size for file in Path(index).iterdir())


def _resume(builder: IndexBuilder, rows: Iterator[_Row]) -> tuple[Iterator[_Row], int]:
    """The rows that are still to be added, and how many are committed already."""
    equal, differing = 0, list[_Row]()
    for segment in builder.stored():
        incoming = list(islice(rows, len(segment)))
        # As they are stored: to Python 1, 1.0 and True are equal, to a filter they are not.
        if [_stored(document) for document, _ in incoming] != list(map(_stored, segment)):
            differing = incoming
            break
        equal += len(segment)
    if equal < len(builder):
        builder.truncate(equal)
    return chain(differing, rows), equal


def _stored(document: Document) -> tuple[str, str, str]:
    return document.id, document.text, metadata_text(document)


def _check(
    builder: IndexBuilder, documents: Sequence[Document], waiting: Sequence[Document]
) -> None:
    """Refuse a chunk before the work of encoding it; ``waiting`` is about to be stored."""
    for document in documents:
        check_document(document)
    counts = Counter(document.id for document in (*waiting, *documents))
    twice = [identifier for identifier, count in counts.items() if count > 1]
    for identifier in (*twice, *builder.known(counts)):
        raise CorpusError(
            f"the id {identifier!r} is given to two documents; ids are unique. Change one of them"
        )

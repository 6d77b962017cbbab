"""Documents to an index: encoded batch by batch, committed as they come, published at the end.

A build that is killed and started again with the same documents in the same order continues: what
was committed is compared with what comes, and kept as far as both are equal. Since the space id
names the encoder's weights, equal documents have equal vectors.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pocketquery.sdk.bundle.signature import Key, key_id, public_key_of
from pocketquery.sdk.errors import CorpusError, InvalidInputError
from pocketquery.sdk.index.builder import IndexBuilder, create_index
from pocketquery.sdk.index.documents import Document, check_document, content
from pocketquery.sdk.index.folder import INFO
from pocketquery.sdk.progress import Progress

__all__ = ["Encode", "IndexReport", "build_index"]

Encode = Callable[[list[str]], NDArray[Any]]

_COMMITTED_TOGETHER = 512  # documents: what a kill can cost, and what is sorted by length


@dataclass(frozen=True)
class IndexReport:
    """What was built.

    Attributes:
        path: the index's folder.
        documents: in the index.
        resumed: of these, taken over from a build that was killed.
        space_id: the space of the vectors.
        dimension: of the vectors.
        bytes: of all files.
        seconds: that it took.
        signature_key_id: of the key it was signed with; None where it was not.
    """

    path: str
    documents: int
    resumed: int
    space_id: str
    dimension: int
    bytes: int
    seconds: float
    signature_key_id: str | None = None


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
    signing_key: Key | None = None,
) -> IndexReport:
    """Encode ``documents`` and build an index of them at ``output``.

    Args:
        documents: read once; never more than a few hundred of them are in memory.
        encode: texts to float (n, dimension), the document encoder.
        output: the folder; an index that is there is replaced when the new one is complete.
        space_id: the encoder's space.
        dimension: of its vectors.
        batch_size: texts a call of ``encode``; they come sorted by length.
        show_progress_bar: documents done, rate and time left, on stderr.
        encoded_by: as in :func:`~pocketquery.sdk.create_index`.
        signing_key: an Ed25519 private key to sign the index with: 32 raw bytes, 64 hexadecimal
            digits or a PEM file.

    Raises:
        CorpusError: no documents, or an id comes twice; names it. What was encoded is kept for the
            next try, and an index that is there stays.
        InvalidInputError: a document or a vector that cannot be stored, or ``output`` holds
            something that is not an index.
        ArtifactError: the disk is full, or another process builds the same index.
    """
    _check_replaceable(Path(output))
    if batch_size < 1:
        raise InvalidInputError(f"batch_size is {batch_size}, expected at least 1")
    start = time.perf_counter()
    total = len(documents) if isinstance(documents, Sized) else None
    with create_index(
        output,
        space_id=space_id,
        dimension=dimension,
        resume=True,
        encoded_by=encoded_by,
        signing_key=signing_key,
    ) as builder:
        left, resumed = _resume(builder, iter(documents))
        bar = Progress(total, "index", "document", done=resumed, show=show_progress_bar)
        while chunk := list(islice(left, _COMMITTED_TOGETHER)):
            _check(builder, chunk)
            builder.add(chunk, _encode(chunk, encode, batch_size, bar))
        count = len(builder)
        if not count:  # an export that went wrong must not empty the index devices search
            raise CorpusError(
                "there are no documents; expected at least one. For an index to be filled later "
                "use pocketquery.sdk.create_index"
            )
        bar.close()
    return IndexReport(
        path=str(output),
        documents=count,
        resumed=resumed,
        space_id=space_id,
        dimension=dimension,
        bytes=sum(file.stat().st_size for file in Path(output).iterdir()),
        seconds=time.perf_counter() - start,
        signature_key_id=None if signing_key is None else key_id(public_key_of(signing_key)),
    )


def _check_replaceable(output: Path) -> None:
    """Publishing replaces the folder: only an index, or an empty one, may be."""
    is_index = (output / INFO).is_file()
    if output.is_dir() and not is_index and any(output.iterdir()):
        raise InvalidInputError(
            f"{output} exists and is not an index; it is left alone. Name another place, or "
            "remove it"
        )


def _resume(builder: IndexBuilder, documents: Iterator[Document]) -> tuple[Iterator[Document], int]:
    """The documents that are still to be encoded, and how many are committed already."""
    kept, differing = 0, list[Document]()
    for segment in builder.stored():
        incoming = list(islice(documents, len(segment)))
        if incoming != segment:
            differing = incoming
            break
        kept += len(segment)
    if kept < len(builder):
        builder.truncate(kept)
    return chain(differing, documents), kept


def _check(builder: IndexBuilder, documents: Sequence[Document]) -> None:
    """Refuse a chunk before the work of encoding it."""
    for document in documents:
        check_document(document)
    counts = Counter(document.id for document in documents)
    twice = [identifier for identifier, count in counts.items() if count > 1]
    for identifier in (*twice, *builder.known(counts)):
        raise CorpusError(
            f"the id {identifier!r} is given to two documents; ids are unique. Change one of them"
        )


def _encode(
    documents: Sequence[Document], encode: Encode, batch_size: int, bar: Progress
) -> NDArray[Any]:
    """Vectors of ``documents``, (n, dimension), in their order."""
    texts = [content(document) for document in documents]
    order = np.argsort([len(text) for text in texts], kind="stable")
    parts = []
    for start in range(0, len(texts), batch_size):
        batch = [texts[position] for position in order[start : start + batch_size]]
        vectors = np.asarray(encode(batch))
        if len(vectors) != len(batch):
            raise InvalidInputError(
                f"the encoder gave {len(vectors)} vectors for {len(batch)} texts"
            )
        parts.append(vectors)
        bar.update(len(batch))
    return np.concatenate(parts)[np.argsort(order)]

"""A corpus of shards encoded into parts of Parquet: once, for any number of indexes.

What a part holds is made of its shard alone: the documents some hundred at a time, sorted by
length within them. So it does not matter which process made it, nor after which other shard.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain, islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pocketquery.sdk.errors import (
    ArtifactNotFoundError,
    CorpusError,
    CorruptArtifactError,
    InvalidInputError,
    UnsupportedVersionError,
)
from pocketquery.sdk.files import sha256_bytes, sha256_file
from pocketquery.sdk.folders import FolderKind, check_replaceable, publish_folder, replace_folder
from pocketquery.sdk.index.builder import COMMITTED_TOGETHER
from pocketquery.sdk.index.documents import Document
from pocketquery.sdk.indexing.building import encode_documents
from pocketquery.sdk.indexing.document_encoder import DocumentEncoder
from pocketquery.sdk.plain_files import is_private, local_places
from pocketquery.server.corpus.listing import OnSkipped, list_shards
from pocketquery.server.corpus.readers.documents import Place, read_documents
from pocketquery.server.corpus.screening import TextCounts, no_documents, screened
from pocketquery_corpus.engine import Engine, run_parts
from pocketquery_corpus.parts import ShardPart, finish_parts, open_parts
from pocketquery_corpus.vector_table import VectorTable, read_vector_table

__all__ = [
    "INFO",
    "EncodedCorpus",
    "EncodingReport",
    "encode_corpus",
    "encoded_parts",
]

INFO = "encoded.json"
_FORMAT, _VERSION = "pocketquery-encoded-corpus", 1
_FOLDER = FolderKind("an encoded corpus", INFO, _FORMAT, (INFO, "part-*"))
_TABLE = "documents.parquet"
_COUNTS = "counts.json"  # beside it: TextCounts of the shard


@dataclass(frozen=True)
class EncodingReport:
    """What was encoded.

    Attributes:
        path: the encoded corpus's folder.
        documents: in it.
        shards: they came from.
        resumed: of these, taken over from a run that was killed.
        space_id: of the vectors.
        dimension: of the vectors.
        bytes: of all files.
        seconds: that it took.
        max_length: tokens of a text that the encoder reads.
        texts: what was met among the documents of the shards.
    """

    path: str
    documents: int
    shards: int
    resumed: int
    space_id: str
    dimension: int
    bytes: int
    seconds: float
    max_length: int
    texts: TextCounts


@dataclass(frozen=True)
class EncodedCorpus:
    """An encoded corpus that was opened; its files are compared with their hashes as they are read.

    Attributes:
        path: its folder.
        space_id: of the vectors.
        dimension: of the vectors.
        encoded_by: what made them, where it is not the encoder that the space is named after.
        documents: in it.
        parts: (file, SHA-256) in the order of the shards.
        sha256: of the manifest, which names all of these.
    """

    path: Path
    space_id: str
    dimension: int
    encoded_by: str
    documents: int
    parts: tuple[tuple[str, str], ...]
    sha256: str

    @classmethod
    def open(cls, path: Path | str) -> EncodedCorpus:
        """Read the manifest of an encoded corpus.

        Raises:
            ArtifactNotFoundError: there is none.
            CorruptArtifactError: the manifest is not one.
            UnsupportedVersionError: a newer release wrote it.
        """
        path = Path(path)
        try:
            manifest = (path / INFO).read_bytes()
            fields = json.loads(manifest.decode("utf-8"))
        except FileNotFoundError as error:
            raise ArtifactNotFoundError(
                f"{path} is not an encoded corpus: it has no {INFO}; make one with: pocketquery "
                "encode-corpus"
            ) from error
        except ValueError as error:
            raise CorruptArtifactError(f"{path / INFO} is not JSON: {error}") from error
        try:
            if fields["format"] != _FORMAT:
                raise ValueError(f"its format is {fields['format']!r}")
            if fields["format_version"] > _VERSION:
                raise UnsupportedVersionError(
                    f"{path} has version {fields['format_version']}, this release reads {_VERSION}"
                )
            parts = tuple((str(one["file"]), str(one["sha256"])) for one in fields["parts"])
            space = fields["space"]
            return cls(
                path,
                str(space["id"]),
                int(space["dimension"]),
                str(fields["encoded_by"]),
                int(fields["documents"]),
                parts,
                sha256_bytes(manifest),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise CorruptArtifactError(
                f"{path / INFO} does not describe an encoded corpus ({error!r}); encode it again"
            ) from error

    def rows(self, shards: Sequence[str] = ()) -> Iterator[tuple[Document, NDArray[np.float32]]]:
        """Every document with its vector, float32 (dimension,), in the order of the shards.

        Args:
            shards: what the parts were made of, where it is known, for errors.

        Raises:
            ArtifactNotFoundError: a file is missing.
            CorruptArtifactError: a file is not what was written.
            CorpusError: an id comes twice; names both places.
        """
        names = shards or [str(self.path / name) for name, _ in self.parts]
        places = dict[str, Place]()
        private = is_private(self.path)
        for number, (name, sha256) in enumerate(self.parts):
            file = self.path / name
            if not file.is_file():
                raise ArtifactNotFoundError(f"{file}: there is no such file; encode it again")
            if sha256_file(file) != sha256:
                raise CorruptArtifactError(f"{file} was changed or cut; encode the corpus again")
            row = 0
            for documents, vectors in read_vector_table(file, self.space_id, COMMITTED_TOGETHER):
                for document in documents:
                    row += 1
                    here = (names[number], row)
                    if (before := places.setdefault(document.id, here)) != here:
                        raise CorpusError(
                            f"{here[0]}, document {row}: the id {document.id!r} of {before[0]}, "
                            f"document {before[1]}, again; expected a different id for every "
                            "document"
                        )
                owned = (replace(one, private=private) for one in documents)
                yield from zip(owned, vectors, strict=True)


@dataclass(frozen=True)
class _Encoding:
    """The work: a shard's documents and their vectors, as a table."""

    open_encoder: Callable[[], DocumentEncoder]
    batch_size: int
    passages: bool

    def open(self) -> Callable[[ShardPart], None]:
        encoder = self.open_encoder()
        table = VectorTable(encoder.space_id, encoder.dimension)
        return lambda part: self._make(part, encoder, table)

    def _make(self, part: ShardPart, encoder: DocumentEncoder, table: VectorTable) -> None:
        counts = TextCounts()
        read = read_documents(part.source)
        documents = screened(read, encoder, counts, passages=self.passages)
        with replace_folder(part.folder) as folder, table.writer(folder / _TABLE) as writer:
            while chunk := list(islice(documents, COMMITTED_TOGETHER)):
                vectors = encode_documents(chunk, encoder.encode, self.batch_size)
                writer.write_batch(table.batch(chunk, vectors))
            (folder / _COUNTS).write_text(json.dumps(asdict(counts)), encoding="utf-8")


def encode_corpus(
    corpus: Sequence[Path | str],
    open_encoder: Callable[[], DocumentEncoder],
    output: Path | str,
    *,
    batch_size: int = 64,
    engine: Engine | None = None,
    passages: bool = False,
    on_skipped: OnSkipped | None = None,
    show_progress_bar: bool = False,
) -> EncodingReport:
    """Encode the documents of ``corpus`` into the folder ``output``, one part a shard.

    A run that was killed, or met a bad shard, goes on with the shards that are missing; one that
    changed meanwhile is encoded again. Ids are unique within a shard; building an index compares
    them all.

    Args:
        corpus: files, patterns, folders and fsspec URLs of JSON Lines and Parquet files.
        open_encoder: the document encoder, opened in each worker (pickled to it), and here.
        output: the folder; an encoded corpus there is replaced when the new one is complete.
        batch_size: texts a call of the encoder.
        engine: where it is done; None for this process.
        passages: cut documents that are longer than the encoder reads, see
            :func:`~pocketquery.server.corpus.screening.screened`, which also leaves out
            documents without a word.
        on_skipped: told of each file in a folder that is not read, and why.
        show_progress_bar: shards done, rate and time left, on stderr.

    Raises:
        CorpusError: a shard cannot be read, or there are no documents; names file and line.
        ArtifactNotFoundError: a file is not there.
        InvalidInputError: a document cannot be stored; ``output`` holds something else.
        ArtifactError: another process works on the same output.
        MissingExtraError: pyarrow, fsspec or Ray is needed and not installed.
    """
    check_replaceable(Path(output), _FOLDER)
    with encoded_parts(
        corpus,
        open_encoder,
        output,
        batch_size=batch_size,
        engine=engine,
        passages=passages,
        on_skipped=on_skipped,
        show_progress_bar=show_progress_bar,
    ) as (folder, report):
        publish_folder(folder, Path(output))
    return report


@contextlib.contextmanager
def encoded_parts(
    corpus: Sequence[Path | str],
    open_encoder: Callable[[], DocumentEncoder],
    output: Path | str,
    *,
    batch_size: int = 64,
    engine: Engine | None = None,
    passages: bool = False,
    on_skipped: OnSkipped | None = None,
    show_progress_bar: bool = False,
) -> Iterator[tuple[Path, EncodingReport]]:
    """Yield the encoded corpus, complete, where its parts are made: beside ``output``.

    Left without an error it is removed, where nobody has published it; left through one, or by a
    kill, its parts stay for the next run. Arguments and errors as :func:`encode_corpus`.
    """
    if batch_size < 1:
        raise InvalidInputError(f"batch_size is {batch_size}, expected at least 1")
    start = time.perf_counter()
    shards = list_shards(corpus, on_skipped)
    encoder = open_encoder()
    VectorTable(encoder.space_id, encoder.dimension)  # is it installed?
    settings = {
        "format": [_FORMAT, _VERSION],
        "space": [encoder.space_id, encoder.dimension],
        "encoded_by": [encoder.name, encoder.digest],
        "batch_size": batch_size,
        "passages": passages,
    }
    private = any(map(is_private, chain.from_iterable(map(local_places, shards))))
    with open_parts(output, shards, settings, private=private) as parts:
        resumed = run_parts(
            parts,
            _Encoding(open_encoder, batch_size, passages),
            engine or Engine(),
            "encode",
            show=show_progress_bar,
        )
        folder = parts[0].folder.parent
        documents, texts = _seal(folder, parts, encoder)
        report = EncodingReport(
            path=str(output),
            documents=documents,
            shards=len(shards),
            resumed=resumed,
            space_id=encoder.space_id,
            dimension=encoder.dimension,
            bytes=sum(one.stat().st_size for one in folder.rglob("*") if one.is_file()),
            seconds=time.perf_counter() - start,
            max_length=encoder.max_length,
            texts=texts,
        )
        yield folder, report


def _seal(
    folder: Path, parts: Sequence[ShardPart], encoder: DocumentEncoder
) -> tuple[int, TextCounts]:
    """Write the manifest; how many documents there are, and what was met among them."""
    import pyarrow.parquet

    counts = [pyarrow.parquet.read_metadata(one.folder / _TABLE).num_rows for one in parts]
    texts = TextCounts()
    for one in parts:
        texts += TextCounts(**json.loads((one.folder / _COUNTS).read_text("utf-8")))
    if not sum(counts):
        raise no_documents(texts)
    described = [
        {
            "file": f"{one.folder.name}/{_TABLE}",
            "documents": count,
            "sha256": sha256_file(one.folder / _TABLE),
        }
        for one, count in zip(parts, counts, strict=True)
    ]
    fields = {
        "format": _FORMAT,
        "format_version": _VERSION,
        "space": {"id": encoder.space_id, "dimension": encoder.dimension},
        "encoded_by": encoder.name,
        "documents": sum(counts),
        "parts": described,
    }
    finish_parts(folder, parts, INFO, json.dumps(fields, indent=1) + "\n")
    return sum(counts), texts

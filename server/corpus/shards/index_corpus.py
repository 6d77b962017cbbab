"""``pocketquery index --corpus`` and ``--encoded``: the entry point ``corpus`` of the group
``pocketquery.corpora``."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, fields
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from pocketquery.sdk.bundle.signature import Key
from pocketquery.sdk.errors import CorpusError, InvalidInputError
from pocketquery.sdk.files import real_path
from pocketquery.sdk.index.documents import Document
from pocketquery.sdk.indexing.building import (
    Done,
    IndexReport,
    Vectors,
    build_index,
    build_index_of_rows,
)
from pocketquery.sdk.indexing.command import CorpusNotes
from pocketquery.sdk.indexing.document_encoder import EncoderSource
from pocketquery.sdk.indexing.options import chosen_encoder
from pocketquery.sdk.progress import Progress
from pocketquery.server.corpus.readers.documents import Place, read_documents
from pocketquery.server.corpus.shards.encoding import EncodedCorpus, encoded_parts
from pocketquery.server.corpus.shards.engine import Engine, chosen_engine
from pocketquery.server.corpus.shards.listing import list_shards
from pocketquery.server.corpus.shards.screening import TextCounts, no_documents, screened
from pocketquery.server.corpus.shards.teacher_encoder import absolute_source

__all__ = ["CorpusIndexReport", "build_encoded_index", "index_corpus"]


@dataclass(frozen=True)
class CorpusIndexReport(IndexReport):
    """What was built of a corpus.

    Attributes:
        texts: counts of what its documents were.
    """

    texts: TextCounts | None = None


def index_corpus(arguments: argparse.Namespace, notes: CorpusNotes) -> IndexReport:
    """Build the index that the options of ``pocketquery index`` ask for."""
    if arguments.encoded is not None:
        for name in ("teacher", "symmetric", "bundle", "public_key"):
            if getattr(arguments, name):
                raise InvalidInputError(
                    f"--{name.replace('_', '-')} is given with --encoded, whose vectors are made; "
                    "give it to encode-corpus, and leave it out here"
                )
        return build_encoded_index(
            arguments.encoded,
            arguments.output,
            show_progress_bar=True,
            signing_key=arguments.signing_key,
            language=arguments.language,
        )
    engine, source, counts = chosen_engine(arguments), chosen_encoder(arguments), TextCounts()
    if engine is None:
        report = _index_here(arguments, source, counts, notes)
    else:
        report = _index_by_shards(arguments, source, engine, counts, notes)
    values = {one.name: getattr(report, one.name) for one in fields(report)}
    return CorpusIndexReport(**values, texts=counts)


def build_encoded_index(
    corpus: Path | str,
    output: Path | str,
    *,
    shards: Sequence[str] = (),
    show_progress_bar: bool = False,
    signing_key: Key | None = None,
    language: str | None = None,
) -> IndexReport:
    """Build an index at ``output`` of a corpus that ``encode_corpus`` encoded.

    Its bytes are those of :func:`~pocketquery.sdk.indexing.building.build_index` where the vectors
    are.

    Args:
        corpus: the encoded corpus's folder.
        output: the folder; an index that is there is replaced when the new one is complete.
        shards: what its parts were made of, where it is known, for errors.
        show_progress_bar: documents done, rate and time left, on stderr.
        signing_key: an Ed25519 private key to sign the index with.
        language: of the texts; None: it is found.

    Raises:
        ArtifactNotFoundError, CorruptArtifactError, UnsupportedVersionError: the encoded corpus
            cannot be used.
        CorpusError, InvalidInputError, ArtifactError: as ``build_index`` does.
    """
    encoded = EncodedCorpus.open(corpus)

    def stored(_: Sequence[Document], vectors: Sequence[Any], done: Done) -> Vectors:
        done(len(vectors))
        return lambda: np.stack(vectors)

    return build_index_of_rows(
        encoded.rows(shards),
        stored,
        output,
        Progress(encoded.documents, "index", "documents") if show_progress_bar else None,
        space_id=encoded.space_id,
        dimension=encoded.dimension,
        encoded_by=encoded.encoded_by,
        encoder_digest=encoded.sha256,
        signing_key=signing_key,
        language=language,
    )


def _index_by_shards(
    arguments: argparse.Namespace,
    source: EncoderSource,
    engine: Engine,
    counts: TextCounts,
    notes: CorpusNotes,
) -> IndexReport:
    place = real_path(arguments.output)
    with encoded_parts(
        arguments.corpus,
        absolute_source(source).open,
        place.parent / f".{place.name}.encoded",
        batch_size=arguments.batch_size,
        engine=engine,
        passages=arguments.passages,
        on_skipped=notes.skip,
        show_progress_bar=True,
    ) as (folder, encoding):  # kept until the index is built: encoding takes longer
        counts += encoding.texts
        notes.lines += counts.lines(encoding.max_length)
        return build_encoded_index(
            folder,
            arguments.output,
            shards=list_shards(arguments.corpus),
            show_progress_bar=True,
            signing_key=arguments.signing_key,
            language=arguments.language,
        )


def _index_here(
    arguments: argparse.Namespace, source: EncoderSource, counts: TextCounts, notes: CorpusNotes
) -> IndexReport:
    places = dict[str, Place]()
    shards = list_shards(arguments.corpus, notes.skip)
    encoder = source.open()
    documents = chain.from_iterable(read_documents(shard, places) for shard in shards)
    try:
        report = build_index(
            screened(documents, encoder, counts, passages=arguments.passages),
            encoder.encode,
            arguments.output,
            space_id=encoder.space_id,
            dimension=encoder.dimension,
            batch_size=arguments.batch_size,
            encoded_by=encoder.name,
            encoder_digest=encoder.digest,
            show_progress_bar=True,
            signing_key=arguments.signing_key,
            language=arguments.language,
            threads=encoder.threads,
        )
    except CorpusError as error:
        if counts.without_words == counts.documents > 0:
            raise no_documents(counts) from error
        raise
    notes.lines += counts.lines(encoder.max_length)
    return report

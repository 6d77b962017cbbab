"""An index of shards: the entry point ``shards`` of the group ``pocketquery.corpora``, which
``pocketquery index`` calls with ``--engine`` or ``--encoded``."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pocketquery.sdk.bundle.signature import Key
from pocketquery.sdk.errors import InvalidInputError
from pocketquery.sdk.files import real_path
from pocketquery.sdk.index.documents import Document
from pocketquery.sdk.indexing.building import Done, IndexReport, Vectors, build_index_of_rows
from pocketquery.sdk.indexing.command import CorpusNotes
from pocketquery.sdk.indexing.options import chosen_encoder
from pocketquery.sdk.progress import Progress
from pocketquery.server.corpus.index_corpus import CorpusIndexReport
from pocketquery.server.corpus.listing import list_shards
from pocketquery_corpus.encoder_source import absolute_source
from pocketquery_corpus.encoding import EncodedCorpus, encoded_parts
from pocketquery_corpus.engine import chosen_engine

__all__ = ["build_encoded_index", "index_shards"]


def index_shards(arguments: argparse.Namespace, notes: CorpusNotes) -> IndexReport:
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
    source = chosen_encoder(arguments)
    place = real_path(arguments.output)
    with encoded_parts(
        arguments.corpus,
        absolute_source(source).open,
        place.parent / f".{place.name}.encoded",
        batch_size=arguments.batch_size,
        engine=chosen_engine(arguments),
        passages=arguments.passages,
        on_skipped=notes.skip,
        show_progress_bar=True,
    ) as (folder, encoding):  # kept until the index is built: encoding takes longer
        notes.lines += encoding.texts.lines(encoding.max_length)
        report = build_encoded_index(
            folder,
            arguments.output,
            shards=list_shards(arguments.corpus),
            show_progress_bar=True,
            signing_key=arguments.signing_key,
            language=arguments.language,
        )
        return CorpusIndexReport.of(report, encoding.texts)


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

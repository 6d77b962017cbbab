"""``pocketquery index --corpus``: the entry point ``corpus`` of the group
``pocketquery.corpora``. With ``--engine`` or ``--encoded`` the entry point ``shards`` of
packages/pocketquery-corpus builds the index."""

from __future__ import annotations

import argparse
from dataclasses import dataclass, fields
from itertools import chain

from pocketquery.sdk.errors import CorpusError
from pocketquery.sdk.indexing.building import IndexReport, build_index
from pocketquery.sdk.indexing.command import CorpusNotes
from pocketquery.sdk.indexing.options import chosen_encoder, names_engine
from pocketquery.sdk.plugins import load_plugin
from pocketquery.server.corpus.listing import list_shards
from pocketquery.server.corpus.readers.documents import Place, read_documents
from pocketquery.server.corpus.screening import TextCounts, no_documents, screened

__all__ = ["CorpusIndexReport", "index_corpus"]


@dataclass(frozen=True)
class CorpusIndexReport(IndexReport):
    """What was built of a corpus.

    Attributes:
        texts: counts of what its documents were.
    """

    texts: TextCounts | None = None

    @classmethod
    def of(cls, report: IndexReport, texts: TextCounts) -> CorpusIndexReport:
        """``report`` with the counts."""
        return cls(**{one.name: getattr(report, one.name) for one in fields(report)}, texts=texts)


def index_corpus(arguments: argparse.Namespace, notes: CorpusNotes) -> IndexReport:
    """Build the index that the options of ``pocketquery index`` ask for."""
    if arguments.encoded is not None or names_engine(arguments):
        index_shards = load_plugin("pocketquery.corpora", "shards", "./packages/pocketquery-corpus")
        report: IndexReport = index_shards(arguments, notes)
        return report
    source, counts, places = chosen_encoder(arguments), TextCounts(), dict[str, Place]()
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
    return CorpusIndexReport.of(report, counts)

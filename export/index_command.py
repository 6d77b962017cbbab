"""``pocketquery index``: a corpus or a folder of texts becomes what devices search."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from collections.abc import Iterable
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pocketquery.sdk.commands import add_command
from pocketquery.sdk.errors import CorpusError, InvalidInputError
from pocketquery.sdk.files import real_path
from pocketquery.sdk.index.documents import Document
from pocketquery.server.corpus.shards.options import (
    add_encoder,
    add_engine,
    add_passages,
    chosen_encoder,
    chosen_engine,
    print_skipped,
)
from pocketquery.server.corpus.shards.screening import TextCounts, no_documents, screened

if TYPE_CHECKING:
    from pocketquery.export.indexing import IndexReport

__all__ = ["index"]

_EPILOG = """\
examples:
  pocketquery index --documents notes/ --output index
  pocketquery index --documents notes/ --output index --symmetric
  pocketquery index --corpus corpus.jsonl.gz --output index
  pocketquery index --corpus corpus.jsonl --teacher BAAI/bge-small-en-v1.5 --output index
  pocketquery index --corpus corpus.jsonl --bundle bundle --output index --json
  pocketquery index --corpus corpus.jsonl --output index --signing-key publisher.pem
  pocketquery index --corpus 'corpus/*.parquet' --engine ray --workers 8 --output index
  pocketquery index --encoded encoded --output index

Killed and run again with the same documents, it continues where it was. Without --teacher and
--symmetric the teacher of the built-in encoder encodes (extra "demo").
"""


def index(subparsers: Any) -> None:
    """Add ``pocketquery index`` to the shell's parsers."""
    parser = add_command(
        subparsers,
        "index",
        "Encode documents and build the index that devices search.",
        _EPILOG,
        _index,
    )
    add = parser.add_argument
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument(
        "--corpus",
        nargs="+",
        metavar="PATH",
        help="JSON Lines (plain, gzip or xz) or Parquet: files, patterns, folders, fsspec URLs",
    )
    source.add_argument(
        "--documents", metavar="FOLDER", help="text, Markdown, reStructuredText and HTML files"
    )
    source.add_argument("--encoded", metavar="FOLDER", help="what encode-corpus wrote")
    add("--output", required=True, metavar="FOLDER", help="the index; one there is replaced")
    add_passages(parser)
    add_encoder(parser)
    add_engine(parser)
    add("--signing-key", metavar="FILE", help="Ed25519 private key: PEM file or 64 hex digits")
    add("--json", action="store_true", help="print one JSON object")


def _index(arguments: argparse.Namespace) -> int:
    skipped, notes, counts = list[tuple[str, str]](), list[str](), TextCounts()
    try:
        report = _built(arguments, skipped, notes, counts)
    except KeyboardInterrupt:
        print("interrupted; run it again to continue", file=sys.stderr)
        raise
    finally:  # where nothing could be read, they say why
        print_skipped(skipped)
    for line in notes:
        print(line, file=sys.stderr)
    if arguments.json:
        texts = {} if arguments.corpus is None else {"texts": dataclasses.asdict(counts)}
        print(json.dumps(dataclasses.asdict(report) | texts))
        return 0
    print(f"{report.path}: {report.documents} documents, {report.bytes / 1e6:.1f} MB")
    print(f"  space      {report.space_id}, {report.dimension} dimensions")
    if report.encoded_by:
        print(f"  encoded    by the light encoder {report.encoded_by}")
    if report.resumed:
        print(f"  resumed    {report.resumed} documents were encoded by an earlier run")
    print(f"  time       {report.seconds:.1f} s")
    if report.signature_key_id:
        print(f"  signed by  {report.signature_key_id}")
    return 0


def _built(
    arguments: argparse.Namespace,
    skipped: list[tuple[str, str]],
    notes: list[str],
    counts: TextCounts,
) -> IndexReport:
    from pocketquery.export.indexing import build_encoded_index, build_index
    from pocketquery.server.corpus.readers.documents import Place, read_documents
    from pocketquery.server.corpus.shards.encoding import encoded_parts
    from pocketquery.server.corpus.shards.listing import list_shards

    def not_read(path: Path | str, why: str) -> None:
        skipped.append((str(path), why))

    engine = chosen_engine(arguments)
    if arguments.corpus is None and engine is not None:
        raise InvalidInputError("--engine is given without --corpus, whose shards it encodes")
    if arguments.corpus is None and arguments.passages:
        raise InvalidInputError(
            "--passages is given without --corpus; folders of texts are cut into passages anyway, "
            "and encode-corpus has it, too"
        )
    rest = {"show_progress_bar": True, "signing_key": arguments.signing_key}
    if arguments.encoded is not None:
        for name in ("teacher", "symmetric", "bundle", "public_key"):
            if getattr(arguments, name):
                raise InvalidInputError(
                    f"--{name.replace('_', '-')} is given with --encoded, whose vectors are made; "
                    "give it to encode-corpus, and leave it out here"
                )
        return build_encoded_index(arguments.encoded, arguments.output, **rest)
    source = chosen_encoder(arguments)
    if engine is not None:
        place = real_path(arguments.output)
        encoded = place.parent / f".{place.name}.encoded"
        with encoded_parts(
            arguments.corpus,
            source.absolute().open,
            encoded,
            batch_size=arguments.batch_size,
            engine=engine,
            passages=arguments.passages,
            on_skipped=not_read,
            show_progress_bar=True,
        ) as (folder, encoding):  # kept until the index is built: encoding takes longer
            counts += encoding.texts
            notes += counts.lines(encoding.max_length)
            shards = list_shards(arguments.corpus)
            return build_encoded_index(folder, arguments.output, shards=shards, **rest)
    documents: Iterable[Document]
    if arguments.documents is not None:
        from pocketquery.sdk.text_folders.text_folder import SUFFIXES, read_folder

        passages = read_folder(arguments.documents, on_skipped=not_read)
        if (first := next(passages, None)) is None:
            raise CorpusError(
                f"{arguments.documents}: found no file with text; expected files that end in "
                f"{', '.join(filter(None, SUFFIXES))}. JSON Lines and Parquet are for --corpus"
            )
        documents = chain([first], passages)
        encoder = source.open()
    else:
        places = dict[str, Place]()
        shards = list_shards(arguments.corpus, not_read)
        encoder = source.open()
        read = chain.from_iterable(read_documents(shard, places) for shard in shards)
        documents = screened(read, encoder, counts, passages=arguments.passages)
    try:
        report = build_index(
            documents,
            encoder.encode,
            arguments.output,
            space_id=encoder.space_id,
            dimension=encoder.dimension,
            batch_size=arguments.batch_size,
            encoded_by=encoder.name,
            encoder_digest=encoder.digest,
            **rest,
        )
    except CorpusError as error:
        if counts.without_words == counts.documents > 0:
            raise no_documents(counts) from error
        raise
    notes += counts.lines(encoder.max_length)
    return report

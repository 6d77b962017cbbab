"""``pocketquery index``: a folder of texts becomes an index.

So does a corpus of many files, where a package that reads one is installed.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING, Any

from pocketquery.sdk.commands import add_command
from pocketquery.sdk.errors import CorpusError, InvalidInputError
from pocketquery.sdk.indexing.options import (
    add_encoder,
    add_engine,
    add_files,
    add_passages,
    chosen_encoder,
    print_skipped,
    print_skipped_files,
)
from pocketquery.sdk.plugins import load_plugin

if TYPE_CHECKING:
    from pocketquery.sdk.index.documents import Document
    from pocketquery.sdk.indexing.building import IndexReport
    from pocketquery.sdk.indexing.document_encoder import DocumentEncoder
    from pocketquery.sdk.text_folders.listing import Skipped

__all__ = ["CorpusNotes", "index"]

_EPILOG = """\
examples:
  pocketquery index ~/notes && pocketquery search "what did I plant in March"
  pocketquery index --documents notes/ --output index
  pocketquery index --documents notes/ --output index --teacher demo
  pocketquery index --corpus corpus.jsonl.gz --output index
  pocketquery index --corpus corpus.jsonl --teacher BAAI/bge-small-en-v1.5 --output index
  pocketquery index --corpus corpus.jsonl --bundle bundle --output index --json
  pocketquery index --corpus corpus.jsonl --output index --signing-key publisher.pem
  pocketquery index --corpus 'corpus/*.parquet' --engine ray --workers 8 --output index
  pocketquery index --encoded encoded --output index

Killed and run again with the same documents, it continues where it was. Without --output the index
of a folder is the one that pocketquery search finds by itself: $POCKETQUERY_INDEX, else
pocketquery/index in your data folder.
"""
_SOURCES = ("folder", "documents", "corpus", "encoded")


class CorpusNotes:
    """What a user should know of the documents that were read.

    Attributes:
        skipped: path and reason of each file that was not read.
        files: of a folder, that were not read.
        lines: further lines for stderr.
    """

    def __init__(self) -> None:
        self.skipped: list[tuple[str, str]] = []
        self.files: list[Skipped] = []
        self.lines: list[str] = []

    def skip(self, path: object, why: str) -> None:
        """Note that a file was not read."""
        self.skipped.append((str(path), why))


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
    add("folder", nargs="?", metavar="FOLDER", help="the same as --documents")
    add("--documents", metavar="FOLDER", help="text, Markdown, HTML, PDF, Word and other files")
    add(
        "--corpus",
        nargs="+",
        metavar="PATH",
        help="JSON Lines (plain, gzip or xz) or Parquet: files, patterns, folders, fsspec URLs",
    )
    add("--encoded", metavar="FOLDER", help="what encode-corpus wrote")
    add("--output", metavar="FOLDER", help="the index; one there is replaced (default: see below)")
    add_files(parser)
    add_passages(parser)
    add_encoder(parser)
    add_engine(parser)
    add("--signing-key", metavar="FILE", help="Ed25519 private key: PEM file or 64 hex digits")
    add("--json", action="store_true", help="print one JSON object")


def _index(arguments: argparse.Namespace) -> int:
    notes = CorpusNotes()
    try:
        report = _build(arguments, notes)
    except KeyboardInterrupt:
        print("interrupted; run it again to continue", file=sys.stderr)
        raise
    finally:  # where nothing could be read, they say why
        print_skipped(notes.skipped)
        print_skipped_files(notes.files, arguments.verbose)
    for line in notes.lines:
        print(line, file=sys.stderr)
    if arguments.json:
        print(json.dumps(dataclasses.asdict(report)))
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


def _build(arguments: argparse.Namespace, notes: CorpusNotes) -> IndexReport:
    sources = [name for name in _SOURCES if getattr(arguments, name) is not None]
    if len(sources) != 1:
        named = ", ".join("FOLDER" if name == "folder" else f"--{name}" for name in sources)
        raise InvalidInputError(
            f"found {named or 'no documents'}, expected one of FOLDER, --documents, --corpus and "
            "--encoded; for example: pocketquery index ~/notes"
        )
    if arguments.corpus is None:
        _check_only_for_corpora(arguments)
    if sources[0] in ("corpus", "encoded"):
        if arguments.output is None:
            raise InvalidInputError(f"--{sources[0]} is given without --output; name the index")
        index_corpus = load_plugin("pocketquery.corpora", "corpus", "shards")
        report: IndexReport = index_corpus(arguments, notes)
        return report
    return _index_folder(getattr(arguments, sources[0]), arguments, notes)


def _check_only_for_corpora(arguments: argparse.Namespace) -> None:
    if arguments.engine is not None:
        raise InvalidInputError("--engine is given without --corpus, whose shards it encodes")
    if arguments.workers is not None or arguments.ray_address is not None:
        raise InvalidInputError("--workers and --ray-address go with --engine ray")
    if arguments.passages:
        raise InvalidInputError(
            "--passages is given without --corpus; folders of texts are cut into passages anyway, "
            "and encode-corpus has it, too"
        )


def _index_folder(folder: str, arguments: argparse.Namespace, notes: CorpusNotes) -> IndexReport:
    from pocketquery.sdk.indexing.building import build_index
    from pocketquery.sdk.indexing.default_index import claim_default_index

    encoder = chosen_encoder(arguments).open()
    documents = _documents(folder, arguments, encoder, notes)
    output = arguments.output
    return build_index(
        documents,
        encoder.encode,
        claim_default_index(folder) if output is None else output,
        space_id=encoder.space_id,
        dimension=encoder.dimension,
        batch_size=arguments.batch_size,
        encoded_by=encoder.name,
        encoder_digest=encoder.digest,
        show_progress_bar=True,
        signing_key=arguments.signing_key,
    )


def _documents(
    folder: str, arguments: argparse.Namespace, encoder: DocumentEncoder, notes: CorpusNotes
) -> Iterator[Document]:
    """The passages of a folder; there is at least one."""
    from pocketquery.sdk.text_folders.listing import SUFFIXES
    from pocketquery.sdk.text_folders.text_folder import read_folder

    passages = read_folder(
        folder,
        include=arguments.include,
        exclude=arguments.exclude,
        tokens=encoder.count_tokens,
        most=encoder.max_length - 1,
        on_skipped=notes.files.append,
    )
    if (first := next(passages, None)) is None:
        raise CorpusError(
            f"{folder}: found no file with text; expected files that end in "
            f"{', '.join(filter(None, SUFFIXES))}. JSON Lines and Parquet are for --corpus"
        )
    return chain([first], passages)

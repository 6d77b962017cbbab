"""``pocketquery encode-corpus``: documents and their vectors, encoded once for any index."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from typing import Any

from pocketquery.sdk.commands import add_command
from pocketquery.sdk.indexing.options import (
    add_encoder,
    add_engine,
    add_passages,
    chosen_encoder,
    print_skipped,
)
from pocketquery_corpus.engine import chosen_engine

__all__ = ["encode_corpus_command"]

_EPILOG = """\
examples:
  pocketquery encode-corpus --corpus 'corpus/*.jsonl.gz' --output encoded
  pocketquery encode-corpus --corpus corpus/ --engine ray --workers 8 --output encoded
  pocketquery encode-corpus --corpus s3://bucket/corpus --teacher BAAI/bge-small-en-v1.5 \\
      --engine ray --output encoded
  pocketquery index --encoded encoded --output index

Each shard becomes a part of its own (Parquet: id, text, metadata, vector). Killed and run again, it
goes on with the shards that are missing; both engines write the same bytes.
"""


def encode_corpus_command(subparsers: Any) -> None:
    """Add ``pocketquery encode-corpus`` to the shell's parsers."""
    parser = add_command(
        subparsers,
        "encode-corpus",
        "Encode the documents of many files into Parquet, shard by shard.",
        _EPILOG,
        _encode_corpus,
    )
    add = parser.add_argument
    add(
        "--corpus",
        nargs="+",
        required=True,
        metavar="PATH",
        help="JSON Lines (plain, gzip or xz) or Parquet: files, patterns, folders, fsspec URLs",
    )
    add("--output", required=True, metavar="FOLDER", help="the encoded corpus; one is replaced")
    add_passages(parser)
    add_encoder(parser)
    add_engine(parser)
    add("--json", action="store_true", help="print one JSON object")


def _encode_corpus(arguments: argparse.Namespace) -> int:
    from pocketquery_corpus.encoder_source import absolute_source
    from pocketquery_corpus.encoding import encode_corpus

    skipped = list[tuple[str, str]]()
    try:
        report = encode_corpus(
            arguments.corpus,
            absolute_source(chosen_encoder(arguments)).open,
            arguments.output,
            batch_size=arguments.batch_size,
            engine=chosen_engine(arguments),
            passages=arguments.passages,
            on_skipped=lambda path, why: skipped.append((path, why)),
            show_progress_bar=True,
        )
    finally:  # where nothing could be read, they say why
        print_skipped(skipped)
    for line in report.texts.lines(report.max_length):
        print(line, file=sys.stderr)
    if arguments.json:
        print(json.dumps(dataclasses.asdict(report)))
        return 0
    size = f"{report.bytes / 1e6:.1f} MB"
    print(f"{report.path}: {report.documents} documents of {report.shards} shards, {size}")
    print(f"  space      {report.space_id}, {report.dimension} dimensions")
    if report.resumed:
        print(f"  resumed    {report.resumed} shards were encoded by an earlier run")
    print(f"  time       {report.seconds:.1f} s")
    return 0

"""``pocketquery mine store``."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from pocketquery.sdk.indexing.options import add_engine
from pocketquery.server.corpus.mining.inputs import add_inputs, named_input
from pocketquery.server.corpus.mining.outputs import add_memory, add_mode, add_output, write_store

__all__ = ["add_store"]

_EPILOG = """\
examples:
  pocketquery mine store --documents articles.jsonl.gz --output articles
  pocketquery mine store --documents a.txt b.txt --document-unit file --lang en --output texts
  pocketquery mine store --sessions train.jsonl.gz --output sessions
  pocketquery mine store --pairs table.tsv --columns question,answer --output pairs
  pocketquery mine store --queries log.tsv --unique --output queries
  pocketquery mine store --documents 'articles/*.parquet' --engine ray --output articles

A store is a folder that is mapped into memory: a corpus larger than memory trains from it. Raw
files are read one group at a time. A store that is there is replaced in one step, at the end.
"""


def add_store(modes: Any) -> None:
    """Add the mode's parser."""
    parser = add_mode(modes, "store", "raw files as a store that pretrain reads", _EPILOG)
    add_inputs(parser, "documents", "sessions", "pairs", "triples", "queries")
    parser.add_argument("--unique", action="store_true", help="equal groups once, in random order")
    parser.add_argument("--shuffle", action="store_true", help="random order, also of equal ones")
    add_engine(parser)
    add_memory(parser)
    add_output(parser, _store)


def _store(arguments: argparse.Namespace) -> int:
    from pocketquery.server.corpus.mining.inputs import mined_groups, unchanged
    from pocketquery.server.corpus.mining.shuffled_groups import shuffle_groups, unique_groups
    from pocketquery.server.corpus.store_writer import check_store_replaceable

    output = Path(arguments.output)
    check_store_replaceable(output)  # before hours of work
    kind, _ = named_input(arguments)
    with mined_groups(arguments, output, unchanged, kind, "") as groups:
        if arguments.unique or arguments.shuffle:
            ordered = unique_groups if arguments.unique else shuffle_groups
            groups = ordered(groups, arguments.seed, output, memory=arguments.memory << 20)
        return write_store(output, groups, kind, arguments)

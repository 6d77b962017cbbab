"""``pocketquery mine store`` and ``mine pairs``: groups of texts, as a store."""

from __future__ import annotations

import argparse
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from pocketquery.sdk.indexing.options import add_engine
from pocketquery.sdk.settings.command_line import add_options, read_options
from pocketquery.server.corpus.mining.inputs import add_inputs, named_input
from pocketquery.server.corpus.mining.lcs_pairs import LcsConfig
from pocketquery.server.corpus.mining.outputs import add_memory, add_mode, add_output, write_store

__all__ = ["add_pairs", "add_store"]

_STORE_EXAMPLES = """\
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
    parser = add_mode(modes, "store", "raw files as a store that pretrain reads", _STORE_EXAMPLES)
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


_PAIRS_EXAMPLES = """\
examples:
  pocketquery mine pairs --documents articles.jsonl.gz --output pairs
  pocketquery mine pairs --documents articles --candidates title --no-lcs --output titles
  pocketquery mine pairs --documents 'articles/*.jsonl.gz' --engine ray --output pairs

Two texts of a document are a pair where they share a long enough string (GUR): three ideographs or
ten letters, two ideographs between short texts. Letter case and spelling make no difference. Pairs
with equal texts are kept once, and the order is random.
"""


def add_pairs(modes: Any) -> None:
    """Add the mode's parser."""
    parser = add_mode(modes, "pairs", "pairs of texts that belong together", _PAIRS_EXAMPLES)
    add_inputs(parser, "documents")
    add_options(parser.add_argument_group("pairs"), LcsConfig)
    add_engine(parser)
    add_memory(parser)
    add_output(parser, _pairs)


def _pairs(arguments: argparse.Namespace) -> int:
    from pocketquery.server.corpus.mining.inputs import mined_groups
    from pocketquery.server.corpus.mining.lcs_pairs import mine_pairs
    from pocketquery.server.corpus.mining.shuffled_groups import unique_groups
    from pocketquery.server.corpus.store_writer import check_store_replaceable

    output = Path(arguments.output)
    check_store_replaceable(output)
    config = replace(read_options(LcsConfig, arguments), seed=arguments.seed)
    mine = partial(mine_pairs, config=config)
    with mined_groups(arguments, output, mine, "pairs", repr(config)) as pairs:
        unique = unique_groups(pairs, arguments.seed, output, memory=arguments.memory << 20)
        return write_store(output, unique, "pairs", arguments)

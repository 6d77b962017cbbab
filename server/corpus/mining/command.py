"""``pocketquery mine``: training data from raw texts."""

from __future__ import annotations

from typing import Any

from pocketquery.sdk.commands import add_command

__all__ = ["mine"]

_EPILOG = """\
examples:
  pocketquery mine store --documents articles.jsonl.gz --lang en --output articles
  pocketquery mine pairs --documents articles --output pairs
  pocketquery mine triples --dataset scifact/ --split train --output triples
  pocketquery mine tokenizer --documents articles --vocabulary 8000 --output tokenizer

What each writes, pocketquery pretrain reads: --documents articles, --pairs pairs,
--triples triples, --tokenizer tokenizer. Each has its own help: pocketquery mine pairs --help
"""


def mine(subparsers: Any) -> None:
    """Add the sub-command to the shell's parsers."""
    # What is heavy is imported only where it is needed: the shell loads every command's module.
    from pocketquery.server.corpus.mining.mine_groups import add_pairs, add_store
    from pocketquery.server.corpus.mining.mine_tokenizer import add_tokenizer
    from pocketquery.server.corpus.mining.mine_triples import add_triples

    parser = add_command(
        subparsers,
        "mine",
        "Make training data of raw texts: stores, pairs, triples.",
        _EPILOG,
    )
    modes = parser.add_subparsers(dest="mode", metavar="what", required=True)
    for add in (add_store, add_pairs, add_triples, add_tokenizer):
        add(modes)

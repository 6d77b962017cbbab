"""``pocketquery mine pairs``."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pocketquery.sdk.errors import InvalidInputError
from pocketquery.sdk.indexing.options import add_engine
from pocketquery.server.corpus.mining.inputs import add_inputs, named_input
from pocketquery.server.corpus.mining.outputs import add_memory, add_mode, add_output, write_store

if TYPE_CHECKING:
    from pocketquery.server.corpus.groups import Group

__all__ = ["add_pairs"]

# A configuration has the defaults: None is what was not given.
_OPTIONS = {
    "documents": (
        "candidates", "max_gap", "no_lcs", "strict_weight", "relaxed_weight", "near_duplicate",
        "repeat",
    ),
    "sessions": ("policy", "per_session"),
}  # fmt: skip
_EPILOG = """\
examples:
  pocketquery mine pairs --documents articles.jsonl.gz --output pairs
  pocketquery mine pairs --documents articles --candidates title --no-lcs --output titles
  pocketquery mine pairs --sessions train.jsonl.gz --policy adjacent --output turns
  pocketquery mine pairs --documents 'articles/*.jsonl.gz' --engine ray --output pairs

From documents: texts of one document that share a long enough string (GUR): three ideographs or ten
letters, two ideographs between short texts; in letter case and spelling made one. From sessions: a
user's turn and an agent's (Auto-MLM; its objective reads sessions themselves, too). Pairs with
equal texts are kept once, and the order is random.
"""


def add_pairs(modes: Any) -> None:
    """Add the mode's parser."""
    parser = add_mode(modes, "pairs", "pairs of texts that belong together", _EPILOG)
    add_inputs(parser, "documents", "sessions")
    add = parser.add_argument_group("pairs of documents").add_argument
    add(
        "--candidates",
        metavar="WHICH",
        help="title, within (sentences) or both (default)",
    )
    add(
        "--max-gap",
        type=int,
        metavar="N",
        help="sentences apart at most (default: 100)",
    )
    add(
        "--no-lcs",
        action="store_true",
        default=None,
        help="keep any candidate, however little is shared",
    )
    add(
        "--strict-weight",
        type=int,
        metavar="N",
        help="3 a letter, 10 an ideograph (default: 30)",
    )
    add(
        "--relaxed-weight",
        type=int,
        metavar="N",
        help="of short ideographic ones (default: 20)",
    )
    add("--near-duplicate", type=int, metavar="PERCENT", help="shared (default: 90)")
    add(
        "--repeat",
        type=int,
        metavar="N",
        help="pairs that a text is in at most (default: 2)",
    )
    add = parser.add_argument_group("pairs of sessions").add_argument
    add("--policy", metavar="WHICH", help="any (default) or adjacent turns")
    add(
        "--per-session",
        type=int,
        metavar="N",
        help="pairs of a session at most (default: 4)",
    )
    parser.add_argument(
        "--length",
        metavar="WHICH",
        default="all",
        help="all (default), short (below 64 characters) or long",
    )
    add_engine(parser)
    add_memory(parser)
    add_output(parser, _pairs)


def _pairs(arguments: argparse.Namespace) -> int:
    from pocketquery.server.corpus.mining.length_classes import of_length
    from pocketquery.server.corpus.mining.sharded import mined_groups
    from pocketquery.server.corpus.mining.shuffled_groups import unique_groups
    from pocketquery.server.corpus.store_writer import check_store_replaceable

    output = Path(arguments.output)
    check_store_replaceable(output)
    mine = _mine(arguments)
    with mined_groups(arguments, output, mine, "pairs", repr(mine.keywords)) as mined:
        pairs = of_length(mined, arguments.length)
        unique = unique_groups(pairs, arguments.seed, output, memory=arguments.memory << 20)
        return write_store(output, unique, "pairs", arguments)


def _mine(arguments: argparse.Namespace) -> partial[Iterator[Group]]:
    from pocketquery.server.corpus.mining.lcs_pairs import LcsConfig, mine_pairs
    from pocketquery.server.corpus.mining.session_pairs import (
        SessionPairsConfig,
        mine_session_pairs,
    )

    kind, _ = named_input(arguments)
    given = {
        of: {name: value for name in names if (value := getattr(arguments, name)) is not None}
        for of, names in _OPTIONS.items()
    }
    for other in _OPTIONS.keys() - {kind}:
        for name in given[other]:
            raise InvalidInputError(
                f"found --{name.replace('_', '-')} beside --{kind}; it is of pairs of {other}: "
                "leave it out"
            )
    settings = given[kind]
    if kind == "sessions":
        if "per_session" in settings:
            settings["pairs"] = settings.pop("per_session")
        turns = SessionPairsConfig(**settings, seed=arguments.seed)
        return partial(mine_session_pairs, config=turns)
    settings["use_lcs"] = not settings.pop("no_lcs", False)
    return partial(mine_pairs, config=LcsConfig(**settings, seed=arguments.seed))

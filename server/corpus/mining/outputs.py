"""The parsers and reports that all modes of ``pocketquery mine`` share."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pocketquery.sdk.commands import Parsed
from pocketquery.sdk.errors import CorpusError
from pocketquery.sdk.validation import SEED, whole

if TYPE_CHECKING:
    from pocketquery.server.corpus.groups import Group, Kind

__all__ = ["add_memory", "add_mode", "add_output", "write_store"]


def add_mode(subparsers: Any, name: str, summary: str, epilog: str) -> Any:
    """The parser of one mode; its help shows examples."""
    return subparsers.add_parser(
        name,
        help=summary,
        description=f"{summary[0].upper()}{summary[1:]}.",
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def add_output(parser: Any, run: Any) -> None:
    """What every mode has: where it writes, its seed, and how it reports."""
    parser.add_argument("--output", required=True, metavar="FOLDER", help="where it goes")
    parser.add_argument(
        "--seed", type=Parsed(SEED, int), default=0, help="of everything random (default: 0)"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(run=run)


def add_memory(parser: Any) -> None:
    """The option of what sorts."""
    parser.add_argument(
        "--memory",
        type=Parsed(whole(), int),
        default=64,
        metavar="MB",
        help="held while sorting (default: 64)",
    )


def write_store(
    output: Path, groups: Iterable[Group], kind: Kind, arguments: argparse.Namespace
) -> int:
    """Write the store at ``output``, and say what was written.

    Raises:
        CorpusError: there is no group; what is at ``output`` stays. Or as
            :func:`~pocketquery.server.corpus.store_writer.write_text_store`.
    """
    from pocketquery.server.corpus.store_writer import write_text_store

    store = write_text_store(output, _some(groups, kind), kind)
    counts = store.counts()
    figures = {
        "path": str(store.path),
        "kind": store.kind,
        "groups": len(store),
        "texts": int(counts.sum()),
        "languages": list(store.languages),
    }
    if arguments.json:
        print(json.dumps(figures))
        return 0
    languages = ", ".join(language or "unknown" for language in store.languages)
    print(f"store     {store.path}  ({len(store):,} {store.kind}, {counts.sum():,} texts)")
    print(f"language  {languages}")
    return 0


def _some(groups: Iterable[Group], kind: Kind) -> Iterator[Group]:
    """``groups``; none is an error: an export that went wrong must not empty a store."""
    is_any = False
    for group in groups:
        is_any = True
        yield group
    if not is_any:
        raise CorpusError(
            f"there are no {kind} in what was named; expected at least one. Nothing was written: "
            "look at the files, and at the options that leave some out"
        )

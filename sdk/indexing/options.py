"""The options of commands that encode documents: which encoder, how long texts, which engine."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any

from pocketquery.sdk.commands import add_public_key, chosen_public_key, one_line
from pocketquery.sdk.errors import InvalidInputError
from pocketquery.sdk.indexing.document_encoder import EncoderSource
from pocketquery.sdk.text_folders.listing import Skipped, skipped_line

__all__ = [
    "add_encoder",
    "add_engine",
    "add_files",
    "add_passages",
    "chosen_encoder",
    "names_engine",
    "print_skipped",
    "print_skipped_files",
]

_MOST_NAMED = 3  # files that are not read for one reason; of more the first is named
_MOST_LINES = 100


def add_encoder(parser: argparse.ArgumentParser) -> None:
    """Which encoder, and how it is run."""
    add = parser.add_argument
    add(
        "--teacher",
        help="encode with this model, which finds more: a folder, a Hub name, demo or "
        "multilingual (each an extra, others need export)",
    )
    add(
        "--symmetric",
        action="store_true",
        help="encode with the bundle itself, which needs the base install alone; so it is without "
        "--teacher, too",
    )
    add(
        "--bundle",
        help="what encodes (default: $POCKETQUERY_BUNDLE, else the built-in one); with --teacher, "
        "check before encoding that this bundle lives in the teacher's space",
    )
    add_public_key(parser)
    add("--batch-size", type=int, default=64, help="documents a batch (default: 64)")
    add("--device", help="torch device of the teacher (default: cpu)")


def add_files(parser: argparse.ArgumentParser) -> None:
    """Which files of a folder."""
    add = parser.add_argument
    add(
        "--include",
        action="append",
        default=[],
        metavar="PATTERN",
        help="only files of the folder that match, as in a .gitignore; of any suffix, '*.py' too",
    )
    add(
        "--exclude",
        action="append",
        default=[],
        metavar="PATTERN",
        help="no files and folders that match: drafts/, '*.log'. Both can be given several times",
    )
    add("--verbose", action="store_true", help="name every file that is skipped, and why")


def add_passages(parser: argparse.ArgumentParser) -> None:
    """What becomes of long documents."""
    parser.add_argument(
        "--passages",
        action="store_true",
        help="cut documents that are longer than the encoder reads into passages, with the ids "
        "ID#1, ID#2 and so on",
    )


def add_engine(parser: argparse.ArgumentParser) -> None:
    """Where shards are worked on."""
    group: Any = parser.add_argument_group("shard by shard (a killed run keeps whole shards)")
    add = group.add_argument
    add(
        "--engine",
        choices=("local", "ray"),
        help="local: in this process; ray: in worker processes (packages/pocketquery-corpus)",
    )
    add("--workers", type=int, metavar="N", help="of Ray (default: one a processor)")
    add("--ray-address", metavar="ADDRESS", help="a running cluster that shares the files")


def names_engine(arguments: argparse.Namespace) -> bool:
    """Whether :func:`add_engine` was given an engine.

    Raises:
        InvalidInputError: options that belong to one, without one.
    """
    if arguments.engine is None and (arguments.workers, arguments.ray_address) != (None, None):
        raise InvalidInputError("--workers and --ray-address go with --engine ray")
    return arguments.engine is not None


def chosen_encoder(arguments: argparse.Namespace) -> EncoderSource:
    """What :func:`add_encoder` was given.

    Raises:
        InvalidInputError: options that do not go together.
    """
    if arguments.symmetric and arguments.teacher:
        raise InvalidInputError(
            f"--symmetric is given with --teacher {arguments.teacher}; expected one of them"
        )
    if arguments.device and not arguments.teacher:
        raise InvalidInputError(
            f"--device {arguments.device} is given without --teacher; the bundle runs on the "
            "processor. Name a teacher or leave --device out"
        )
    return EncoderSource(
        teacher=arguments.teacher,
        bundle=arguments.bundle,
        public_key=chosen_public_key(arguments),
        device=arguments.device or "cpu",
    )


def print_skipped_files(skipped: Sequence[Skipped], verbose: bool) -> None:
    """Count on stderr, in one line, the files of a folder that were not read.

    Args:
        skipped: the files.
        verbose: name each, and why.
    """
    if not skipped:
        return
    for one in skipped if verbose else ():
        print(one_line(f"not read: {one.name}: {one.why}"), file=sys.stderr)
    print(
        one_line(skipped_line(skipped)) + "; --verbose names them" * (not verbose), file=sys.stderr
    )


def print_skipped(skipped: Sequence[tuple[str, str]]) -> None:
    """Name on stderr what was not read, and why. Where many files share a reason, the first is
    named and the others are counted, so that they hide no other reason.

    Args:
        skipped: path and reason of each.
    """
    by_reason = dict[str, list[str]]()
    for path, why in skipped:
        by_reason.setdefault(why, []).append(path)
    lines = [
        f"{path}: {why}"
        for why, paths in by_reason.items()
        for path in (
            paths if len(paths) <= _MOST_NAMED else [f"{paths[0]} and {len(paths) - 1} more"]
        )
    ]
    for line in lines[:_MOST_LINES]:
        print(one_line(f"not read: {line}"), file=sys.stderr)
    if len(lines) > _MOST_LINES:
        print(f"not read: files for {len(lines) - _MOST_LINES} more reasons", file=sys.stderr)

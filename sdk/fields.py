"""Typed access to the fields of a JSON object that came from elsewhere.

Each getter returns the value in the type its name says or raises CorruptArtifactError with the
file, the field's path, what was found and what was expected.
"""

from __future__ import annotations

import json
from collections.abc import ItemsView, Iterator, Mapping, Sequence
from typing import Any, NoReturn

from pocketquery.sdk.errors import CorruptArtifactError

__all__ = ["Fields"]


class Fields:
    """One JSON object: ``source`` is its file's name, ``path`` leads to it inside the file."""

    def __init__(self, values: Mapping[str, Any], source: str, path: str = "") -> None:
        self._values = values
        self._source = source
        self._path = path

    @classmethod
    def of_json(cls, data: bytes, source: str) -> Fields:
        """The object in ``data`` (UTF-8 JSON, each key once)."""
        try:
            values = json.loads(
                data.decode("utf-8"), object_pairs_hook=_unique, parse_constant=_no_constant
            )
        except (ValueError, RecursionError) as error:
            raise CorruptArtifactError(f"{source}: not valid JSON: {error}") from error
        if not isinstance(values, dict):
            raise CorruptArtifactError(f"{source}: found {_show(values)}, expected a JSON object")
        return cls(values, source)

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def items(self) -> ItemsView[str, Any]:
        """The raw fields."""
        return self._values.items()

    def text(self, name: str) -> str:
        """A text, not empty."""
        value = self._get(name)
        if not isinstance(value, str) or not value:
            self._fail(name, value, "a text that is not empty")
        return value

    def text_or_none(self, name: str) -> str | None:
        """A text or null; an absent field counts as null."""
        return None if self._values.get(name) is None else self.text(name)

    def integer(self, name: str) -> int:
        """An integer (true and 1.0 are none)."""
        value = self._get(name)
        if type(value) is not int:
            self._fail(name, value, "an integer")
        return value

    def choice(self, name: str, options: Sequence[str]) -> str:
        """One of ``options``."""
        value = self._get(name)
        if value not in options:
            self._fail(name, value, "one of " + ", ".join(map(repr, options)))
        return str(value)

    def sequence(self, name: str) -> list[Any]:
        """A list of anything."""
        value = self._get(name)
        if not isinstance(value, list):
            self._fail(name, value, "a list")
        return value

    def mapping(self, name: str) -> dict[str, Any]:
        """An object of anything."""
        value = self._get(name)
        if not isinstance(value, dict):
            self._fail(name, value, "an object")
        return value

    def texts(self, name: str) -> dict[str, str]:
        """An object whose values are texts (empty ones too)."""
        value = self.mapping(name)
        for key, item in value.items():
            if not isinstance(item, str):
                self._fail(f"{name}.{key}", item, "a text")
        return value

    def child(self, name: str) -> Fields:
        """The object in the field ``name``, to be read the same way."""
        return Fields(self.mapping(name), self._source, f"{self._path}{name}.")

    def _get(self, name: str) -> Any:
        if name not in self._values:
            raise CorruptArtifactError(
                f"{self._source}: field {self._path + name!r}: missing, expected it to be there"
            )
        return self._values[name]

    def _fail(self, name: str, found: object, expected: str) -> NoReturn:
        raise CorruptArtifactError(
            f"{self._source}: field {self._path + name!r}: found {_show(found)}, "
            f"expected {expected}"
        )


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the key {twice!r} occurs twice")
    return values


def _no_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not JSON")


def _show(value: object) -> str:
    text = json.dumps(value, ensure_ascii=True)
    return text if len(text) <= 80 else text[:77] + "..."

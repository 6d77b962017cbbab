"""Typed access to the fields of a JSON object that came from elsewhere.

Each getter returns the value in the type its name says or raises CorruptArtifactError with the
file, the field's path, what was found and what was expected. The file's author may mean harm:
parsing takes time and memory in proportion to its size, which the caller bounds.
"""

from __future__ import annotations

import json
import math
from collections.abc import ItemsView, Iterator, Mapping, Sequence
from typing import Any, NoReturn

from pocketquery.sdk.errors import CorruptArtifactError, UnsupportedVersionError

__all__ = ["Fields", "no_constant", "shortened", "unique_keys"]

_MOST_NESTING = 64  # lists and objects inside one another; ours have six
_DIGITS = 20  # of an integer, so 64 bits fit; the time to read longer ones grows with their square
_LONGEST_FORMAT = 1024  # characters
_MOST_SHOWN = 80  # characters of a value in an error
_HEXADECIMAL = frozenset("0123456789abcdef")


def shortened(text: str) -> str:
    """``text``, or its beginning where it is too long for an error."""
    return text if len(text) <= _MOST_SHOWN else text[: _MOST_SHOWN - 3] + "..."


class Fields:
    """One JSON object: ``source`` is its file's name, ``path`` leads to it inside the file."""

    def __init__(self, values: Mapping[str, Any], source: str, path: str = "") -> None:
        self._values = values
        self._source = source
        self._path = path

    @classmethod
    def of_json(cls, data: bytes, source: str, *, most_bytes: int | None = None) -> Fields:
        """The object in ``data`` (UTF-8 JSON, each key once, finite numbers of 64 bits).

        Args:
            data: the file's bytes.
            source: the file's name.
            most_bytes: how long the file may be; None: the caller saw to it.

        Raises:
            CorruptArtifactError: longer, not such JSON, or nested deeper than 64.
        """
        if most_bytes is not None and len(data) > most_bytes:
            raise CorruptArtifactError(
                f"{source}: found {len(data)} bytes or more, expected at most {most_bytes}"
            )
        try:
            values = json.loads(
                data.decode("utf-8"),
                object_pairs_hook=unique_keys,
                parse_constant=no_constant,
                parse_int=_integer,
                parse_float=_finite,
            )
            _check_depth(values)
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

    def check_format(self, format: str, newest: int, oldest: int = 1, rebuild: str = "") -> None:
        """See that ``format`` is this one and ``format_version`` from ``oldest`` to ``newest``.

        Args:
            format: what the artefact is called.
            newest: version that is read.
            oldest: version that is read.
            rebuild: what to do about an older one.

        Raises:
            CorruptArtifactError: another artefact's.
            UnsupportedVersionError: of a newer release, or an older one.
        """
        name = self.text("format", _LONGEST_FORMAT)
        if name != format:
            self._fail("format", name, f"{format!r}; is it another artefact?")
        version = self.integer("format_version", 1)
        if version > newest:
            raise UnsupportedVersionError(
                f"{self._source}: format_version is {version}, this release reads up to {newest}; "
                "update pocketquery"
            )
        if version < oldest:
            raise UnsupportedVersionError(
                f"{self._source}: format_version is {version}, this release reads {newest}; "
                f"{rebuild}"
            )

    def text(self, name: str, most: int | None = None) -> str:
        """A text, not empty, of at most ``most`` characters."""
        value = self._get(name)
        if not isinstance(value, str) or not value:
            self._fail(name, value, "a text that is not empty")
        self._check_text(name, value, most)
        return value

    def text_or_none(self, name: str, most: int | None = None) -> str | None:
        """A text or null; an absent field counts as null."""
        return None if self._values.get(name) is None else self.text(name, most)

    def is_null(self, name: str) -> bool:
        """Whether the field is null; an absent one is an error."""
        return self._get(name) is None

    def integer(self, name: str, least: int | None = None, most: int | None = None) -> int:
        """An integer (true and 1.0 are none) from ``least`` to ``most``, where they are given."""
        value = self._get(name)
        if type(value) is not int:
            self._fail(name, value, "an integer")
        if (least is not None and value < least) or (most is not None and value > most):
            span = [f"at least {least}"] * (least is not None) + [f"at most {most}"] * (
                most is not None
            )
            self._fail(name, value, "an integer, " + " and ".join(span))
        return value

    def number(self, name: str) -> float:
        """A number; true is none."""
        value = self._get(name)
        if type(value) not in (int, float):
            self._fail(name, value, "a number")
        return float(value)

    def flag(self, name: str) -> bool:
        """True or false."""
        value = self._get(name)
        if type(value) is not bool:
            self._fail(name, value, "true or false")
        return value

    def hexadecimal(self, name: str, digits: int) -> str:
        """A text of so many hexadecimal digits, small letters; a SHA-256 has 64."""
        value = self._get(name)
        if not isinstance(value, str) or len(value) != digits or not _HEXADECIMAL.issuperset(value):
            self._fail(name, value, f"{digits} hexadecimal digits")
        return value

    def base64(self, name: str) -> bytes:
        """The bytes of a text in base64, which may be empty."""
        from base64 import b64decode  # no bundle has any

        value = self._get(name)
        try:
            return b64decode(value if isinstance(value, str) else "?", validate=True)
        except ValueError:
            self._fail(name, value, "base64")

    def choice(self, name: str, options: Sequence[str]) -> str:
        """One of ``options``."""
        value = self._get(name)
        if value not in options:
            self._fail(name, value, "one of " + ", ".join(map(repr, options)))
        return str(value)

    def sequence(self, name: str, most: int | None = None) -> list[Any]:
        """A list of anything, of at most ``most`` items."""
        value = self._get(name)
        if not isinstance(value, list):
            self._fail(name, value, "a list")
        self._check_count(name, len(value), most)
        return value

    def mapping(self, name: str, most: int | None = None) -> dict[str, Any]:
        """An object of anything, of at most ``most`` fields."""
        value = self._get(name)
        if not isinstance(value, dict):
            self._fail(name, value, "an object")
        self._check_count(name, len(value), most)
        return value

    def texts(
        self, name: str, most: int | None = None, longest: int | None = None
    ) -> dict[str, str]:
        """An object whose values are texts (empty ones too) of at most ``longest`` characters."""
        value = self.mapping(name, most)
        for key, item in value.items():
            if not isinstance(item, str):
                self._fail(f"{name}.{shortened(key)}", item, "a text")
            self._check_text(f"{name}.{shortened(key)}", key, longest)
            self._check_text(f"{name}.{shortened(key)}", item, longest)
        return value

    def child(self, name: str, most: int | None = None) -> Fields:
        """The object in the field ``name``, to be read the same way."""
        return Fields(self.mapping(name, most), self._source, f"{self._path}{shortened(name)}.")

    def _check_count(self, name: str, count: int, most: int | None) -> None:
        if most is not None and count > most:
            self._refuse(name, f"{count} entries", f"at most {most}")

    def _check_text(self, name: str, value: str, most: int | None) -> None:
        if most is not None and len(value) > most:
            self._refuse(name, f"{len(value)} characters", f"at most {most}")
        try:
            value.encode("utf-8")
        except UnicodeEncodeError:  # JSON can hold it, UTF-8 cannot
            self._fail(name, value, "a text without halves of characters (lone surrogates)")

    def _get(self, name: str) -> Any:
        if name not in self._values:
            raise CorruptArtifactError(
                f"{self._source}: field {self._path + name!r}: missing, expected it to be there"
            )
        return self._values[name]

    def _fail(self, name: str, found: object, expected: str) -> NoReturn:
        self._refuse(name, _show(found), expected)

    def _refuse(self, name: str, found: str, expected: str) -> NoReturn:
        raise CorruptArtifactError(
            f"{self._source}: field {self._path + name!r}: found {found}, expected {expected}"
        )


def unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """For ``json.loads``, as its ``object_pairs_hook``: of a key that occurs twice Python takes the
    last value and drops the other in silence."""
    values = dict(pairs)
    if len(values) != len(pairs):
        met: set[str] = set()
        for name, _ in pairs:
            if name in met:
                raise ValueError(f"the key {shortened(name)!r} occurs twice")
            met.add(name)
    return values


def _integer(digits: str) -> int:
    if len(digits) > _DIGITS:
        raise ValueError(f"an integer of {len(digits)} digits, expected at most {_DIGITS}")
    return int(digits)


def _finite(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise ValueError(f"the number {shortened(digits)} is too large")
    return value


def no_constant(text: str) -> NoReturn:
    """For ``json.loads``: NaN and the infinities, which Python reads, are not JSON."""
    raise ValueError(f"{text} is not JSON")


def _check_depth(values: object) -> None:
    """The parser's own bound is Python's stack, and who walks the values has less of it left."""
    level, depth = _containers([values]), 0
    while level:
        depth += 1
        if depth > _MOST_NESTING:
            raise ValueError(f"nested deeper than {_MOST_NESTING}")
        level = [inner for item in level for inner in _containers(item)]


def _containers(item: Any) -> list[Any]:
    inside = item.values() if isinstance(item, dict) else item
    return [value for value in inside if isinstance(value, (dict, list))]


def _show(value: object) -> str:
    return shortened(json.dumps(value, ensure_ascii=True))

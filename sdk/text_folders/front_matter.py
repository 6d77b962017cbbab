"""Front matter: the fields above a Markdown file's text, YAML between ``---`` or TOML between
``+++``.

Of YAML what people write there is read: texts, numbers, dates, lists, texts of several lines and
mappings within. What is no YAML, or more than that (anchors, tags), is a text as it stands.
"""

from __future__ import annotations

import datetime
import json
import re
import tomllib
from collections.abc import Mapping
from typing import Any

__all__ = ["front_matter"]

_YAML = re.compile(r"\s*---[ \t]*\n(.*?\n)?(?:---|\.\.\.)[ \t]*(?:\n|$)", re.DOTALL)
_TOML = re.compile(r"\s*\+\+\+[ \t]*\n(.*?\n)?\+\+\+[ \t]*(?:\n|$)", re.DOTALL)
_PAIR = re.compile(
    r" *(?P<key>\"[^\"]*\"|'[^']*'|[^\s#\-\"'\[{][^:#]*+|-[^\s:][^:#]*+)\s*:(?:\s+(?P<value>.*))?$"
)
_ITEM = re.compile(r" *-(?:\s+(?P<value>.*))?$")
_BLOCK = re.compile(r"[|>][+-]?\d?[+-]?\s*(?:#.*)?$")
_NUMBER = re.compile(r"[-+]?(?:0|[1-9]\d{0,17})(?:\.\d{1,17})?$")
_DATE_AND_TIME = re.compile(r"^(\d{4}-\d\d-\d\d) +(\d\d?:\d\d)")
_CONSTANTS = {"true": True, "false": False, "null": None, "~": None, "": None}
_FLOW = re.compile(r"\s*(\"(?:[^\"\\]|\\.)*\"|'(?:[^']|'')*'|\[|\]|[^,\[\]]+|,)")
_MOST_CHARACTERS = 1 << 16  # of front matter; what is longer is text
_MOST_DEPTH = 8


def front_matter(text: str) -> tuple[dict[str, Any], int]:
    """The fields of a text's front matter, and where the text behind it begins; no fields and 0
    where it has none. Dates are ISO texts."""
    for pattern, read in ((_YAML, _yaml), (_TOML, _toml)):
        match = pattern.match(text, 0, _MOST_CHARACTERS)
        if match and (fields := read(match[1] or "")) is not None:
            return fields, match.end()
    return {}, 0


def _toml(text: str) -> dict[str, Any] | None:
    try:
        return {name: _plain(value) for name, value in tomllib.loads(text).items()}
    except (ValueError, RecursionError):
        return None


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_plain(one) for one in value]
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, (int, float)) and not abs(value) < 1e300:
        return str(value)
    return value


def _yaml(text: str) -> dict[str, Any] | None:
    reader = _Yaml([line.rstrip().expandtabs(2) for line in text.split("\n")])
    fields = reader.block(0, 0)
    # A rule, prose and another rule are no front matter.
    is_yaml = isinstance(fields, dict) or fields is None
    return (fields or {}) if is_yaml and reader.peek() is None else None


class _Yaml:
    """Reads lines of YAML."""

    def __init__(self, lines: list[str]) -> None:
        self._lines = lines
        self._at = 0

    def block(self, indent: int, depth: int) -> Any:
        """The mapping, list or text whose lines are indented by ``indent`` at least."""
        fields, items, words = dict[str, Any](), list[Any](), list[str]()
        while depth <= _MOST_DEPTH and (line := self.peek()) is not None:
            inside = len(line) - len(line.lstrip())
            if inside < indent:
                break
            if (match := _ITEM.match(line)) and not fields and not words:
                value = match["value"] or ""
                self._at += 1
                if _PAIR.match(value) and value[0] not in "'\"":  # a mapping as an item
                    self._at -= 1
                    self._lines[self._at] = " " * (inside + 2) + value.lstrip()
                    items.append(self.block(inside + 2, depth + 1))
                else:
                    items.append(self._value(value, inside + 1, depth))
            elif (match := _PAIR.match(line)) and not items and not words:
                self._at += 1
                value = match["value"] or ""
                fields[str(_scalar(match["key"]))] = self._value(value, inside + 1, depth)
            elif depth and not fields and not items:
                self._at += 1
                words.append(line.strip())
            else:
                break
        return fields or items or (_scalar(" ".join(words)) if words else None)

    def _value(self, text: str, indent: int, depth: int) -> Any:
        """What is behind ``key:`` or ``-``; further lines of it are indented by ``indent``."""
        text = text.strip()
        if _BLOCK.match(text):
            return self._several_lines(indent, " " if text[0] == ">" else "\n")
        if not _without_comment(text):
            line = self.peek() or ""
            if _ITEM.match(line):  # a list may stand below its key without an indent
                indent -= 1
            is_below = len(line) - len(line.lstrip()) >= indent and line
            return self.block(indent, depth + 1) if is_below else None
        while (line := self.peek() or "") and len(line) - len(line.lstrip()) >= indent:
            text += " " + line.strip()
            self._at += 1
        return _scalar(text)

    def _several_lines(self, indent: int, glue: str) -> str:
        lines = list[str]()
        while self._at < len(self._lines):
            line = self._lines[self._at]
            if line.strip() and len(line) - len(line.lstrip()) < indent:
                break
            lines.append(line.strip())
            self._at += 1
        return glue.join(lines).strip()

    def peek(self) -> str | None:
        """The next line that is neither empty nor a comment."""
        while self._at < len(self._lines):
            line = self._lines[self._at]
            if line.strip() and not line.lstrip().startswith("#"):
                return line
            self._at += 1
        return None


def _without_comment(text: str) -> str:
    return re.sub(r"(?:^|\s)#.*", "", text)


def _scalar(text: str) -> Any:
    """A quoted text, a list between brackets, a number, a date, a truth value or a plain text."""
    text = text.strip()
    if text[:1] == '"' and (match := re.match(r'"((?:[^"\\]|\\.)*)"\s*(?:#.*)?$', text)):
        try:
            return json.loads(f'"{match[1]}"', strict=False)
        except ValueError:
            return match[1]
    if text[:1] == "'" and (match := re.match(r"'((?:[^']|'')*)'\s*(?:#.*)?$", text)):
        return match[1].replace("''", "'")
    if text[:1] == "[" and (items := _flow(text)) is not None:
        return items
    text = _DATE_AND_TIME.sub(r"\1T\2", _without_comment(text).strip())
    if text.lower() in _CONSTANTS:
        return _CONSTANTS[text.lower()]
    if _NUMBER.match(text):
        return float(text) if "." in text else int(text)
    return text


def _flow(text: str) -> list[Any] | None:
    """``[a, "b", c]``; None where it is something else."""
    tokens = _FLOW.findall(_without_comment(text) if '"' not in text and "'" not in text else text)
    if tokens[:1] != ["["] or tokens[-1] != "]" or "[" in tokens[1:] or "]" in tokens[:-1]:
        return None
    return [_scalar(token) for token in tokens[1:-1] if token.strip() != ","]

"""JSON objects of a JSON Lines file, one a line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pocketquery.server.corpus.readers.lines import bad_line, encodable, numbered_lines

__all__ = ["json_objects", "field_name", "text_field"]


def json_objects(path: Path | str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (line number, object) of a JSON Lines file, plain or gzip.

    Raises:
        ArtifactNotFoundError: there is no such file.
        CorpusError: a line is not JSON, or not an object.
    """
    for number, line in numbered_lines(path):
        try:
            value = json.loads(line, parse_constant=_refuse)
        except (ValueError, RecursionError) as error:
            found = f"not JSON ({error}): {line[:60]!r}"
            raise bad_line(path, number, found, "one JSON object a line") from error
        if not isinstance(value, dict):
            found = f"a JSON {type(value).__name__}"
            raise bad_line(path, number, found, "one JSON object a line")
        yield number, value


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is no JSON number")


def field_name(path: Path | str, number: int, entry: dict[str, Any], *names: str) -> str:
    """The first of ``names`` that ``entry`` has.

    Raises:
        CorpusError: it has none of them.
    """
    for name in names:
        if name in entry:
            return name
    found = f"no field {' or '.join(map(repr, names))} among {sorted(entry)}"
    raise bad_line(path, number, found, "it in every line")


def text_field(path: Path | str, number: int, value: object, field: str) -> str:
    """``value`` as text; null counts as empty.

    Raises:
        CorpusError: it is not a string, or holds a lone surrogate.
    """
    if value is None:
        return ""
    if not isinstance(value, str):
        raise bad_line(path, number, f"{field} is {type(value).__name__}", "a string")
    return encodable(path, number, value, field)

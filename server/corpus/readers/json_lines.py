"""JSON objects of a JSON Lines file, one a line, or of a Parquet file, one a row."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pocketquery.sdk.fields import unique_keys
from pocketquery.server.corpus.readers.lines import bad_line, encodable, identifier, numbered_lines
from pocketquery.server.corpus.readers.parquet import is_parquet, parquet_objects

__all__ = ["field_name", "id_and_language", "json_objects", "text_field"]


def json_objects(path: Path | str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (line number, object) of a JSON Lines file, plain, gzip or xz, or (row number, values)
    of a Parquet file; both are known by their first bytes.

    Raises:
        ArtifactNotFoundError: there is no such file.
        CorpusError: a line is not JSON, has a key twice, or is not an object.
    """
    if is_parquet(path):
        yield from parquet_objects(path)
        return
    for number, line in numbered_lines(path):
        try:
            value = _DECODER.decode(line)
        except (ValueError, RecursionError) as error:
            found = f"not JSON ({error}): {line[:60]!r}"
            raise bad_line(path, number, found, "one JSON object a line") from error
        if not isinstance(value, dict):
            found = f"a JSON {type(value).__name__}"
            raise bad_line(path, number, found, "one JSON object a line")
        yield number, value


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is no JSON number")


# Made once: ``json.loads`` with a hook makes one a line, which takes longer than the hook itself.
_DECODER = json.JSONDecoder(parse_constant=_refuse, object_pairs_hook=unique_keys)


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


def id_and_language(
    path: Path | str,
    number: int,
    entry: dict[str, Any],
    lang: str,
    *,
    ids: Sequence[str] = ("_id", "id"),
    langs: Sequence[str] = ("lang", "language"),
) -> tuple[str, str]:
    """A line's id, its number where it has none, and its language, ``lang`` where it has none.

    Args:
        ids, langs: the fields that may say them; the first that is there does.

    Raises:
        CorpusError: the id is no identifier, or the language no text.
    """
    name = next((name for name in ids if name in entry), None)
    id = identifier(path, number, entry[name], name) if name else str(number)
    own = next((entry[name] for name in langs if name in entry), None)
    return id, text_field(path, number, own, "lang") or lang


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

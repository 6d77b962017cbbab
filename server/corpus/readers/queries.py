"""Queries: a tsv of id and text (header or none) or JSON Lines, plain, gzip or xz."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pocketquery.server.corpus.readers.json_lines import field_name, json_objects, text_field
from pocketquery.server.corpus.readers.lines import bad_line, identifier, numbered_lines

__all__ = ["Query", "is_header", "read_queries"]

_ID_HEADERS = {"id", "_id", "qid", "query-id", "query_id", "queryid"}


@dataclass(frozen=True)
class Query:
    """One query: its id, as judgements name it, and its text."""

    id: str
    text: str


def read_queries(path: Path | str) -> list[Query]:
    """Read all queries of a file, in their order.

    A tsv has id and text, and perhaps a header; JSON Lines (known by its first character, "{")
    have ``_id`` or ``id``, and ``text``, ``query`` or ``question``.

    Raises:
        ArtifactNotFoundError: there is no such file.
        CorpusError: a line is not a query, repeats an id or has no text; names file and line.
    """
    first_lines: dict[str, int] = {}
    queries = []
    first_line = next(numbered_lines(path), (0, ""))[1]
    read = _from_json if first_line.lstrip().startswith("{") else _from_tsv
    for number, query in read(path):
        if query.id in first_lines:
            found = f"the id {query.id!r} of line {first_lines[query.id]} again"
            raise bad_line(path, number, found, "a different id for every query")
        if not query.text.strip():
            raise bad_line(path, number, f"query {query.id!r} has no text", "some text")
        first_lines[query.id] = number
        queries.append(query)
    return queries


def is_header(position: int, fields: Sequence[str]) -> bool:
    """Whether a table of ids and queries has its header in the line at ``position``, from 0."""
    return position == 0 and len(fields) == 2 and fields[0].strip().lower() in _ID_HEADERS


def _from_json(path: Path | str) -> Iterator[tuple[int, Query]]:
    for number, entry in json_objects(path):
        id_name = field_name(path, number, entry, "_id", "id")
        text_name = field_name(path, number, entry, "text", "query", "question")
        text = text_field(path, number, entry[text_name], text_name)
        yield number, Query(identifier(path, number, entry[id_name], id_name), text)


def _from_tsv(path: Path | str) -> Iterator[tuple[int, Query]]:
    for position, (number, line) in enumerate(numbered_lines(path)):
        fields = line.split("\t")
        if len(fields) != 2:
            found = f"{len(fields)} tab-separated fields: {line[:60]!r}"
            raise bad_line(path, number, found, "two, a query id and a text")
        if is_header(position, fields):
            continue
        yield number, Query(identifier(path, number, fields[0].strip(), "the query id"), fields[1])

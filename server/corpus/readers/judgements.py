"""Relevance judgements (qrels) and pairs to leave out of a ranking, plain, gzip or xz."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pocketquery.server.corpus.readers.lines import bad_line, identifier, numbered_lines

__all__ = ["Judgements", "read_judgements", "read_pairs"]

Judgements = dict[str, dict[str, int]]
"""Query id -> document id -> grade; a grade above 0 is relevant, and higher is better."""

_ID_HEADERS = {"id", "_id", "qid", "query-id", "query_id", "queryid", "query"}


def read_judgements(path: Path | str) -> Judgements:
    """Read judgements: lines of query id, document id, integer grade, with a header or none.

    TREC's four columns (query id, an unused one, document id, grade) are read as well. Columns
    are separated by tabs, or by blanks in lines without a tab. A judgement may stand twice.

    Raises:
        ArtifactNotFoundError: there is no such file.
        CorpusError: a line has other columns, a grade that is no integer, or contradicts an
            earlier line; names file and line.
    """
    judgements: Judgements = {}
    for number, fields in _rows(path):
        if len(fields) not in (3, 4):
            found = f"{len(fields)} fields: {fields[:5]}"
            raise bad_line(path, number, found, "query id, document id, grade")
        query, document = _ids(path, number, fields[0], fields[-2])
        grade = _grade(path, number, fields[-1])
        known = judgements.setdefault(query, {}).setdefault(document, grade)
        if known != grade:
            found = f"grade {grade} for {query!r}, {document!r}, which had {known} before"
            raise bad_line(path, number, found, "one grade for a pair")
    return judgements


def read_pairs(path: Path | str) -> frozenset[tuple[str, str]]:
    """Read (query id, document id) pairs, two columns, with a header or none.

    Raises:
        ArtifactNotFoundError: there is no such file.
        CorpusError: a line has other columns; names file and line.
    """
    pairs = set()
    for number, fields in _rows(path):
        if len(fields) != 2:
            found = f"{len(fields)} fields: {fields[:5]}"
            raise bad_line(path, number, found, "query id, document id")
        pairs.add(_ids(path, number, fields[0], fields[1]))
    return frozenset(pairs)


def _rows(path: Path | str) -> Iterator[tuple[int, list[str]]]:
    """Yield (line number, fields), a header left out."""
    for position, (number, line) in enumerate(numbered_lines(path)):
        fields = line.split("\t") if "\t" in line else line.split()
        fields = [field.strip() for field in fields]
        if position > 0 or fields[0].lower() not in _ID_HEADERS:
            yield number, fields


def _ids(path: Path | str, number: int, query: str, document: str) -> tuple[str, str]:
    return (
        identifier(path, number, query, "the query id"),
        identifier(path, number, document, "the document id"),
    )


def _grade(path: Path | str, number: int, written: str) -> int:
    try:
        if len(written) > 9:
            raise ValueError(written)
        return int(written)
    except ValueError as error:
        raise bad_line(path, number, f"grade {written[:20]!r}", "a small integer") from error

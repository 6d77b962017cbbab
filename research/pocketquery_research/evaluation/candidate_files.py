"""Candidate lists to be re-ranked: the table of SemEval's forum task, and AskUbuntu's files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from pocketquery.server.corpus.readers.lines import bad_line, numbered_lines

__all__ = ["CandidateList", "read_askubuntu", "read_askubuntu_texts", "read_candidate_table"]

_BODY = 100  # words of a body that are read, in the protocol of Lei et al.
_HEADER = ["query_id", "candidate_id", "relevance", "query", "candidate"]


@dataclass(frozen=True)
class CandidateList:
    """One query and what a first-stage ranker found for it.

    Attributes:
        query_id: names the query.
        query: its text.
        candidate_ids: in the first-stage ranker's order.
        candidates: their texts.
        relevant: whether each is relevant.
        first_stage: the first-stage ranker's scores; empty where they are not given.
    """

    query_id: str
    query: str
    candidate_ids: tuple[str, ...]
    candidates: tuple[str, ...]
    relevant: tuple[bool, ...]
    first_stage: tuple[float, ...] = ()


def read_candidate_table(path: Path | str) -> list[CandidateList]:
    """Read a table with the columns query_id, candidate_id, relevance, query, candidate.

    Tab-separated with that header, plain, gzip or xz; rows of a query stand together or apart.

    Raises:
        ArtifactNotFoundError: there is no such file.
        CorpusError: the header or a row is another; names file and line.
    """
    rows: dict[str, list[tuple[str, bool, str, str]]] = {}
    for position, (number, line) in enumerate(numbered_lines(path)):
        fields = line.split("\t")
        if position == 0:
            if fields != _HEADER:
                raise bad_line(path, number, f"the columns {fields}", f"the columns {_HEADER}")
            continue
        if len(fields) != len(_HEADER) or fields[2] not in ("0", "1"):
            found = f"{len(fields)} fields: {[field[:30] for field in fields]}"
            raise bad_line(path, number, found, "five fields, relevance 0 or 1")
        query_id, candidate_id, relevance, query, candidate = fields
        rows.setdefault(query_id, []).append((candidate_id, relevance == "1", query, candidate))
    return [_list_of(query_id, found) for query_id, found in rows.items()]


def read_askubuntu(path: Path | str, texts: Mapping[str, str]) -> list[CandidateList]:
    """Read AskUbuntu's annotations: query id, similar ids, 20 candidate ids, their BM25 scores.

    Args:
        path: dev.txt or test.txt.
        texts: id -> title; an id without one gets an empty text, so that the first-stage ranking
            can be measured from the annotations alone.

    Raises:
        ArtifactNotFoundError: there is no such file.
        CorpusError: a line is not of that form; names file and line.
    """
    return [_annotated(path, number, line, texts) for number, line in numbered_lines(path)]


def read_askubuntu_texts(path: Path | str, *, body: bool = False) -> dict[str, str]:
    """Read AskUbuntu's text_tokenized.txt: id -> title, or title and the body's first 100 words.

    Raises:
        ArtifactNotFoundError: there is no such file.
        CorpusError: a line has other columns; names file and line.
    """
    texts = {}
    for number, line in numbered_lines(path):
        fields = line.split("\t")
        if len(fields) != 3:
            raise bad_line(path, number, f"{len(fields)} fields", "id, title and body, by tabs")
        words = fields[2].split()[:_BODY] if body else []
        texts[fields[0]] = " ".join([fields[1], *words])
    return texts


def _list_of(query_id: str, rows: list[tuple[str, bool, str, str]]) -> CandidateList:
    ids, relevant, queries, candidates = zip(*rows, strict=True)
    return CandidateList(query_id, queries[0], ids, candidates, relevant)


def _annotated(path: Path | str, number: int, line: str, texts: Mapping[str, str]) -> CandidateList:
    fields = line.split("\t")
    if len(fields) != 4:
        raise bad_line(path, number, f"{len(fields)} fields", "four fields, by tabs")
    similar, ids = set(fields[1].split()), tuple(fields[2].split())
    scores = tuple(_numbers(path, number, fields[3]))
    if len(scores) != len(ids) or not similar <= set(ids):
        found = f"{len(ids)} candidates, {len(scores)} scores, {len(similar)} similar"
        raise bad_line(path, number, found, "a score a candidate, and similar ones among them")
    return CandidateList(
        query_id=fields[0],
        query=texts.get(fields[0], ""),
        candidate_ids=ids,
        candidates=tuple(texts.get(candidate, "") for candidate in ids),
        relevant=tuple(candidate in similar for candidate in ids),
        first_stage=scores,
    )


def _numbers(path: Path | str, number: int, field: str) -> Iterator[float]:
    for written in field.split():
        try:
            yield float(written)
        except ValueError as error:
            raise bad_line(path, number, f"the score {written!r}", "a number") from error

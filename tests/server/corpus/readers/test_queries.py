"""Queries, judgements and pairs: every layout, and what is said of a bad line."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketquery.sdk.errors import CorpusError
from pocketquery.server.corpus import Query, read_judgements, read_pairs, read_queries
from tests.server.corpus.readers.lines import check_refused

Read = Callable[[Path], Any]

QUERIES = (
    "q1\twho was first\n2\tétoile\n",
    "id\ttext\nq1\twho was first\r\n2\tétoile",
    "query-id\tquery\nq1\twho was first\n\n2\tétoile\n",
    '{"_id": "q1", "text": "who was first", "metadata": {}}\n{"_id": 2, "text": "étoile"}\n',
    '{"id": "q1", "question": "who was first"}\n{"id": "2", "query": "étoile"}\n',
)
JUDGEMENTS = (
    "1\td 1\t1\n1\td2\t0\n2\td2\t4\n",
    "query-id\tcorpus-id\tscore\n1\td 1\t1\r\n1\td2\t0\n2 d2 4",
    "1\t0\td 1\t1\n1 Q0 d2 0\n2 Q0 d2 4\n2 Q0 d2 4\n",
)


@pytest.mark.parametrize(
    ("read", "written", "expected"),
    [
        *((read_queries, one, [Query("q1", "who was first"), Query("2", "étoile")])
          for one in QUERIES),
        *((read_judgements, one, {"1": {"d 1": 1, "d2": 0}, "2": {"d2": 4}})
          for one in JUDGEMENTS),
    ],
)  # fmt: skip
@pytest.mark.parametrize("packed", [False, True])
def test_every_layout(
    tmp_path: Path, read: Read, written: str, expected: object, packed: bool
) -> None:
    data = written.encode()
    path = tmp_path / "rows"
    path.write_bytes(gzip.compress(data) if packed else data)
    assert read(path) == expected


@pytest.mark.parametrize(
    ("read", "first", "line", "words"),
    [
        (read_queries, "q1\tfirst", "only a text", "1 tab-separated fields"),
        (read_queries, "q1\tfirst", "q\ttext\tmore", "3 tab-separated fields"),
        (read_queries, "q1\tfirst", "\ttext", "the query id is empty"),
        (read_queries, "q1\tfirst", "q\t ", "query 'q' has no text"),
        (read_queries, "q1\tfirst", "q1\tagain", "the id 'q1' of line 1 again"),
        (read_queries, '{"_id": "a", "text": "x"}', '{"_id": "b", "text": null}', "has no text"),
        (
            read_queries,
            '{"_id": "a", "text": "x"}',
            '{"_id": "b"}',
            "no field 'text' or 'query' or 'question' among ['_id']",
        ),
        (read_queries, '{"_id": "a", "text": "x"}', '{"_id": "b", "text": {}}', "text is dict"),
        (read_queries, '{"_id": "a", "text": "x"}', "b\ttext", "not JSON"),
        (read_judgements, "1\ta\t1", "1\td", "2 fields"),
        (read_judgements, "1\ta\t1", "1\td\t1\t2\t3", "5 fields"),
        (read_judgements, "1\ta\t1", "1\td\tyes", "grade 'yes'"),
        (read_judgements, "1\ta\t1", "1\td\t0.5", "grade '0.5'"),
        (read_judgements, "1\ta\t1", "1\td\t" + "9" * 5000, "grade '99999"),
        (read_judgements, "1\ta\t1", "1\t\t1", "the document id is empty"),
        (read_judgements, "1\ta\t1", "1\ta\t3", "grade 3 for '1', 'a', which had 1 before"),
        (read_pairs, "1\t486", "1\t486\t1", "3 fields"),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, read: Read, first: str, line: str, words: str) -> None:
    path = tmp_path / "rows.tsv"
    path.write_text(f"{first}\n{line}\n", encoding="utf-8")
    check_refused(read, path, 2, words)


def test_pairs(tmp_path: Path) -> None:
    path = tmp_path / "unclear.tsv"
    path.write_text("1\t486\n2\t485\n", encoding="utf-8")
    assert read_pairs(path) == {("1", "486"), ("2", "485")}


@given(st.binary(max_size=100) | st.text('ab1\t\n{}":_id -', max_size=60).map(str.encode))
def test_arbitrary_bytes_are_read_or_a_corpus_error(
    tmp_path_factory: pytest.TempPathFactory, data: bytes
) -> None:
    path = tmp_path_factory.getbasetemp() / "arbitrary.tsv"
    path.write_bytes(data)
    for read in (read_queries, read_judgements, read_pairs):
        rows: Any = []
        message = ""
        try:
            rows = read(path)
        except CorpusError as error:
            message = str(error)
        assert not message or f"{path}, line " in message
        if read is read_queries:
            assert all(query.id.strip() and query.text.strip() for query in rows)
            assert len({query.id for query in rows}) == len(rows)

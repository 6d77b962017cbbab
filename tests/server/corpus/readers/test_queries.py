from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketquery.sdk.errors import CorpusError
from pocketquery.server.corpus import Query, read_queries

EXPECTED = [Query("q1", "who was first"), Query("2", "étoile")]


@pytest.mark.parametrize(
    "written",
    [
        "q1\twho was first\n2\tétoile\n",
        "id\ttext\nq1\twho was first\r\n2\tétoile",
        "query-id\tquery\nq1\twho was first\n\n2\tétoile\n",
        '{"_id": "q1", "text": "who was first", "metadata": {}}\n{"_id": 2, "text": "étoile"}\n',
        '{"id": "q1", "question": "who was first"}\n{"id": "2", "query": "étoile"}\n',
    ],
)
@pytest.mark.parametrize("packed", [False, True])
def test_every_layout(tmp_path: Path, written: str, packed: bool) -> None:
    data = written.encode()
    path = tmp_path / "queries"
    path.write_bytes(gzip.compress(data) if packed else data)
    assert read_queries(path) == EXPECTED


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("only a text", "1 tab-separated fields"),
        ("q\ttext\tmore", "3 tab-separated fields"),
        ("\ttext", "the query id is empty"),
        ("q\t ", "query 'q' has no text"),
        ("q1\tagain", "the id 'q1' of line 1 again"),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, line: str, found: str) -> None:
    path = tmp_path / "queries.tsv"
    path.write_text(f"q1\tfirst\n{line}\n", encoding="utf-8")
    with pytest.raises(CorpusError) as caught:
        read_queries(path)
    assert f"{path}, line 2: " in str(caught.value)
    assert found in str(caught.value)


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ('{"_id": "b", "text": null}', "has no text"),
        ('{"_id": "b"}', "no field 'text' or 'query' or 'question' among ['_id']"),
        ('{"_id": "b", "text": {}}', "text is dict"),
        ("b\ttext", "not JSON"),
    ],
)
def test_a_bad_json_line_is_named(tmp_path: Path, line: str, found: str) -> None:
    path = tmp_path / "queries.jsonl"
    path.write_text('{"_id": "a", "text": "x"}\n' + line, encoding="utf-8")
    with pytest.raises(CorpusError) as caught:
        read_queries(path)
    assert f"{path}, line 2: " in str(caught.value)
    assert found in str(caught.value)


@given(st.binary(max_size=100) | st.text('ab\t\n{}":_id', max_size=60).map(str.encode))
def test_arbitrary_bytes_give_queries_or_a_corpus_error(
    tmp_path_factory: pytest.TempPathFactory, data: bytes
) -> None:
    path = tmp_path_factory.getbasetemp() / "arbitrary.tsv"
    path.write_bytes(data)
    queries, message = [], ""
    try:
        queries = read_queries(path)
    except CorpusError as error:
        message = str(error)
    assert not message or f"{path}, line " in message
    assert all(query.id.strip() and query.text.strip() for query in queries)
    assert len({query.id for query in queries}) == len(queries)

from __future__ import annotations

from pathlib import Path

import pytest

from pocketquery.sdk.errors import CorpusError, InvalidInputError
from pocketquery.server.corpus import Columns, Group, Kind
from pocketquery.server.corpus.readers.tables import read_rows
from tests.server.corpus.readers.lines import write

PAIRS = "label\tq1\tq2\tid\n1\tWhat  is?\tWhat's?\t17\n0\tWho?\tHow?\t18\n1\t\tWhy?\t19\n"


def test_named_columns_of_a_table(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text(PAIRS)
    columns = Columns(("q1", "q2"), id="id", where={"label": "1"})
    assert list(read_rows(tmp_path / "a.tsv", "pairs", columns, lang="en")) == [
        Group("17", ("What is?", "What's?"), lang="en"),
        Group("19", ("Why?",), lang="en"),  # one text: objectives leave it out by its count
    ]


@pytest.mark.parametrize(
    ("kind", "line", "texts"),
    [
        ("pairs", {"texts": ["a", "b"]}, ("a", "b")),
        ("pairs", {"text1": "a", "text2": "b"}, ("a", "b")),
        ("pairs", {"anchor": "a", "positive": "b"}, ("a", "b")),
        ("triples", {"query": "a", "positive": "b", "negatives": ["c", "", "d"]}, tuple("abcd")),
        ("triples", {"query": "a", "positive": "", "negatives": ["c"]}, ()),
        ("queries", {"text": "a"}, ("a",)),
        ("queries", {"question": "a", "answer": ["x"]}, ("a",)),
        ("queries", {"query": ""}, ()),
    ],
)
def test_json_lines_of_every_kind(
    tmp_path: Path, kind: Kind, line: object, texts: tuple[str, ...]
) -> None:
    (group,) = read_rows(write(tmp_path / "a.jsonl", line), kind)
    assert group == Group("1", texts)


def test_ids_languages_and_choices_in_json_lines(tmp_path: Path) -> None:
    path = write(
        tmp_path / "a.jsonl",
        {"_id": "x", "text": "a", "lang": "de", "n": 1, "code": "fr"},
        {"_id": "y", "text": "b", "n": 2},
    )
    assert list(read_rows(path, "queries", lang="en")) == [
        Group("x", ("a",), lang="de"),
        Group("y", ("b",), lang="en"),
    ]
    chosen = Columns(("text",), id="n", lang="code", where={"n": "1"})
    assert list(read_rows(path, "queries", chosen)) == [Group("1", ("a",), lang="fr")]


def test_tables_without_a_header(tmp_path: Path) -> None:
    (tmp_path / "p.tsv").write_text("a\tb\nc\td\n")
    assert [g.texts for g in read_rows(tmp_path / "p.tsv", "pairs")] == [("a", "b"), ("c", "d")]
    (tmp_path / "t.tsv").write_text("q\tp\tn\tn2\n")
    assert [g.texts for g in read_rows(tmp_path / "t.tsv", "triples")] == [("q", "p", "n", "n2")]
    (tmp_path / "q.tsv").write_text("query-id\ttext\n7\twhat?\n")
    assert list(read_rows(tmp_path / "q.tsv", "queries")) == [Group("7", ("what?",))]
    (tmp_path / "h.tsv").write_text("qid\ttext\n7\twhat?\nid\twhat is an id?\n")
    assert [g.texts for g in read_rows(tmp_path / "h.tsv", "queries")] == [
        ("what?",),
        ("what is an id?",),  # a header is the first line or none
    ]
    (tmp_path / "i.txt").write_text("id\nwho?\nQID\n")
    assert [g.texts for g in read_rows(tmp_path / "i.txt", "queries")] == [
        ("id",),  # one column has no ids
        ("who?",),
        ("QID",),
    ]
    (tmp_path / "l.txt").write_text("what?\nwho?\n")
    assert list(read_rows(tmp_path / "l.txt", "queries")) == [
        Group("1", ("what?",)),
        Group("2", ("who?",)),
    ]


@pytest.mark.parametrize(
    ("content", "kind", "columns", "found"),
    [
        ("a\tb\tc\n", "pairs", Columns(), "line 1: 3 texts; expected 2; name the columns"),
        ("a\tb\n", "triples", Columns(), "line 1: 2 texts; expected 3 or more"),
        ("a\tb\tc\n", "queries", Columns(), "line 1: 3 texts; expected 1"),
        ("a\tb\n", "pairs", Columns(("a", "z")), "line 1: the columns ['a', 'b']; expected z"),
        ("a\tb\nx\n", "pairs", Columns(("a", "b")), "line 2: 1 tab-separated fields"),
        ('{"a": "x"}', "pairs", Columns(), "line 1: the fields ['a']; expected texts or text1"),
        ('{"texts": ["x"]}', "pairs", Columns(), "line 1: 1 texts; expected 2"),
        ('{"texts": [5, "x"]}', "pairs", Columns(), "line 1: texts is int"),
    ],
)
def test_a_line_that_does_not_fit_is_named(
    tmp_path: Path, content: str, kind: Kind, columns: Columns, found: str
) -> None:
    (tmp_path / "a").write_text(content)
    with pytest.raises(CorpusError) as caught:
        list(read_rows(tmp_path / "a", kind, columns))
    assert found in str(caught.value)


def test_what_cannot_be_asked_for(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x\n")
    with pytest.raises(InvalidInputError, match="kind is 'documents'"):
        read_rows(tmp_path / "a", "documents")
    with pytest.raises(InvalidInputError, match="1 columns are named for pairs"):
        read_rows(tmp_path / "a", "pairs", Columns(("a",)))
    with pytest.raises(InvalidInputError, match="none for the texts"):
        Columns(id="id")

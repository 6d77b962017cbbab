"""Candidate lists: both layouts read, bad lines named."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from pocketquery.sdk.errors import CorpusError
from pocketquery_research.evaluation.candidate_files import (
    read_askubuntu,
    read_askubuntu_texts,
    read_candidate_table,
)

HEADER = "query_id\tcandidate_id\trelevance\tquery\tcandidate\n"


def test_rows_of_a_query_are_gathered_in_order(tmp_path: Path) -> None:
    path = tmp_path / "train.tsv.gz"
    rows = "q1\ta\t1\tone\tA\nq2\tc\t0\ttwo\tC\nq1\tb\t0\tone\tB\n"
    path.write_bytes(gzip.compress((HEADER + rows).encode()))
    first, second = read_candidate_table(path)
    assert first.candidate_ids == ("a", "b")
    assert first.candidates == ("A", "B")
    assert first.relevant == (True, False)
    assert second.query == "two"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("id\ttext\n", "line 1: the columns"),
        (HEADER + "q\ta\t2\tone\tA\n", "line 2: .*relevance 0 or 1"),
        (HEADER + "q\ta\t1\tone\n", "line 2: 4 fields"),
    ],
)
def test_a_bad_table_is_named(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "table.tsv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(CorpusError, match=message):
        read_candidate_table(path)


def test_askubuntu_annotations_and_texts(tmp_path: Path) -> None:
    texts = tmp_path / "text_tokenized.txt"
    texts.write_text("7\ttitle seven\tbody seven\n8\ttitle eight\t\n", encoding="utf-8")
    annotations = tmp_path / "dev.txt"
    annotations.write_text("7\t8\t8 9\t2.5 1.0\n9\t\t7 8\t3 2\n", encoding="utf-8")
    first, second = read_askubuntu(annotations, read_askubuntu_texts(texts))
    assert (first.query, first.candidates) == ("title seven", ("title eight", ""))
    assert (first.relevant, first.first_stage) == ((True, False), (2.5, 1.0))
    assert second.relevant == (False, False)
    assert read_askubuntu_texts(texts, body=True)["7"] == "title seven body seven"


def test_a_body_is_cut_at_a_hundred_words_and_a_title_is_not(tmp_path: Path) -> None:
    path = tmp_path / "text_tokenized.txt"
    path.write_text(f"7\t{'t ' * 119}t\t{'b ' * 149}b\n", encoding="utf-8")
    assert read_askubuntu_texts(path, body=True)["7"].split() == ["t"] * 120 + ["b"] * 100
    assert read_askubuntu_texts(path)["7"].split() == ["t"] * 120


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("7\t8\t8 9", "3 fields"),
        ("7\t8\t8 9\t2.5", "2 candidates, 1 scores"),
        ("7\t1\t8 9\t2 1", "similar"),
        ("7\t8\t8 9\t2 x", "'x'"),
    ],
)
def test_a_bad_annotation_is_named(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "dev.txt"
    path.write_text(line + "\n", encoding="utf-8")
    with pytest.raises(CorpusError, match=message):
        read_askubuntu(path, {})

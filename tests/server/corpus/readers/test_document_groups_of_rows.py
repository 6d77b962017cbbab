from __future__ import annotations

from pathlib import Path

import pytest

from pocketquery.sdk.errors import InvalidInputError
from pocketquery.server.corpus import Columns, Group
from pocketquery.server.corpus.readers.document_groups import read_document_rows

TABLE = "page\tline\ttext\nhome\t1\tOne. Two.\nhome\t5\tThree.\nhelp\t1\t\nhome\t9\tFour.\n"


def test_neighbouring_rows_of_one_page_are_a_document(tmp_path: Path) -> None:
    path = tmp_path / "pages.tsv"
    path.write_text(TABLE)
    assert list(read_document_rows(path, Columns(("text",), id="page"), lang="en")) == [
        Group("home", ("One.", "Two.", "Three."), lang="en"),
        Group("help", (), lang="en"),
        Group("home", ("Four.",), lang="en"),
    ]
    every_row = read_document_rows(path, Columns(("text",)))
    assert [group.id for group in every_row] == ["2", "3", "4", "5"]


def test_title_and_text_of_a_row(tmp_path: Path) -> None:
    path = tmp_path / "questions.tsv"
    path.write_text("title\tbody\nHow?\tI tried. It failed.\n\tNo title. At all.\n\t\n")
    assert list(read_document_rows(path, Columns(("title", "body")))) == [
        Group("2", ("How?", "I tried.", "It failed."), title=True),
        Group("3", ("No title.", "At all.")),
    ]
    with pytest.raises(InvalidInputError, match="3 columns are named for documents"):
        read_document_rows(path, Columns(("a", "b", "c")))

from __future__ import annotations

from pathlib import Path

import pytest

from pocketquery.sdk.errors import CorpusError, InvalidInputError
from pocketquery.server.corpus import Group
from pocketquery.server.corpus.readers.plain_text import Unit, read_plain_text, read_sentence_lines

TEXT = "\nThe first line\ngoes on. Then\n  it ends.\n\n \nSecond block. No more\n"


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (
            "block",
            [
                Group("2", ("The first line goes on.", "Then it ends."), lang="en"),
                Group("7", ("Second block.", "No more"), lang="en"),
            ],
        ),
        (
            "file",
            [
                Group(
                    "2",
                    ("The first line goes on.", "Then it ends.", "Second block.", "No more"),
                    lang="en",
                )
            ],
        ),
        (
            "line",
            [
                Group("2", ("The first line",), lang="en"),
                Group("3", ("goes on.", "Then"), lang="en"),
                Group("4", ("it ends.",), lang="en"),
                Group("7", ("Second block.", "No more"), lang="en"),
            ],
        ),
    ],
)
def test_what_a_document_is(tmp_path: Path, document: Unit, expected: list[Group]) -> None:
    (tmp_path / "a.txt").write_text(TEXT)
    assert list(read_plain_text(tmp_path / "a.txt", document, lang="en")) == expected


@pytest.mark.parametrize("content", ["", "\n", " \n\n\t\n"])
@pytest.mark.parametrize("document", ["block", "file", "line"])
def test_a_file_without_text_has_no_documents(tmp_path: Path, content: str, document: Unit) -> None:
    (tmp_path / "a.txt").write_text(content)
    assert list(read_plain_text(tmp_path / "a.txt", document)) == []
    assert list(read_sentence_lines(tmp_path / "a.txt")) == []


def test_blocks_come_one_at_a_time(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"One.\n\n" + "é".encode("latin-1"))
    groups = read_plain_text(tmp_path / "a.txt")
    assert next(groups).texts == ("One.",)
    with pytest.raises(CorpusError, match="line 3: bytes that are not UTF-8"):
        next(groups)


def test_sentences_a_line_with_blank_lines_between_documents(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("\nMr. A came\nand   B. went\n\n\nAlone\n")
    assert list(read_sentence_lines(tmp_path / "a.txt", lang="en")) == [
        Group("2", ("Mr. A came", "and B. went"), lang="en"),
        Group("6", ("Alone",), lang="en"),
    ]


def test_an_unknown_unit() -> None:
    with pytest.raises(InvalidInputError, match="document is 'page'"):
        read_plain_text("a.txt", "page")  # type: ignore[arg-type]

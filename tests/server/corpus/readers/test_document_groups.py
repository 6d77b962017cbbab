from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from pocketquery.sdk.errors import ArtifactNotFoundError, CorpusError
from pocketquery.server.corpus import Group
from pocketquery.server.corpus.readers.document_groups import read_document_groups
from tests.server.corpus.readers.lines import check_refused, write

LINES = [
    {"_id": "a", "title": "First", "text": "One. Two is\nlonger.", "lang": "en"},
    {"id": 7, "sentences": ["Zwei.", " ", "Drei."], "language": "de"},
    {"title": "Third", "paragraphs": [{"heading": "H"}, {"text": "A. B!"}, "最后。完。"]},
    {"_id": "empty", "title": None, "text": ""},
    {"_id": "one", "text": "only one sentence"},
]


def test_every_layout_of_a_document(tmp_path: Path) -> None:
    path = write(tmp_path / "corpus.jsonl", *LINES)
    assert list(read_document_groups(path, lang="fr")) == [
        Group("a", ("First", "One.", "Two is longer."), lang="en", title=True),
        Group("7", ("Zwei.", "Drei."), lang="de"),
        Group("3", ("Third", "A. B!", "最后。", "完。"), lang="fr", title=True),
        Group("empty", (), lang="fr"),
        Group("one", ("only one sentence",), lang="fr"),
    ]


def test_gzip_reads_as_plain(tmp_path: Path) -> None:
    plain = write(tmp_path / "plain", *LINES)
    (tmp_path / "packed").write_bytes(gzip.compress(plain.read_bytes()))
    packed = list(read_document_groups(tmp_path / "packed"))
    assert packed == list(read_document_groups(plain))


def test_neighbours_of_one_title_are_one_document(tmp_path: Path) -> None:
    lines = [
        {"_id": "x1", "title": "X", "text": "One."},
        {"_id": "x2", "title": "X", "text": "Two."},
        {"_id": "x3", "title": "X", "text": "Drei.", "lang": "de"},
        {"_id": "y", "title": "", "text": "Four."},
        {"_id": "z", "text": "Five."},
        {"_id": "x4", "title": "X", "text": "Six."},
    ]
    path = write(tmp_path / "corpus.jsonl", *lines)
    assert list(read_document_groups(path, join_titles=True)) == [
        Group("x1", ("X", "One.", "Two."), title=True),
        Group("x3", ("X", "Drei."), lang="de", title=True),
        Group("y", ("Four.",)),
        Group("z", ("Five.",)),
        Group("x4", ("X", "Six."), title=True),
    ]
    assert len(list(read_document_groups(path))) == 6


def test_documents_come_one_at_a_time(tmp_path: Path) -> None:
    groups = read_document_groups(write(tmp_path / "corpus.jsonl", LINES[0], "no object"))
    assert next(groups).id == "a"
    with pytest.raises(CorpusError, match="line 2: a JSON str"):
        next(groups)


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ({"_id": "b"}, "no text among"),
        ({"_id": "b", "sentences": "x"}, "sentences is str; expected a list"),
        ({"_id": "b", "sentences": ["x", 5]}, "sentences[1] is int"),
        ({"_id": "b", "paragraphs": [{"text": 5}]}, "paragraphs[0] is int"),
        ({"_id": [], "text": "x"}, "_id is list"),
        ({"_id": "b", "text": "x", "lang": 3}, "lang is int"),
        ({"_id": "b", "text": "\ud83d"}, "text holds a lone surrogate"),
    ],
)
def test_a_line_that_is_no_document_is_named(tmp_path: Path, line: object, found: str) -> None:
    path = write(tmp_path / "corpus.jsonl", LINES[0], line)
    check_refused(lambda path: list(read_document_groups(path)), path, 2, found)


def test_a_file_of_another_encoding_is_named(tmp_path: Path) -> None:
    path = tmp_path / "corpus.jsonl"
    path.write_bytes('{"text": "plain"}\n{"text": "café"}\n'.encode("latin-1"))
    with pytest.raises(CorpusError, match="line 2: bytes that are not UTF-8"):
        list(read_document_groups(path))
    with pytest.raises(ArtifactNotFoundError):
        list(read_document_groups(tmp_path / "none.jsonl"))

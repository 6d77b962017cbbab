from __future__ import annotations

import gzip
import lzma
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pocketquery.sdk.errors import ArtifactNotFoundError, CorpusError
from pocketquery.sdk.index.documents import Document, check_document, content
from pocketquery.server.corpus import read_documents
from tests.server.corpus.readers.lines import check_refused, write

LINES = [
    {"_id": "a", "title": "First", "text": "one", "lang": "en"},
    {"id": 7, "sentences": ["Two.", "Three."], "metadata": {"url": "u", "lang": "de"}},
    {"_id": "c", "title": None, "text": "", "metadata": "plain"},
]


def test_every_layout_of_a_document(tmp_path: Path) -> None:
    assert list(read_documents(write(tmp_path / "corpus.jsonl", *LINES))) == [
        Document("a", "one", {"lang": "en", "title": "First"}),
        Document("7", "Two. Three.", {"url": "u", "lang": "de"}),
        Document("c", "", {"metadata": "plain"}),
    ]


def test_title_and_text_make_the_content(tmp_path: Path) -> None:
    first = next(read_documents(write(tmp_path / "corpus.jsonl", *LINES)))
    assert content(first) == "First one"


@pytest.mark.parametrize("name", ["corpus.jsonl.gz", "corpus.jsonl.xz", "corpus.jsonl"])
@pytest.mark.parametrize("packed", [gzip.compress, lzma.compress])
def test_packed_files_are_known_by_their_bytes(
    tmp_path: Path, packed: Callable[[bytes], bytes], name: str
) -> None:
    plain = write(tmp_path / "plain", *LINES)
    (tmp_path / name).write_bytes(packed(plain.read_bytes()))
    assert list(read_documents(tmp_path / name)) == list(read_documents(plain))


def test_plain_text_named_gz_is_read(tmp_path: Path) -> None:
    assert len(list(read_documents(write(tmp_path / "corpus.jsonl.gz", *LINES)))) == 3


def test_blank_lines_crlf_and_a_byte_order_mark_are_no_matter(tmp_path: Path) -> None:
    path = tmp_path / "corpus.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"_id": "a", "text": "x"}\r\n\r\n \n{"_id": "b", "text": "y"}')
    assert [document.id for document in read_documents(path)] == ["a", "b"]


def test_documents_come_one_at_a_time(tmp_path: Path) -> None:
    documents = read_documents(write(tmp_path / "corpus.jsonl", LINES[0], "no object"))
    assert next(documents).id == "a"
    with pytest.raises(CorpusError):
        next(documents)


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("{not json", "not JSON"),
        ('{"_id": "a", "text": "x", "text": "y"}', "the key 'text' occurs twice"),
        ('{"_id": "a", "text": "x", "metadata": {"t": 1, "t": 2}}', "the key 't' occurs twice"),
        ("[1, 2]", "a JSON list"),
        ('{"text": "x"}', "no field '_id' or 'id' among ['text']"),
        ('{"_id": "", "text": "x"}', "_id is empty"),
        ('{"_id": true, "text": "x"}', "_id is bool"),
        ('{"_id": "b"}', "no field 'text' or 'sentences' among ['_id']"),
        ('{"_id": "b", "sentences": "x"}', "no text, and sentences is str"),
        ('{"_id": "b", "text": 5}', "text is int"),
        ('{"_id": "b", "sentences": ["x", 5]}', "sentences[1] is int"),
        ('{"_id": "b", "title": ["x"], "text": "x"}', "title is list"),
        ('{"_id": "a", "text": "x"}', "the id 'a' of line 1 again"),
        ('{"_id": "b", "text": "\\ud83d"}', "text holds a lone surrogate at character 0"),
        ('{"_id": "b", "text": "x", "tag": "\\udc00"}', "metadata holds a lone surrogate"),
        ('{"_id": "b", "text": "x", "year": NaN}', "NaN is no JSON number"),
        ('{"_id": "b", "text": "x", "year": 1e999}', "the field 'year', which cannot be stored"),
        ("[" * 100_000, "not JSON"),
        ("1" * 5_000, "not JSON"),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, line: str, found: str) -> None:
    path = tmp_path / "corpus.jsonl"
    path.write_text('{"_id": "a", "text": "x"}\n\n' + line, encoding="utf-8")
    message = check_refused(lambda path: list(read_documents(path)), path, 3, found)
    assert "; expected " in message


def test_bytes_that_are_not_utf8_name_their_line(tmp_path: Path) -> None:
    path = tmp_path / "corpus.jsonl"
    path.write_bytes(b'{"_id": "a", "text": "x"}\n{"_id": "b", "text": "\xff"}')
    with pytest.raises(CorpusError, match="line 2: bytes that are not UTF-8"):
        list(read_documents(path))


@pytest.mark.parametrize("keep", [12, 40, -4])
@pytest.mark.parametrize("packed", [gzip.compress, lzma.compress])
def test_a_truncated_file_is_an_error(
    tmp_path: Path, packed: Callable[[bytes], bytes], keep: int
) -> None:
    path = tmp_path / "corpus.jsonl.gz"
    path.write_bytes(packed(write(tmp_path / "plain", *LINES).read_bytes())[:keep])
    with pytest.raises(CorpusError, match="gzip or xz stream"):
        list(read_documents(path))


@pytest.mark.parametrize("name", ["corpus.jsonl.gz", "corpus.jsonl.XZ", "corpus.parquet"])
def test_a_file_without_a_byte_is_no_packed_one(tmp_path: Path, name: str) -> None:
    (tmp_path / name).touch()
    (tmp_path / "plain.jsonl").touch()
    for place in (tmp_path / name, (tmp_path / name).as_uri()):
        with pytest.raises(CorpusError, match=rf"{name}: found no byte in it"):
            list(read_documents(place))
    assert list(read_documents(tmp_path / "plain.jsonl")) == []
    (tmp_path / "none.jsonl.gz").write_bytes(gzip.compress(b""))
    assert list(read_documents(tmp_path / "none.jsonl.gz")) == []


def test_a_missing_file_and_a_folder_are_named(tmp_path: Path) -> None:
    for path in (tmp_path / "absent.jsonl", tmp_path):
        with pytest.raises(ArtifactNotFoundError, match=path.name):
            list(read_documents(path))


@example(b"PAR1")
@given(
    st.binary(max_size=200)
    | st.tuples(st.sampled_from([b"\x1f\x8b\x08", b"\xfd7zXZ\x00"]), st.binary(max_size=60)).map(
        b"".join
    )
)
def test_arbitrary_bytes_give_documents_or_a_corpus_error(
    tmp_path_factory: pytest.TempPathFactory, data: bytes
) -> None:
    path = tmp_path_factory.getbasetemp() / "arbitrary.jsonl"
    path.write_bytes(data)
    check(path)


fields = st.sampled_from(["_id", "id", "text", "title", "sentences", "metadata"]) | st.text()
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(codec=None)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(fields, inner, max_size=4),
    max_leaves=8,
)


@given(st.lists(st.dictionaries(fields, json_values, max_size=5), max_size=4))
def test_arbitrary_objects_give_documents_or_a_corpus_error(
    tmp_path_factory: pytest.TempPathFactory, lines: list[object]
) -> None:
    check(write(tmp_path_factory.getbasetemp() / "objects.jsonl", *lines))


def check(path: Path) -> None:
    documents, message = [], ""
    try:
        documents = list(read_documents(path))
    except CorpusError as error:
        message = str(error)
    assert not message or f"{path}, line " in message or f"{path}: after row " in message
    for document in documents:
        check_document(document)  # the index takes whatever was read

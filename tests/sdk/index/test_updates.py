"""``Index.upsert``: what differs is replaced, what is equal left alone, vectors are taken over."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketquery.sdk.errors import CorruptArtifactError, InvalidInputError
from pocketquery.sdk.index.documents import Document, content
from pocketquery.sdk.index.index import Index, open_index, verify_index
from pocketquery.sdk.index.updates import (
    Changes,
    FileState,
    IndexSource,
    change_index,
    read_files,
    read_source,
    record_files,
    record_source,
)
from tests.sdk.small_index import DIMENSION, WordEncoder, make_index, vectors_of


class CountingEncoder(WordEncoder):
    """Remembers what it encoded."""

    def __init__(self) -> None:
        self.encoded: list[str] = []

    def encode_document(self, sentences: Any, /) -> Any:
        self.encoded += sentences
        return self.encode(sentences)


def writable(path: Path, encoder: CountingEncoder | None = None) -> Index:
    return open_index(path, encoder=encoder or CountingEncoder(), writable=True)


def test_upsert_adds_replaces_and_leaves_alone(tmp_path: Path) -> None:
    documents = make_index(tmp_path / "index", 10)
    changed = Document("doc-3", "something else entirely", documents[3].metadata)
    renumbered = Document("doc-4", documents[4].text, {**documents[4].metadata, "year": 1})
    encoder = CountingEncoder()
    with writable(tmp_path / "index", encoder) as index:
        done = index.upsert([*documents[:3], changed, renumbered, ("new", "a new text")])
        assert done == Changes(added=1, replaced=2, removed=0, unchanged=3, encoded=2)
        assert encoder.encoded == [content(changed), "a new text"]
        assert len(index) == 11
        assert index.get("doc-3") == changed
        assert index.get("doc-4") == renumbered
        assert index.search("something else entirely", 1, mode="lexical")[0].id == "doc-3"
        assert index.search(content(renumbered), 1, mode="dense")[0].id == "doc-4"
        assert index.upsert([changed, renumbered]) == Changes(unchanged=2)
    verify_index(tmp_path / "index")


def test_a_moved_document_keeps_its_vector(tmp_path: Path) -> None:
    documents = make_index(tmp_path / "index", 4)
    moved = Document("elsewhere", documents[2].text, documents[2].metadata)
    encoder = CountingEncoder()
    with writable(tmp_path / "index", encoder) as index:
        before = index.vectors(["doc-2"])
        old = before.vectors(np.array([before.row_of["doc-2"]]))
        done = change_index(index, [moved], encoder.encode_document, remove=["doc-2", "absent"])
        assert done == Changes(added=1, removed=1)
        after = index.vectors(["elsewhere"])
        new = after.vectors(np.array([after.row_of["elsewhere"]]))
        np.testing.assert_array_equal(old, new)
        assert index.get("doc-2") is None
    assert encoder.encoded == []


def test_vectors_that_are_given_are_stored(tmp_path: Path) -> None:
    documents = make_index(tmp_path / "index", 3)
    vectors = vectors_of(documents)
    with writable(tmp_path / "index") as index:
        assert index.upsert(documents, vectors) == Changes(unchanged=3)
        vectors[1] = -vectors[1]
        assert index.upsert(documents, vectors) == Changes(replaced=1, unchanged=2)
        assert index.search(vectors[1], 1)[0].id == "doc-1"
        assert index.search(vectors[1], 1)[0].score == pytest.approx(1, abs=0.01)


@pytest.mark.parametrize(
    ("documents", "message"),
    [
        (["a text"], r"documents\[0\] is a text without an id"),
        ([{"text": "a"}], r"the id of documents\[0\] is empty"),
        ([("a", "x"), ("a", "y")], "has the id 'a' of one before it"),
    ],
)
def test_what_has_no_id_of_its_own_is_refused(
    tmp_path: Path, documents: list[Any], message: str
) -> None:
    make_index(tmp_path / "index", 1)
    with writable(tmp_path / "index") as index:
        with pytest.raises(InvalidInputError, match=message):
            index.upsert(documents)
        assert len(index) == 1


@given(
    st.lists(
        st.dictionaries(
            st.sampled_from("abcd"), st.sampled_from(["one sea", "two seas", "x"]), max_size=4
        ),
        min_size=1,
        max_size=4,
    )
)
def test_after_any_upserts_the_index_has_the_last_texts(
    tmp_path_factory: pytest.TempPathFactory, steps: list[dict[str, str]]
) -> None:
    path = tmp_path_factory.mktemp("index") / "index"
    make_index(path, 0)
    expected = dict[str, str]()
    with writable(path) as index:
        for step in steps:
            done = index.upsert(step.items())
            assert done.unchanged == sum(expected.get(key) == text for key, text in step.items())
            assert done.added == len(step.keys() - expected.keys())
            expected |= step
        assert {one.id: one.text for one in index.documents()} == expected
        for key, text in expected.items():
            assert key in [hit.id for hit in index.search(text, 4, mode="lexical")] or text == "x"
    verify_index(path)


def test_an_index_remembers_its_folder(tmp_path: Path) -> None:
    make_index(tmp_path / "index", 2)
    source = IndexSource("/notes", exclude=("drafts/",), encoder="f" * 64)
    state = FileState(3, 2**60, "0" * 64, ("a#1", "a#2"))
    with writable(tmp_path / "index") as index:
        assert index.source is None
        with index.writing() as connection:
            record_source(connection, source)
            record_files(connection, {"a": state, "b": state._replace(ids=())})
            record_files(connection, {"a": state._replace(size=4)}, gone=["b"])
        with index.reading() as (connection, _):
            assert read_files(connection) == {"a": state._replace(size=4)}
        assert index.source == source


@pytest.mark.parametrize("ids", ["{}", "[1]", "no JSON", None])
def test_a_state_that_is_none_is_refused(tmp_path: Path, ids: object) -> None:
    make_index(tmp_path / "index", 1)
    with writable(tmp_path / "index") as index:
        with index.writing() as connection:
            connection.execute("INSERT INTO files VALUES ('a', 1, 1, 'x', ?)", (str(ids),))
            connection.execute("INSERT INTO meta VALUES ('source', '[1')")
        with index.reading() as (connection, _):
            with pytest.raises(CorruptArtifactError, match="state of the file 'a'"):
                read_files(connection)
            with pytest.raises(CorruptArtifactError, match="a source that cannot be read"):
                read_source(connection)


def test_the_dimension_of_a_vector_is_checked(tmp_path: Path) -> None:
    make_index(tmp_path / "index", 1)
    with writable(tmp_path / "index") as index:
        wrong = np.ones((1, DIMENSION + 1))
        with pytest.raises(InvalidInputError, match="shape"):
            change_index(index, [Document("a", "text")], lambda _: wrong)
        assert len(index) == 1

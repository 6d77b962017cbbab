from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pocketquery.sdk.errors import CorruptArtifactError, InvalidInputError
from pocketquery.sdk.index.documents import (
    Document,
    check_document,
    check_tables,
    content,
    create_tables,
    delete_documents,
    documents_of_rows,
    find_document,
    has_document,
    insert_documents,
    stream_documents,
)

ANY_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
JSON = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(allow_nan=False, allow_infinity=False),
        ANY_TEXT,
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(ANY_TEXT, inner, max_size=3)
    ),
    max_leaves=8,
)


@pytest.fixture
def connection() -> Iterator[sqlite3.Connection]:
    made = sqlite3.connect(":memory:")
    create_tables(made)
    yield made
    made.close()


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (Document("1", "text"), "text"),
        (Document("1", " text ", {"title": "Title"}), "Title  text"),
        (Document("1", "text", {"title": ""}), "text"),
        (Document("1", "", {"title": "Title"}), "Title"),
        (Document("1", "text", {"title": 7}), "text"),
    ],
)
def test_content_is_title_and_text(document: Document, expected: str) -> None:
    assert content(document) == expected


@settings(max_examples=150, deadline=None)
@given(ANY_TEXT.filter(bool), ANY_TEXT, st.dictionaries(ANY_TEXT, JSON, max_size=3))
def test_any_document_comes_back(identifier: str, text: str, metadata: dict[str, Any]) -> None:
    document = Document(identifier, text, metadata)
    check_document(document)
    made = sqlite3.connect(":memory:")
    create_tables(made)
    insert_documents(made, 5, [document])
    assert find_document(made, identifier) == document
    assert documents_of_rows(made, [5]) == {5: document}
    made.close()


def nested(depth: int) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for _ in range(depth):
        made = {"in": made}
    return made


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (Document("", "text"), "empty"),
        (Document("a\ud800", "text"), "surrogate"),
        (Document("a", "text\udfff"), r"text of the document \('a'\).*surrogate"),
        (Document("a", 3), "int"),  # type: ignore[arg-type]
        (Document(3, "text"), "int"),  # type: ignore[arg-type]
        (Document("a", "text", {"x": float("nan")}), "JSON"),
        (Document("a", "text", {"x": {1, 2}}), "JSON"),
        (Document("a", "text", {"x": nested(5000)}), "nested more than 100"),
        (Document("a", "text", nested(100)), "nested more than 100"),
        (Document("a", "text", {3: 1}), "mapping"),  # type: ignore[dict-item]
        (Document("a", "text", [1]), "mapping"),  # type: ignore[arg-type]
        (Document("a", "text", {"x": "\ud800"}), "surrogate"),
        ("a text", "expected a Document"),
    ],
)
def test_a_bad_document_is_named(document: Any, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        check_document(document)


def test_an_id_there_already_is_named(connection: sqlite3.Connection) -> None:
    insert_documents(connection, 0, [Document("a", "1"), Document("b", "2")])
    with pytest.raises(InvalidInputError, match="'b' is in the index already"):
        insert_documents(connection, 2, [Document("c", "3"), Document("b", "4")])


def test_deleting_forgets_the_text_and_keeps_the_row_number(connection: sqlite3.Connection) -> None:
    insert_documents(connection, 0, [Document(name, name * 3) for name in "abc"])
    assert delete_documents(connection, ["b", "unknown", "b"]) == 1
    assert find_document(connection, "b") is None
    assert not has_document(connection, "b")
    assert has_document(connection, "a")
    assert connection.execute("SELECT row FROM texts").fetchall() == [(0,), (2,)]
    assert connection.execute("SELECT row FROM tombstones").fetchall() == [(1,)]
    insert_documents(connection, 3, [Document("b", "again")])
    assert find_document(connection, "b") == Document("b", "again")


def test_many_rows_are_read_at_once(connection: sqlite3.Connection) -> None:
    documents = [Document(str(row), "text") for row in range(1200)]
    insert_documents(connection, 0, documents)
    found = documents_of_rows(connection, list(range(1200)))
    assert [found[row] for row in range(1200)] == documents
    assert list(stream_documents(connection, 10, 13)) == documents[10:13]


def test_metadata_that_holds_itself_is_refused() -> None:
    circle: dict[str, Any] = {"a": 1}
    circle["b"] = [circle, circle]
    with pytest.raises(InvalidInputError, match="nested"):
        check_document(Document("a", "text", circle))
    check_document(Document("a", "text", nested(99)))


def test_a_text_beyond_sqlites_limit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pocketquery.sdk.index.documents._MOST_CHARACTERS", 100)
    for document in (
        Document("a" * 101, "text"),
        Document("a", "x" * 101),
        Document("a", "text", {"x": "x" * 100}),
    ):
        with pytest.raises(InvalidInputError, match="characters, expected at most 100"):
            check_document(document)


@pytest.mark.parametrize(
    "sql",
    [
        "DELETE FROM documents WHERE row = 1",
        "DELETE FROM texts WHERE row = 1",
        "INSERT INTO tombstones VALUES (1)",
        "DELETE FROM documents WHERE row = 1; INSERT INTO tombstones VALUES (1)",
        "UPDATE texts SET row = 7 WHERE row = 1",
        "UPDATE documents SET id = '' WHERE row = 1",
        "UPDATE documents SET id = x'61' WHERE row = 1",
        "UPDATE documents SET metadata = '[]' WHERE row = 1",
    ],
)
def test_tables_that_disagree_are_damage(connection: sqlite3.Connection, sql: str) -> None:
    insert_documents(connection, 0, [Document(name, name) for name in "abc"])
    delete_documents(connection, ["c"])
    check_tables(connection, 3, np.zeros(2, np.uint16))
    connection.executescript(sql)
    with pytest.raises(CorruptArtifactError):
        check_tables(connection, 3, np.zeros(2, np.uint16))


def test_a_row_that_should_be_free_is_no_id_twice(connection: sqlite3.Connection) -> None:
    insert_documents(connection, 0, [Document("a", "1")])
    with pytest.raises(sqlite3.IntegrityError):  # which the index calls damage
        insert_documents(connection, 0, [Document("b", "2")])

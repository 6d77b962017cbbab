from __future__ import annotations

import contextlib
import math
import sqlite3
from collections import Counter
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketquery.sdk.errors import CorruptArtifactError
from pocketquery.sdk.index.bm25 import (
    bm25,
    check_postings,
    create_postings,
    insert_postings,
    renumber_postings,
)
from pocketquery.sdk.words import Query

TEXTS = ["a b b", "b c", "a a a a d", "e", "c b a"]


@pytest.fixture
def connection() -> Iterator[sqlite3.Connection]:
    made = sqlite3.connect(":memory:")
    create_postings(made)
    yield made
    made.close()


def occurrences(texts: list[str]) -> Counter[tuple[str, int]]:
    return Counter((term, row) for row, text in enumerate(texts) for term in text.split())


def lengths(texts: list[str]) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    return np.array([len(text.split()) for text in texts], np.float32)


def reference(texts: list[str], query: str) -> list[float]:
    """The formula, one document and one term at a time."""
    documents = [text.split() for text in texts]
    mean = sum(map(len, documents)) / len(documents)
    scores = []
    for words in documents:
        score = 0.0
        for term in query.split():
            frequency = sum(term in other for other in documents)
            idf = math.log(1 + (len(documents) - frequency + 0.5) / (frequency + 0.5))
            norm = 1.2 * (1 - 0.75 + 0.75 * len(words) / mean)
            score += idf * words.count(term) * 2.2 / (words.count(term) + norm)
        scores.append(score)
    return scores


@pytest.mark.parametrize("query", ["a", "b c", "a a b", "e", "nothing", "nothing d"])
@pytest.mark.parametrize("cut", [5, 3, 1])
def test_scores_equal_the_formula(connection: sqlite3.Connection, query: str, cut: int) -> None:
    for start in range(0, len(TEXTS), cut):
        insert_postings(connection, start, occurrences(TEXTS[start : start + cut]))
    scores = bm25(connection, Counter(query.split()), lengths(TEXTS)).scores
    np.testing.assert_allclose(scores, reference(TEXTS, query), rtol=1e-5)


def test_hand_computed() -> None:
    # One of two documents of equal length has the term once: idf = log(1 + 1.5 / 1.5) = log 2.
    connection = sqlite3.connect(":memory:")
    create_postings(connection)
    insert_postings(connection, 0, occurrences(["x y", "z y"]))
    scores = bm25(connection, {"x": 1}, lengths(["x y", "z y"])).scores
    np.testing.assert_allclose(scores, [math.log(2) * 2.2 / 2.2, 0], rtol=1e-6)
    connection.close()


def test_the_reference_fixture(connection: sqlite3.Connection) -> None:
    """Worked out apart from this code: N 3, mean length 3, df 1 and 2, idf log 8/3 and log 8/5."""
    texts = ["a b a", "b c", "c c c d"]
    insert_postings(connection, 0, occurrences(texts))
    scores = bm25(connection, {"a": 1, "c": 1}, lengths(texts)).scores
    np.testing.assert_allclose(scores, [1.348640, 0.544215, 0.689339], atol=1e-6)


def test_renumbering_is_indexing_what_is_left(connection: sqlite3.Connection) -> None:
    insert_postings(connection, 0, occurrences(TEXTS[:2]))
    insert_postings(connection, 2, occurrences(TEXTS[2:]))
    renumber_postings(connection, np.array([-1, 0, 1, -1, 2]))
    left = [TEXTS[1], TEXTS[2], TEXTS[4]]
    scores = bm25(connection, {"a": 1, "b": 1, "e": 1}, lengths(left)).scores
    np.testing.assert_allclose(scores, reference(left, "a b e"), rtol=1e-5)
    (terms,) = connection.execute("SELECT count(*) FROM postings WHERE term = 'e'").fetchone()
    assert terms == 0


def test_no_documents(connection: sqlite3.Connection) -> None:
    lexical = bm25(connection, {"a": 1}, np.zeros(0, np.float32))
    assert lexical.scores.shape == (0,)
    assert (lexical.most, lexical.present) == (0, 0)


def test_a_term_counts_by_its_weight(connection: sqlite3.Connection) -> None:
    insert_postings(connection, 0, occurrences(TEXTS))
    lexical = bm25(connection, {"a": 0.25, "nothing": 2.0}, lengths(TEXTS))
    np.testing.assert_allclose(lexical.scores, np.array(reference(TEXTS, "a")) / 4, rtol=1e-6)
    idf_of_a = math.log(1 + (5 - 3 + 0.5) / (3 + 0.5))
    assert lexical.present == pytest.approx(0.25 * idf_of_a * 2.2)
    assert lexical.most == pytest.approx(lexical.present + 2 * math.log(1 + 5.5 / 0.5) * 2.2)


@given(st.lists(st.text("abc ", max_size=30), min_size=1, max_size=9), st.text("abcd ", max_size=9))
def test_no_document_reaches_the_most(texts: list[str], query: str) -> None:
    with contextlib.closing(sqlite3.connect(":memory:")) as made:
        create_postings(made)
        insert_postings(made, 0, occurrences(texts))
        lexical = bm25(made, Counter(query.split()), lengths(texts))
    assert (lexical.scores <= lexical.present * (1 + 1e-6)).all()
    assert lexical.present <= lexical.most


def test_a_count_beyond_16_bits_is_kept_at_the_most(connection: sqlite3.Connection) -> None:
    insert_postings(connection, 0, Counter({("a", 0): 100_000}))
    assert bm25(connection, {"a": 1}, np.array([100_000], np.float32)).scores[0] > 0


def test_a_terms_records_lie_side_by_side(connection: sqlite3.Connection) -> None:
    (plan,) = connection.execute("EXPLAIN QUERY PLAN SELECT * FROM postings WHERE term = 'a'")
    assert "PRIMARY KEY" in plan[3]  # and not through an index, one seek a record


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("rows", np.array([0, 5], "<u4").tobytes()),
        ("rows", np.array([0, 2**32 - 1], "<u4").tobytes()),
        ("rows", np.arange(6, dtype="<u4").tobytes()),
        ("rows", b"123"),
        ("rows", "text"),
        ("rows", 7),
        ("counts", b""),
        ("counts", b"\1\0\1"),
        ("counts", b"\1\0" * 7),
        ("counts", 2.5),
        ("first_row", 5),
        ("first_row", -1),
        ("first_row", 2**63 - 1),
        ("first_row", "x"),
    ],
)
def test_postings_of_no_document_are_damage(
    connection: sqlite3.Connection, column: str, value: object
) -> None:
    insert_postings(connection, 0, occurrences(TEXTS))
    check_postings(connection, lengths(TEXTS), [0])
    connection.execute(f"UPDATE postings SET {column} = ? WHERE term = 'a'", (value,))
    connection.commit()
    for use in (
        lambda: bm25(connection, {"a": 1}, lengths(TEXTS)),
        lambda: renumber_postings(connection, np.arange(5)),
        lambda: check_postings(connection, lengths(TEXTS), [0]),
    ):
        with pytest.raises(CorruptArtifactError, match="postings"):
            use()
        connection.rollback()


def test_records_whose_cuts_cancel_out_are_damage(
    connection: sqlite3.Connection,
) -> None:
    """Joined, the rows are two and the counts two: as many as there should be, of other records."""
    for first_row, rows, counts in ((0, b"\0" * 6, b"\1\0\1"), (2, b"\0" * 2, b"\0")):
        connection.execute("INSERT INTO postings VALUES ('a', ?, ?, ?)", (first_row, rows, counts))
    with pytest.raises(CorruptArtifactError, match="postings"):
        bm25(connection, {"a": 1}, lengths(TEXTS))


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE postings SET counts = zeroblob(length(counts))",
        "UPDATE postings SET counts = x'010001000100' WHERE term = 'b'",
        "UPDATE postings SET rows = x'0100000000000000' WHERE term = 'd'",
        "DELETE FROM postings WHERE term = 'e'",
        "UPDATE postings SET term = x'65' WHERE term = 'e'",
        "UPDATE postings SET first_row = 1, rows = x'02000000' WHERE term = 'e'",
    ],
)
def test_checking_finds_what_a_search_would_take(connection: sqlite3.Connection, sql: str) -> None:
    insert_postings(connection, 0, occurrences(TEXTS))
    connection.execute(sql)
    with pytest.raises(CorruptArtifactError, match="postings"):
        check_postings(connection, lengths(TEXTS), [0])


def test_counts_that_were_cut_to_16_bits_are_no_damage(connection: sqlite3.Connection) -> None:
    many = Counter({("a", 0): 100_000, ("b", 0): 3})
    insert_postings(connection, 0, many)
    check_postings(connection, np.array([100_003], np.float32), [0])


def test_compounds_that_no_document_has_take_nothing_from_the_most(
    connection: sqlite3.Connection,
) -> None:
    insert_postings(connection, 0, occurrences(TEXTS))
    terms = {"a": 1.0, "a-b": 1.0, "nothing": 1.0}
    query = Query("", terms, beside=frozenset({"a-b", "b"}))
    lexical = bm25(connection, terms, lengths(TEXTS), query)
    expected = bm25(connection, {"a": 1.0, "nothing": 1.0}, lengths(TEXTS))
    assert (lexical.most, lexical.present) == (expected.most, expected.present)
    assert bm25(connection, terms | {"b": 1.0}, lengths(TEXTS), query).most == expected.most


def test_a_word_of_a_phrase_counts_once(connection: sqlite3.Connection) -> None:
    insert_postings(connection, 0, occurrences(["a a a b", "a b c d"]))
    terms = {"a": 1.0, "b": 1.0}
    scores = bm25(connection, terms, np.full(2, 4, np.float32), Query("", terms)).scores
    assert scores[0] > scores[1]
    query = Query("", terms, phrases=(("a", "b"),))
    scores = bm25(connection, terms, np.full(2, 4, np.float32), query).scores
    assert scores[0] == scores[1] > 0

from __future__ import annotations

import json
import sqlite3
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pocketquery.sdk.errors import InvalidInputError
from pocketquery.sdk.index.filters import compile_filter

METADATA: list[dict[str, Any]] = [
    {"lang": "en", "year": 1999, "tag": ["news", "sport"]},
    {"lang": "de", "year": 2004, "tag": []},
    {"lang": "en", "year": 2010.5, "tag": "news", "ok": True},
    {"year": "2004", "ok": False, "none": None},
    {},
]


def matching(query: dict[str, Any], records: list[dict[str, Any]]) -> list[int]:
    condition = compile_filter(query)
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE TABLE documents (row INTEGER PRIMARY KEY, metadata TEXT)")
    connection.executemany(
        "INSERT INTO documents VALUES (?, ?)",
        [(row, json.dumps(record, ensure_ascii=False)) for row, record in enumerate(records)],
    )
    sql = f"SELECT row FROM documents WHERE {condition.sql} ORDER BY row"
    try:
        return [row for (row,) in connection.execute(sql, condition.parameters)]
    finally:
        connection.close()


@pytest.mark.parametrize(
    ("query", "rows"),
    [
        ({}, [0, 1, 2, 3, 4]),
        ({"lang": "en"}, [0, 2]),
        ({"lang": "en", "year": {"$gte": 2000}}, [2]),
        ({"year": {"$gte": 1999, "$lt": 2010}}, [0, 1]),
        ({"year": 2004}, [1]),
        ({"year": "2004"}, [3]),
        ({"year": {"$gt": "1"}}, [3]),
        ({"lang": {"$ne": "en"}}, [1, 3, 4]),
        ({"lang": {"$in": ["de", "fr"]}}, [1]),
        ({"lang": {"$in": []}}, []),
        ({"lang": {"$nin": ["de", "fr"]}}, [0, 2, 3, 4]),
        ({"year": {"$in": [1999, "2004", None]}}, [0, 3, 4]),
        ({"tag": "news"}, [0, 2]),
        ({"tag": {"$in": ["sport", 1]}}, [0]),
        ({"tag": {"$ne": "news"}}, [1, 3, 4]),
        ({"ok": True}, [2]),
        ({"ok": False}, [3]),
        ({"ok": 1}, []),
        ({"none": None}, [0, 1, 2, 3, 4]),
        ({"lang": None}, [3, 4]),
        ({"lang": {"$exists": True}}, [0, 1, 2]),
        ({"none": {"$exists": True}}, [3]),
        ({"none": {"$exists": False}}, [0, 1, 2, 4]),
        ({"$or": [{"lang": "de"}, {"ok": True}]}, [1, 2]),
        ({"$or": []}, []),
        ({"$and": [{"lang": "en"}, {"ok": True}]}, [2]),
        ({"$and": []}, [0, 1, 2, 3, 4]),
        ({"$not": {"lang": "en"}}, [1, 3, 4]),
        ({"$not": {}}, []),
        ({"year": {"$lt": 10**400}}, [0, 1, 2]),
        ({"year": {"$gt": -(10**400)}}, [0, 1, 2]),
        ({"year": {"$in": [2**70, float("inf"), 1999]}}, [0]),
    ],
)
def test_what_a_filter_matches(query: dict[str, Any], rows: list[int]) -> None:
    assert matching(query, METADATA) == rows


@pytest.mark.parametrize(
    "query",
    [
        {"year": {"$near": 3}},
        {"$nor": []},
        {"$or": {"a": 1}},
        {"$or": ["a"]},
        {"$and": "ab"},
        {"$not": 3},
        {"year": {"$gt": None}},
        {"year": {"$gt": True}},
        {"year": {"$gt": [1]}},
        {"year": {"$in": "abc"}},
        {"year": {"$in": [[1]]}},
        {"year": {"$exists": 1}},
        {"year": [1]},
        {"year": float("nan")},
        {"year": "\ud800"},
        {"\ud800": 1},
        {3: 1},
        [],
        {"$or": [{"a": 1}] * 301},
        {"a": {}},
    ],
)
def test_what_is_no_filter_is_an_error(query: Any) -> None:
    with pytest.raises(InvalidInputError):
        compile_filter(query)


def test_nesting_is_limited() -> None:
    query: dict[str, Any] = {"a": 1}
    for _ in range(100):
        query = {"$not": query}
    with pytest.raises(InvalidInputError, match="nested"):
        compile_filter(query)


def test_the_largest_and_deepest_filters_are_within_sqlites_limits() -> None:
    query: dict[str, Any] = {"lang": "en"}
    for _ in range(5):
        query = {"$not": {"$or": [*[{"lang": "xx"}] * 20, query]}}
    assert matching(query, METADATA) == [1, 3, 4]
    assert matching({"$or": [{"lang": "en"}] * 300}, METADATA) == [0, 2]
    assert matching({"lang": {"$in": ["en", *map(str, range(5000))]}}, METADATA) == [0, 2]


def test_an_unknown_operator_is_named_with_those_there_are() -> None:
    with pytest.raises(InvalidInputError, match=r"'\$regex'.*\$gte"):
        compile_filter({"title": {"$regex": "x"}})


NAMES = st.one_of(
    st.sampled_from(["a", "b", 'q"uote', "back\\slash", "a.b", "$", "a[0]", "'", "", "\n", "名"]),
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=5),
).filter(lambda name: not name.startswith("$"))
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=4)
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.floats(-3, 3),
    st.sampled_from(["x", "1", ""]),
    TEXTS,
)
RECORDS = st.dictionaries(NAMES, st.one_of(SCALARS, st.lists(SCALARS, max_size=3)), max_size=4)


def kind(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return str(value)
    return "text" if isinstance(value, str) else "number"


def equal(record: dict[str, Any], name: str, value: Any) -> bool:
    found = record.get(name)
    values = found if isinstance(found, list) else [found]
    return any(kind(one) == kind(value) and one == value for one in values) and (
        name in record or value is None
    )


@settings(max_examples=200, deadline=None)
@given(st.lists(RECORDS, max_size=4), NAMES, SCALARS, st.lists(SCALARS, max_size=3))
def test_equality_as_python_sees_it(
    records: list[dict[str, Any]], name: str, value: Any, values: list[Any]
) -> None:
    for record in records[:2]:
        record[name] = value
    rows = [row for row, record in enumerate(records) if equal(record, name, value)]
    others = [row for row in range(len(records)) if row not in rows]
    assert matching({name: value}, records) == rows
    assert matching({name: {"$ne": value}}, records) == others
    among = [r for r, record in enumerate(records) if any(equal(record, name, v) for v in values)]
    assert matching({name: {"$in": values}}, records) == among
    assert matching({name: {"$exists": True}}, records) == [
        row for row, record in enumerate(records) if name in record
    ]


@settings(max_examples=150, deadline=None)
@given(st.lists(st.one_of(TEXTS, st.integers(-5, 5), st.none()), max_size=6), TEXTS)
def test_order_as_python_sees_it(values: list[Any], bound: str) -> None:
    records = [{"field": value} for value in values]
    texts = [(row, value) for row, value in enumerate(values) if isinstance(value, str)]
    assert matching({"field": {"$gt": bound}}, records) == [r for r, v in texts if v > bound]
    assert matching({"field": {"$lte": bound}}, records) == [r for r, v in texts if v <= bound]


@settings(max_examples=100, deadline=None)
@given(st.lists(RECORDS, max_size=4), NAMES, SCALARS, NAMES, SCALARS)
def test_the_algebra(
    records: list[dict[str, Any]], name: str, value: Any, other: str, second: Any
) -> None:
    first, then = {name: value}, {other: second}
    both = set(matching({"$and": [first, then]}, records))
    assert both == set(matching(first, records)) & set(matching(then, records))
    either = set(matching({"$or": [first, then]}, records))
    assert either == set(matching(first, records)) | set(matching(then, records))
    neither = set(matching({"$not": {"$or": [first, then]}}, records))
    assert neither == set(range(len(records))) - either

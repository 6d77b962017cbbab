from __future__ import annotations

import contextlib
import json
import sqlite3
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pocketquery.sdk.errors import InvalidInputError
from pocketquery.sdk.index.untrusted_file import harden
from pocketquery.sdk.results.facets import fields_of
from pocketquery.sdk.results.filters import add_functions, compile_filter
from tests.conformance.independent.filters import matches

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
    add_functions(connection)
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
        ({"tag": {"$all": ["sport", "news"]}}, [0]),
        ({"tag": {"$all": ["news"]}}, [0, 2]),
        ({"tag": {"$all": []}}, [0, 1, 2, 3, 4]),
        ({"tag": {"$prefix": "ne"}}, [0, 2]),
        ({"tag": {"$prefix": ""}}, [0, 2]),
        ({"tag": {"$contains": "EW"}}, [0, 2]),
        ({"lang": {"$prefix": "E"}}, []),
        ({"lang": {"$prefix": "english"}}, []),
        ({"year": {"$prefix": "2"}}, [3]),
        ({"year": {"$contains": "1"}}, []),
    ],
)
def test_what_a_filter_matches(query: dict[str, Any], rows: list[int]) -> None:
    assert matching(query, METADATA) == rows


NESTED: list[dict[str, Any]] = [
    {"author": {"name": "Ada", "born": {"year": 1815}}},
    {"author": [{"name": "Ada"}, {"name": "Grace", "tags": ["a", "b"]}, "Zoë"]},
    {"author.name": "Ada", "author": {"name": "Grace"}},
    {"author": "Ada"},
    {"author": {"name": None}},
]


@pytest.mark.parametrize(
    ("query", "rows"),
    [
        ({"author.name": "Ada"}, [0, 1, 2]),
        ({"author.name": {"$all": ["Ada", "Grace"]}}, [1]),
        ({"author.name": {"$ne": "Ada"}}, [3, 4]),
        ({"author.name": {"$exists": True}}, [0, 1, 2, 4]),
        ({"author.name": None}, [3, 4]),
        ({"author.born.year": {"$lt": 1900}}, [0]),
        ({"author.tags": {"$in": ["b"]}}, [1]),
        ({"author": "Zoë"}, [1]),
        ({"author": {"$contains": "ZOE\u0308"}}, [1]),
        ({"author.": "Ada"}, []),
        ({".": {"$exists": True}}, []),
    ],
)
def test_dots_lead_into_objects_where_no_name_has_them(
    query: dict[str, Any], rows: list[int]
) -> None:
    assert matching(query, NESTED) == rows


DATES = [
    "2024-01-01T10:00:00Z", "2024-01-01", "2023-12-31T23:30:00-02:00", "2024-01-02T00:30:00+01:00",
    "2024-01", "2024", "2023-12-31 22:00", "soon", "2024-02-30", "2024-01-01T10:00:00.25",
    "20240101", "2024-01-01T24:00Z", "0000-01-01", "2024-W01",
]  # fmt: skip


@pytest.mark.parametrize(
    ("operator", "bound", "rows"),
    [
        ("$gte", "2024-01-01", [0, 1, 2, 3, 4, 5, 9]),
        ("$lte", "2024-01-01", [0, 1, 2, 3, 4, 5, 6, 9]),
        ("$gt", "2024-01-01", []),
        ("$lt", "2024-01-01", [6]),
        ("$gte", "2024-01-01T10:00Z", [0, 3, 9]),
        ("$gt", "2024-01-01T11:00:00+01:00", [3, 9]),
        ("$lte", "2024-01-01T10:00:00.2500Z", [0, 1, 2, 4, 5, 6, 9]),
        ("$lt", "2024-02", [0, 1, 2, 3, 4, 5, 6, 9]),
        ("$gt", "2023-12", [0, 1, 2, 3, 4, 5, 9]),
        ("$lte", "2024", [0, 1, 2, 3, 4, 5, 6, 9, 12]),
        ("$gte", "2024-02-30", [7, 8, 10, 13]),  # no date: by code point
    ],
)
def test_dates_compare_as_times(operator: str, bound: str, rows: list[int]) -> None:
    records = [{"date": text} for text in DATES]
    assert matching({"date": {operator: bound}}, records) == rows
    assert rows == [
        row for row, one in enumerate(records) if matches({"date": {operator: bound}}, one)
    ]


MOMENTS = st.datetimes(datetime(1900, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC))
ZONES = st.integers(-23 * 60, 23 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))


@settings(max_examples=200, deadline=None)
@given(MOMENTS, MOMENTS, ZONES, ZONES, st.sampled_from(["auto", "minutes", "seconds"]))
def test_times_of_all_zones_and_days(
    moment: datetime, bound: datetime, zone: timezone, other: timezone, precision: str
) -> None:
    value = moment.astimezone(zone).isoformat(timespec=precision)
    exact = datetime.fromisoformat(value)
    text = bound.astimezone(other).isoformat(" ")
    records = [{"date": value}]
    assert bool(matching({"date": {"$gte": text}}, records)) is (exact >= bound)
    assert bool(matching({"date": {"$gt": text}}, records)) is (exact > bound)
    day: date = bound.date()
    assert bool(matching({"date": {"$lte": f"{day}"}}, records)) is (
        exact.astimezone(UTC).date() <= day
    )
    month = (day.year, day.month)
    own = (exact.astimezone(UTC).year, exact.astimezone(UTC).month)
    assert bool(matching({"date": {"$gt": f"{day:%Y-%m}"}}, records)) is (own > month)


def test_the_fields_that_a_filter_asks_for() -> None:
    query = {"a": 1, "$or": [{"b.c": {"$gt": 1}}, {"$not": {"d": {"$in": ["$e"]}}}], "$and": []}
    assert list(fields_of(query)) == ["a", "b.c", "d"]


@pytest.mark.parametrize(
    "query",
    [
        {"tag": {"$prefix": 3}},
        {"tag": {"$contains": ["a"]}},
        {"tag": {"$contains": "\ud800"}},
        {"tag": {"$all": "a"}},
        {"tag": {"$all": [["a"]]}},
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
    st.sampled_from(["x", "1", "", "2024-05", "2024-05-01", "2024-05-01T00:30+01:00"]),
    TEXTS,
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from("ab"), inner, max_size=2)
    ),
    max_leaves=6,
)
RECORDS = st.dictionaries(NAMES, VALUES, max_size=4)


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


ORDERED = st.one_of(
    st.integers(-3, 3),
    st.floats(-3, 3, width=16),
    st.sampled_from(["2024", "2024-05", "2024-05-01", "2024-05-01T00:00:00Z"]),
    TEXTS,
)
CONDITIONS = st.one_of(
    SCALARS,
    st.dictionaries(st.sampled_from(["$eq", "$ne"]), SCALARS, min_size=1),
    st.dictionaries(st.sampled_from(["$gt", "$gte", "$lt", "$lte"]), ORDERED, min_size=1),
    st.dictionaries(st.sampled_from(["$in", "$nin"]), st.lists(SCALARS, max_size=4), min_size=1),
    st.dictionaries(st.sampled_from(["$prefix", "$contains"]), TEXTS, min_size=1),
    st.fixed_dictionaries({"$all": st.lists(SCALARS, max_size=3)}),
    st.fixed_dictionaries({"$exists": st.booleans()}),
)
FILTERS = st.recursive(
    st.dictionaries(NAMES, CONDITIONS, max_size=3),
    lambda inner: st.one_of(
        st.fixed_dictionaries({"$not": inner}),
        st.dictionaries(st.sampled_from(["$and", "$or"]), st.lists(inner, max_size=3)),
    ),
    max_leaves=8,
)
ANY_NAME = st.one_of(
    NAMES, st.sampled_from(["$and", "$or", "$not", "$in", "$eq", "$gt", "$exists", "$x", "a'\\\"b"])
)
ANY_JSON = st.recursive(
    st.one_of(
        SCALARS,
        st.integers(),
        st.floats(),
        st.text(max_size=4),
        st.characters(categories=["Cs"]),
        st.binary(max_size=3),
        st.sampled_from([2**63, -(2**63) - 1, 10**400]),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(ANY_NAME, inner, max_size=3)
    ),
    max_leaves=20,
)


@settings(max_examples=300, deadline=None)
@given(FILTERS, st.lists(RECORDS, max_size=4))
def test_a_filter_as_python_sees_it(query: dict[str, Any], records: list[dict[str, Any]]) -> None:
    expected = [row for row, record in enumerate(records) if matches(query, record)]
    assert matching(query, records) == expected


@settings(max_examples=300, deadline=None)
@given(ANY_JSON, st.lists(RECORDS, max_size=2))
def test_any_json_is_a_filter_or_our_error(query: Any, records: list[dict[str, Any]]) -> None:
    with contextlib.suppress(InvalidInputError):
        matching(query, records)


@pytest.mark.very_slow
@pytest.mark.timeout(3600)
@settings(max_examples=2000, deadline=None, derandomize=False)
@given(FILTERS, ANY_JSON, st.lists(RECORDS, max_size=4))
def test_many_filters_as_python_sees_them(
    query: dict[str, Any], other: Any, records: list[dict[str, Any]]
) -> None:
    assert matching(query, records) == [r for r, one in enumerate(records) if matches(query, one)]
    with contextlib.suppress(InvalidInputError):
        matching(other, records)


def circle() -> dict[str, Any]:
    made: dict[str, Any] = {}
    made["$not"] = made
    return made


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ({"$or": [{"a": 1}] * 90_000}, "90000 conditions|50[0-9] conditions"),
        ({"$or": [{"$and": [{"a": 1}] * 100}] * 100}, "conditions or more, at most 500"),
        ({f"a{number}": number for number in range(501)}, "501 conditions"),
        ({"$and": [{}] * 501}, "conditions"),
        ({"a": {"$in": range(10**9)}}, "values or more, at most 100000"),
        ({"a": {"$in": list(range(100_000))}}, "names and values"),
        ({"a": "x" * 2**22}, "bytes of text or more, at most 4194304"),
        ({"é" * (2**21 + 1): 1}, "bytes of text"),
        ({"a": {"$in": ["é" * 100] * 21_000}}, "bytes of text"),
        (circle(), "values"),
        ({"a": {"$exists": 10**5000}}, "found a int"),
        ({"a": {"$gt": b"x" * 10**6}}, r"\.\.\., expected"),
        ({"a": {"$in": [b"x" * 10**6]}}, r"\.\.\., expected"),
        ({"$" + "x" * 10**6: 1}, r"\.\.\.; expected"),
        ({"a": {"$eq": float("nan")}}, "nan"),
        ({"a": {"$in": [float("nan")]}}, "nan"),
        ({"a": {"$in": ["\udc80"]}}, "surrogate"),
    ],
)
def test_what_is_too_much_says_how_much_it_is(query: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message) as caught:
        compile_filter(query)
    assert len(str(caught.value)) < 400


def test_what_is_allowed_is_within_sqlites_limits_in_any_shape() -> None:
    nothing: Any = {'no"path': {"$nin": [None, True, False, "a", 1]}}
    for levels, parts in ((1, 249), (2, 199), (9, 54)):
        for joins in (("$or", "$and"), ("$and", "$or")):
            query = nothing
            for level in range(levels):
                query = {joins[level % 2]: [query, *[{"x": {"$ne": level}}] * parts]}
            connection = sqlite3.connect(":memory:")
            harden(connection)
            add_functions(connection)
            connection.execute("CREATE TABLE documents (row INTEGER PRIMARY KEY, metadata TEXT)")
            condition = compile_filter(query)
            sql = f"SELECT row FROM documents WHERE {condition.sql}"
            assert connection.execute(sql, condition.parameters).fetchall() == []
            connection.close()


def test_a_list_holds_what_is_not_ordered_once() -> None:
    values = [None, True, False] * 5000
    assert compile_filter({"a": {"$in": values}}) == compile_filter({"a": {"$in": values[:3]}})


def test_a_hundred_thousand_values_of_one_field() -> None:
    values = ["en", *map(str, range(99_990))]
    assert matching({"lang": {"$in": values}}, METADATA) == [0, 2]

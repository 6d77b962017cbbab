from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pocketquery.sdk import Document, Index, create_index, open_index
from pocketquery.sdk.errors import InvalidInputError
from pocketquery.sdk.results.facets import FacetCount
from tests.conformance.independent.filters import matches
from tests.sdk.results.test_filters import NAMES, RECORDS, VALUES

RECORDS_OF_NOTES: list[dict[str, Any]] = [
    {"tags": ["garden", "plan"], "year": 2023, "author": {"name": "Ada"}, "done": True},
    {"tags": ["garden", "garden"], "year": 2024.0, "author": [{"name": "Ada"}, {"name": "Bo"}]},
    {"tags": "plan", "year": 2024, "done": 1, "author": {}},
    {"tags": None, "path": "a.md"},
]


def index_of(records: list[dict[str, Any]], folder: Path) -> Index:
    texts = ["the pump", "pumps and beans", "beans", "water"]
    documents = [Document(str(n), texts[n % 4], one) for n, one in enumerate(records)]
    with create_index(folder / "index", space_id="space", dimension=4) as builder:
        builder.add(documents, np.ones((len(records), 4), np.float32))
    return open_index(folder / "index", writable=True)


@pytest.fixture
def notes(tmp_path: Path) -> Index:
    return index_of(RECORDS_OF_NOTES, tmp_path)


def test_values_are_counted_once_a_document_most_frequent_first(notes: Index) -> None:
    with notes as index:
        assert index.facets("tags") == [("garden", 2), ("plan", 2)]
        assert index.facets("year") == [(2024, 2), (2023, 1)]
        assert index.facets("done") == [FacetCount(True, 1), FacetCount(1, 1)]
        assert [type(one.value) for one in index.facets("done")] == [bool, int]
        assert index.facets("author.name") == [("Ada", 2), ("Bo", 1)]
        assert index.facets("unknown") == []
        index.delete(["0"])
        assert index.facets("tags") == [("garden", 1), ("plan", 1)]


def test_a_filter_and_a_query_select_what_is_counted(notes: Index) -> None:
    with notes as index:
        assert index.facets("tags", query="pump") == [("garden", 2), ("plan", 1)]
        assert index.facets("tags", filter={"year": 2024}) == [("garden", 1), ("plan", 1)]
        assert index.facets("tags", filter={"year": 2024}, query="pump") == [("garden", 1)]
        assert index.facets("tags", query="xyzzy") == []
        with pytest.raises(InvalidInputError, match="blank"):
            index.facets("tags", query=" ")
        with pytest.raises(InvalidInputError, match="unknown operator"):
            index.facets("tags", filter={"$x": 1})


def test_fields_that_are_there_and_those_that_are_not(notes: Index) -> None:
    with notes as index:
        fields = {"tags": 4, "year": 3, "author.name": 2, "done": 2, "path": 1}
        assert index.fields() == fields
        query = {"yaer": 2024, "$or": [{"tags": "x"}, {"author.nmae": "Ada"}, {"zzz": 1}]}
        assert index.unknown_fields(query) == {
            "yaer": "year",
            "author.nmae": "author.name",
            "zzz": None,
        }
        assert index.unknown_fields({}) == index.unknown_fields({"author": 1}) == {}


def test_a_snippet_marks_what_stood_for_a_mistyped_word_or_one_being_typed(notes: Index) -> None:
    with notes as index:
        assert index.snippet("many pumps here", "pmup").marked("[", "]") == "many [pumps] here"
        assert index.snippet("many pumps here", "pu", prefix=True).marks == ((5, 10),)
        assert index.snippet("many pumps here", "pu").marks == ()


@settings(max_examples=60, deadline=None)
@given(st.lists(RECORDS, max_size=4), NAMES, VALUES)
@example([{"a.b": {"a": None}}], "a", 1)
def test_counts_are_those_of_filters(
    tmp_path_factory: pytest.TempPathFactory, records: list[dict[str, Any]], name: str, value: Any
) -> None:
    for record in records[:2]:
        record[name] = value
    with index_of(records, tmp_path_factory.mktemp("facets")) as index:
        found = index.facets(name)
        fields = index.fields()
    assert Counter({(type(v) is bool, v): n for v, n in found}) == Counter(
        {(type(v) is bool, v): sum(matches({name: v}, one) for one in records) for v, _ in found}
    )
    assert all(
        sum(matches({f: {"$exists": True}}, r) for r in records) >= n for f, n in fields.items()
    )

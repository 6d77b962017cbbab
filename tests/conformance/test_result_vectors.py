"""Filters, facets, groups and snippets are those of conformance/results.json.gz."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from pocketquery.sdk import snippet
from tests.conformance.independent import words
from tests.conformance.independent.filters import Refused, check, matches, parsed
from tests.conformance.independent.index import Index as Reader
from tests.conformance.results import TARGET, VECTORS, german_index, matching, records_index

EXPECTED = parsed(gzip.decompress(TARGET.read_bytes()).decode())


def test_filters(tmp_path: Path) -> None:
    with records_index(EXPECTED["records"], tmp_path) as index:
        for query, rows in EXPECTED["filters"]:
            assert matching(index, query) == rows, query
            assert _matching(query) == rows, query


def test_facets_fields_and_groups(tmp_path: Path) -> None:
    with records_index(EXPECTED["records"], tmp_path) as index:
        for one in EXPECTED["facets"]:
            options = {name: value for name, value in one.items() if name != "counts"}
            assert [list(count) for count in index.facets(**options)] == one["counts"]
        for one in EXPECTED["groups"]:
            options = {name: value for name, value in one.items() if name != "hits"}
            hits = index.search("text", mode="lexical", **options)
            assert [[hit.id, hit.others] for hit in hits] == one["hits"]
        assert index.fields() == EXPECTED["fields"]
        for query, unknown in EXPECTED["unknown"]:
            assert index.unknown_fields(query) == unknown


def test_snippets() -> None:
    for text, query, language, length, shown, marks in EXPECTED["snippets"]:
        found = snippet(text, query, length=length, language=language)
        assert (found.text, [list(mark) for mark in found.marks]) == (shown, marks), (text, query)


def test_what_stands_for_words(tmp_path: Path) -> None:
    with german_index(tmp_path) as index:
        reader = Reader(tmp_path / "index", words)
        for one in EXPECTED["german"]["searches"]:
            vector = VECTORS[one["row"]] if one["mode"] == "hybrid" else None
            options = {"mode": one["mode"], "prefix": one["prefix"]}
            hits = index.search(one["query"], 5, vector=vector, **options)
            assert [[hit.id, hit.score] for hit in hits] == one["hits"], one
            ids, scores = zip(*reader.search(one["query"], vector, 5, **options), strict=True)
            assert [*ids] == [hit.id for hit in hits]
            assert scores == pytest.approx([hit.score for hit in hits], abs=1e-9)
            assert one["mode"] == "lexical" or all(hit.score <= 1 for hit in hits)


def _matching(query: object) -> list[int] | None:
    try:
        check(query)
    except Refused:
        return None
    return [row for row, one in enumerate(EXPECTED["records"]) if matches(query, one)]

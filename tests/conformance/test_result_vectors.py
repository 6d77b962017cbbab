"""Filters do what conformance/results.json.gz says, by the index and by the page alone."""

from __future__ import annotations

import gzip
from pathlib import Path

from tests.conformance.independent.filters import Refused, check, matches, parsed
from tests.conformance.results import TARGET, matching, records_index

EXPECTED = parsed(gzip.decompress(TARGET.read_bytes()).decode())


def test_filters(tmp_path: Path) -> None:
    with records_index(EXPECTED["records"], tmp_path) as index:
        for query, rows in EXPECTED["filters"]:
            assert matching(index, query) == rows, query
            assert _matching(query) == rows, query


def _matching(query: object) -> list[int] | None:
    try:
        check(query)
    except Refused:
        return None
    return [row for row, one in enumerate(EXPECTED["records"]) if matches(query, one)]

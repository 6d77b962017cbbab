"""Python finds what conformance/ says: the same hits in the same order, in every mode."""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pocketquery import sdk
from pocketquery.sdk import errors, open_index
from pocketquery.sdk.index.documents import Document
from pocketquery.sdk.index.index import Hit, Index
from pocketquery.sdk.slices.deltas import apply_delta
from pocketquery.sdk.slices.source import read_source
from tests.conformance.independent.filters import parsed
from tests.conformance.refused import CONFORMANCE
from tests.conformance.search import called

ENCODER = CONFORMANCE / "encoder"
KEY = json.loads((ENCODER / "expected.json").read_bytes())["key"]


def answers(name: str) -> Any:
    """With the numbers that JSON lacks."""
    return parsed(gzip.decompress((CONFORMANCE / name / "expected.json.gz").read_bytes()).decode())


INDEXES = answers("index")


def assert_hits(found: Sequence[Hit], expected: Sequence[Sequence[Any]], within: float) -> None:
    """The same ids in the same order; hits may change places where their scores are ``within``."""
    scores: dict[str, float] = {str(one[0]): one[1] for one in expected}
    for hit, (wanted, score, cosine, bm25) in zip(found, expected, strict=True):
        assert hit.score == pytest.approx(score, abs=within)
        if hit.id == wanted:
            assert (hit.cosine, hit.bm25) == pytest.approx((cosine, bm25), abs=within)
        its = scores.get(hit.id, expected[-1][1])  # one beyond the last has at most its score
        assert hit.id == wanted or its == pytest.approx(score, abs=within)


def assert_found(index: Index, expected: Any) -> None:
    assert len(index) == expected["size"]
    for search in expected["searches"]:
        options = {name: value for name, value in search.items() if name != "hits"}
        if "vector" in options:
            options["vector"] = np.array(options["vector"])
        within = 0 if search["mode"] == "lexical" else 1e-6
        assert_hits(index.search(**options), search["hits"], within)
    for condition, ids in expected.get("filters", []):
        vector = np.ones(index.dimension)
        if ids is None:
            with pytest.raises(errors.InvalidInputError):
                index.search(vector, 1000, filter=condition)
        else:
            assert sorted(hit.id for hit in index.search(vector, 1000, filter=condition)) == ids


@pytest.mark.parametrize("name", ["base", "compact"])
def test_hits_and_filters(name: str) -> None:
    with open_index(CONFORMANCE / "index" / name) as index:
        assert_found(index, INDEXES[name])


def test_changes_and_what_compacting_makes_of_them(tmp_path: Path) -> None:
    shutil.copytree(CONFORMANCE / "index" / "base", tmp_path / "index")
    with open_index(tmp_path / "index", writable=True) as index:
        for change in INDEXES["changes"]:
            if "delete" in change:
                index.delete(change["delete"])
                continue
            documents = [Document(**document) for document in change["add"]]
            index.add(documents, np.array(change["vectors"], np.float64))
        assert_found(index, INDEXES["changed"])
        index.compact()
        assert_found(index, INDEXES["compact"])


def test_text_queries_and_what_is_none() -> None:
    encoder = sdk.load(ENCODER / "tiny")
    expected = json.loads((CONFORMANCE / "search" / "expected.json").read_bytes())
    place = CONFORMANCE / "search" / "index"
    open_index(place, public_key=KEY).close()
    with open_index(place, encoder=encoder) as index:
        for search in expected["searches"]:
            hits = search.pop("hits")
            assert_hits(index.search(**search), hits, 1e-5)
        for one in expected["inputs"]:
            with pytest.raises(getattr(errors, one["error"])):
                called(index, encoder, one)


@pytest.mark.parametrize(
    ("name", "start", "deltas"),
    [
        ("signed", "search/index", ["first", "second"]),
        ("plain", "index/compact", ["plain"]),
    ],
)
def test_deltas(name: str, start: str, deltas: list[str], tmp_path: Path) -> None:
    expected = answers("deltas")[name]
    key = KEY if name == "signed" else None
    shutil.copytree(CONFORMANCE / start, tmp_path / "index")
    for delta in deltas:
        apply_delta(CONFORMANCE / "deltas" / f"{delta}.delta", tmp_path / "index", public_key=key)
    with read_source(tmp_path / "index", key) as source:
        assert source.contents().sha256 == expected["contents_sha256"]
    with open_index(tmp_path / "index", public_key=key) as index:
        assert_found(index, expected)

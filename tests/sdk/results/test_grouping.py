from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pocketquery.sdk import Document, Hit, Index, create_index, open_index
from pocketquery.sdk.errors import InvalidInputError

PATHS = [*"abcde", None]
DIMENSION = 8


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Index:
    draw = np.random.default_rng(3)
    documents = []
    for number in range(700):
        path = "many" if 20 < number < 500 else PATHS[number % 6]
        metadata = {"file": {"path": path}} if path else {"other": number}
        documents.append(Document(str(number), "pump " * (number % 4), metadata))
    folder: Path = tmp_path_factory.mktemp("grouping") / "index"
    with create_index(folder, space_id="space", dimension=DIMENSION) as builder:
        builder.add(documents, draw.normal(size=(700, DIMENSION)).astype(np.float32))
    return open_index(folder)


VECTORS = st.lists(st.integers(-3, 3), min_size=DIMENSION, max_size=DIMENSION).filter(any)


@settings(max_examples=60, deadline=None)
@given(
    VECTORS,
    st.sampled_from(["dense", "lexical", "hybrid"]),
    st.integers(1, 150),
    st.integers(0, 130),
    st.sampled_from([None, 0.0, 0.2]),
    st.sampled_from([None, {"file.path": {"$ne": "many"}}]),
)
def test_groups_are_those_of_the_whole_ranking(
    index: Index,
    vector: list[int],
    mode: str,
    k: int,
    offset: int,
    least: float | None,
    condition: dict[str, object] | None,
) -> None:
    options: dict[str, object] = {"mode": mode, "min_score": least, "filter": condition}
    if mode != "lexical":
        options["vector"] = np.array(vector, np.float32)
    ranking = index.search("pump", 1000, **options)  # type: ignore[arg-type]
    best: dict[object, Hit] = {}
    for hit in ranking:
        best.setdefault(hit.metadata.get("file", {}).get("path", hit.id), hit)
    others = {
        hit.id: max(0, sum(one.metadata == hit.metadata for one in ranking[:100]) - 1)
        for hit in best.values()
    }
    found = index.search("pump", k, group_by="file.path", offset=offset, **options)  # type: ignore[arg-type]
    expected = list(best.values())[offset : offset + k]
    assert [(hit.id, hit.score, hit.others) for hit in found] == [
        (hit.id, hit.score, others[hit.id]) for hit in expected
    ]


def test_a_field_that_no_document_has_groups_nothing(index: Index) -> None:
    hits = index.search("pump", 5, mode="lexical")
    assert index.search("pump", 5, mode="lexical", group_by="xyzzy") == hits
    with pytest.raises(InvalidInputError, match="group_by"):
        index.search("pump", group_by=7, mode="lexical")  # type: ignore[arg-type]

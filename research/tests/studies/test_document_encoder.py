"""What a document encoder of our own is fine-tuned on, and how it is compared."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pocketquery.sdk.index.documents import Document
from pocketquery.server.corpus import Collection, Query
from pocketquery_demo.corpus import HELD_OUT_ARTICLES

FOLDER = Path(__file__).parents[2] / "studies"


@pytest.fixture(autouse=True)
def as_a_script() -> Iterator[None]:
    """As where the benchmarks are run from."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", [str(FOLDER), *sys.path])
        yield


def test_nothing_of_a_held_out_article_is_learnt() -> None:
    from document_encoder import without_held_out

    tested = min(HELD_OUT_ARTICLES)
    documents = [Document(f"{name}#{n}", "a text") for name in (tested, "Other") for n in (0, 1)]
    queries = [Query(f"q{place}", "a question") for place in range(4)]
    judgements = {f"q{place}": {document.id: 1} for place, document in enumerate(documents)}
    found = without_held_out(Collection.of(documents, queries, judgements))
    assert {document.id for document in found.documents} == {"Other#0", "Other#1"}
    assert {query.id for query in found.queries} == set(found.judgements) == {"q2", "q3"}


def test_collections_count_alike_in_the_mean() -> None:
    from document_encoder import compared

    ours = {"small": [1.0, 0.5], "large": [0.25] * 50}
    theirs = {"small": [0.5, 0.0], "large": [0.25] * 50}
    found = compared(ours, theirs)
    assert found["small"] == [0.5, 0.5, 0.5]
    assert found["large"] == [0, 0, 0]
    assert found["mean"] == [0.25, 0.25, 0.25]

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pocketquery.sdk.errors import InvalidInputError
from pocketquery.sdk.index.index import Index, create_index, open_index
from tests.sdk.small_index import DIMENSION, SPACE, make_documents, make_index, vectors_of

QUERIES = vectors_of(make_documents(70)[60:])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    make_index(tmp_path / "index")
    return tmp_path / "index"


@pytest.fixture
def index(path: Path) -> Iterator[Index]:
    with open_index(path, writable=True) as opened:
        yield opened


def test_the_vectors_are_those_that_were_added(index: Index) -> None:
    stored = index.vectors()
    assert (len(stored), stored.dimension) == (60, DIMENSION)
    found = stored.vectors(np.arange(60).reshape(3, 20))
    assert found.shape == (3, 20, DIMENSION)
    assert found.dtype == np.float32
    expected = vectors_of(make_documents(60))
    cosines = (found.reshape(60, DIMENSION) * expected).sum(1)
    assert cosines.min() > 0.99


@pytest.mark.parametrize("deleted", [(), (0, 5, 6, 59), tuple(range(0, 60, 2))])
def test_the_nearest_are_the_nearest_living(index: Index, deleted: tuple[int, ...]) -> None:
    index.delete(f"doc-{number}" for number in deleted)
    stored = index.vectors(["doc-9"])
    everything = stored.vectors(np.arange(len(stored)))
    assert len(stored) == 60 - len(deleted)
    for query, rows in zip(QUERIES, stored.nearest(QUERIES, 7), strict=True):
        expected = np.sort(everything @ query)[::-1][:7]
        np.testing.assert_allclose(everything[rows] @ query, expected, atol=1e-6)
    own = vectors_of(make_documents(60)[9:10])[0]
    assert everything[stored.row_of["doc-9"]] @ own > 0.99


def test_no_more_come_back_than_there_are(index: Index) -> None:
    index.delete(f"doc-{number}" for number in range(55))
    assert sorted(index.vectors().nearest(QUERIES[:1], 50)[0]) == [0, 1, 2, 3, 4]


def test_an_empty_index_has_none_near(tmp_path: Path) -> None:
    with create_index(tmp_path / "empty", space_id=SPACE, dimension=DIMENSION):
        pass
    with open_index(tmp_path / "empty") as index:
        assert index.vectors().nearest(QUERIES, 5).shape == (len(QUERIES), 0)


def test_ids_that_are_gone_have_no_row(index: Index) -> None:
    index.delete(["doc-3"])
    assert index.vectors(["doc-2", "doc-3", "doc-4", "never"]).row_of == {"doc-2": 2, "doc-4": 3}


def test_later_changes_do_not_show(index: Index) -> None:
    stored = index.vectors()
    before = stored.vectors(np.arange(60))
    index.delete(["doc-0", "doc-1"])
    more = make_documents(5, 100)
    index.add(more, vectors_of(more))
    index.compact()
    assert len(index.vectors()) == 63
    assert len(stored) == 60
    np.testing.assert_array_equal(stored.vectors(np.arange(60)), before)
    index.close()
    np.testing.assert_array_equal(stored.vectors(np.arange(60)), before)


@pytest.mark.parametrize(
    ("queries", "k", "message"),
    [
        (np.zeros((1, DIMENSION)), 3, "all zeros"),
        (np.ones((1, DIMENSION + 1)), 3, "shape"),
        (np.full((1, DIMENSION), np.nan), 3, "not finite"),
        (np.ones((1, DIMENSION)), 0, "k is 0"),
    ],
)
def test_queries_that_cannot_be_used(index: Index, queries: Any, k: int, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        index.vectors().nearest(queries, k)


def test_an_id_that_is_no_text(index: Index) -> None:
    with pytest.raises(InvalidInputError, match=r"ids\[1\]"):
        index.vectors(["a", 3])  # type: ignore[list-item]

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketquery.client.training.prototypes import MatrixVectors, open_vectors, with_random
from pocketquery.sdk.errors import InvalidInputError, SpaceMismatchError
from pocketquery.sdk.index.index import create_index, open_index
from tests.sdk.small_index import DIMENSION, SPACE, make_documents, make_index, vectors_of


def test_index_and_matrix_say_the_same(tmp_path: Path) -> None:
    documents = make_index(tmp_path / "index")
    queries = vectors_of(make_documents(5, 200))
    ids = [document.id for document in documents]
    with open_index(tmp_path / "index") as index:
        stored = open_vectors(index, SPACE, ["doc-7", "gone"])
        matrix = open_vectors(MatrixVectors(vectors_of(documents), ids), SPACE, ["doc-7"])
        assert len(stored) == len(matrix) == 60
        assert stored.dimension == matrix.dimension == DIMENSION
        assert stored.row_of["doc-7"] == matrix.row_of["doc-7"] == 7
        assert "gone" not in stored.row_of
        near, same = stored.nearest(queries, 10), matrix.nearest(queries, 10)
        # The stored ones are rounded to 8 bits: neighbours of nearly equal score may change places.
        assert np.mean([len(np.intersect1d(a, b)) for a, b in zip(near, same, strict=True)]) >= 9
        np.testing.assert_allclose(stored.vectors(near), matrix.vectors(near), atol=0.01)


def test_a_plain_matrix_is_enough() -> None:
    matrix = vectors_of(make_documents(12)) * 3
    opened = open_vectors(matrix, SPACE, ["doc-1"])
    near = opened.nearest(matrix[:4], 3)
    assert near[:, 0].tolist() == [0, 1, 2, 3]
    np.testing.assert_allclose(np.linalg.norm(opened.vectors(near), axis=-1), 1, rtol=1e-5)
    assert opened.row_of == {}


def test_the_nearest_come_best_first_and_no_more_than_there_are() -> None:
    matrix = vectors_of(make_documents(9))
    opened = MatrixVectors(matrix)
    scores = np.take_along_axis(matrix @ matrix.T, opened.nearest(matrix, 50), 1)
    assert scores.shape == (9, 9)
    assert (np.diff(scores, axis=1) <= 0).all()


@given(st.integers(1, 30), st.integers(0, 30), st.integers(0, 30), st.integers(0, 9))
def test_the_random_ones_are_others(size: int, taken: int, count: int, seed: int) -> None:
    taken = min(taken, size)
    rng = np.random.default_rng(seed)
    nearest = np.stack([rng.permutation(size)[:taken] for _ in range(3)])
    rows = with_random(nearest, count, size, rng)
    assert rows.shape == (3, min(size, taken + count))
    np.testing.assert_array_equal(rows[:, :taken], nearest)
    for line in rows:
        assert len(set(line)) == len(line)
        assert set(line) <= set(range(size))


def test_every_other_document_is_drawn_as_often() -> None:
    rng = np.random.default_rng(0)
    nearest = np.tile(np.arange(4), (4000, 1))
    drawn = with_random(nearest, 3, 10, rng)[:, 4:]
    counts = np.bincount(drawn.reshape(-1), minlength=10)
    assert not counts[:4].any()
    np.testing.assert_allclose(counts[4:], 2000, rtol=0.1)


def test_the_same_seed_draws_the_same() -> None:
    nearest = np.arange(6).reshape(2, 3)
    draws = [with_random(nearest, 5, 100, np.random.default_rng(seed)) for seed in (1, 1, 2)]
    np.testing.assert_array_equal(draws[0], draws[1])
    assert (draws[0] != draws[2]).any()


def test_an_index_of_another_space_is_refused(tmp_path: Path) -> None:
    make_index(tmp_path / "index", 5)
    with (
        open_index(tmp_path / "index") as index,
        pytest.raises(SpaceMismatchError, match="space-of-others"),
    ):
        open_vectors(index, "space-of-others", [])


def test_an_empty_index_has_nothing_to_compare_with(tmp_path: Path) -> None:
    with create_index(tmp_path / "empty", space_id=SPACE, dimension=DIMENSION):
        pass
    with (
        open_index(tmp_path / "empty") as index,
        pytest.raises(InvalidInputError, match="no documents"),
    ):
        open_vectors(index, SPACE, [])
    with pytest.raises(InvalidInputError, match="no documents"):
        open_vectors(np.zeros((0, 4), np.float32), SPACE, [])


@pytest.mark.parametrize("matrix", [np.ones(3), np.zeros((2, 3)), np.full((2, 3), np.nan), 3.0])
def test_what_is_no_matrix_of_vectors_is_refused(matrix: object) -> None:
    with pytest.raises(InvalidInputError, match="document matrix"):
        MatrixVectors(matrix)  # type: ignore[arg-type]


def test_ids_must_be_one_a_row() -> None:
    with pytest.raises(InvalidInputError, match="2 ids for 3"):
        MatrixVectors(np.eye(3, dtype=np.float32), ["a", "b"])

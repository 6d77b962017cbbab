from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import simsimd
from hypothesis import given, settings
from hypothesis import strategies as st

from pocketquery.sdk.index.vector_file import MOST_DIMENSIONS
from pocketquery.sdk.index.vectors import integer_product

ABLE = [name for name, has in simsimd.get_capabilities().items() if has and name != "serial"]


@pytest.fixture(params=["all", *ABLE, "serial"])
def kernels(request: pytest.FixtureRequest) -> Iterator[None]:
    """The kernels of this processor, and each kind of them alone: those of other processors."""
    kept = ABLE if request.param == "all" else [request.param]
    for name in ABLE:
        if name not in kept:
            simsimd.disable_capability(name)
    yield
    for name in ABLE:
        simsimd.enable_capability(name)


def rows_apart(rows: int, columns: int, seed: int = 0) -> np.ndarray:
    """Rows with four other bytes between them, as the file has them."""
    random = np.random.default_rng(seed)
    return random.integers(0, 256, (rows, columns + 4), dtype=np.uint8)[:, :columns]


def expected(matrix: np.ndarray, vector: np.ndarray) -> list[int]:
    products: list[int] = (matrix.astype(np.int64) @ vector.astype(np.int64)).tolist()
    return products


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize(
    "shape", [(1, 1), (1, 384), (3, 5), (17, 31), (7, 63), (257, 388), (1000, 384)]
)
def test_the_product_is_exact(shape: tuple[int, int]) -> None:
    matrix = rows_apart(*shape)
    vector = np.random.default_rng(1).integers(0, 129, shape[1], dtype=np.uint8)
    assert integer_product(matrix, vector).tolist() == expected(matrix, vector)


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 40), st.integers(1, 600), st.integers(0, 2**32 - 1))
def test_the_product_is_exact_for_any_shape(rows: int, columns: int, seed: int) -> None:
    matrix = rows_apart(rows, columns, seed)
    vector = np.random.default_rng(seed).integers(0, 129, columns, dtype=np.uint8)
    assert integer_product(matrix, vector).tolist() == expected(matrix, vector)


@pytest.mark.usefixtures("kernels")
def test_the_extremes_do_not_saturate() -> None:
    for columns in (384, MOST_DIMENSIONS):
        matrix, vector = np.full((2, columns), 255, np.uint8), np.full(columns, 128, np.uint8)
        assert integer_product(matrix, vector).tolist() == [columns * 255 * 128] * 2


def test_no_rows_give_no_products() -> None:
    assert integer_product(np.zeros((0, 8), np.uint8), np.zeros(8, np.uint8)).shape == (0,)


def test_a_mapped_file_is_a_matrix(tmp_path: Path) -> None:
    matrix = np.arange(64, dtype=np.uint8).reshape(8, 8)
    (tmp_path / "matrix").write_bytes(matrix.tobytes())
    mapped = np.asarray(np.memmap(tmp_path / "matrix", np.uint8, "r", 0, (8, 8)))
    np.testing.assert_array_equal(
        integer_product(mapped, np.ones(8, np.uint8)), matrix.sum(1, dtype=int)
    )

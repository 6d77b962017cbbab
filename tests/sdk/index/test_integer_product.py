from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from pocketquery.sdk.index import integer_product as module
from pocketquery.sdk.index.integer_product import SAFE_LIMIT, integer_product


def test_the_hand_written_model_is_a_valid_onnx_model() -> None:
    model = onnx.load_from_string(module._model())
    onnx.checker.check_model(model, full_check=True)
    assert [node.op_type for node in model.graph.node] == ["MatMulInteger"]


@pytest.mark.parametrize("shape", [(1, 1), (3, 5), (257, 388), (1000, 384)])
def test_the_product_is_exact(shape: tuple[int, int]) -> None:
    random = np.random.default_rng(0)
    matrix = random.integers(0, 256, shape, dtype=np.uint8)
    vector = random.integers(-SAFE_LIMIT, SAFE_LIMIT + 1, shape[1], dtype=np.int8)
    expected = matrix.astype(np.int64) @ vector.astype(np.int64)
    np.testing.assert_array_equal(integer_product(matrix, vector), expected)


def test_the_extremes_do_not_saturate() -> None:
    matrix = np.full((2, 384), 255, np.uint8)
    for sign in (1, -1):
        vector = np.full(384, sign * SAFE_LIMIT, np.int8)
        assert integer_product(matrix, vector).tolist() == [sign * 384 * 255 * SAFE_LIMIT] * 2


def test_no_rows_give_no_products() -> None:
    assert integer_product(np.zeros((0, 8), np.uint8), np.zeros(8, np.int8)).shape == (0,)


def test_a_mapped_file_is_a_matrix(tmp_path: Path) -> None:
    matrix = np.arange(64, dtype=np.uint8).reshape(8, 8)
    (tmp_path / "matrix").write_bytes(matrix.tobytes())
    mapped = np.asarray(np.memmap(tmp_path / "matrix", np.uint8, "r", 0, (8, 8)))
    vector = np.ones(8, np.int8)
    np.testing.assert_array_equal(integer_product(mapped, vector), matrix.sum(1, dtype=int))

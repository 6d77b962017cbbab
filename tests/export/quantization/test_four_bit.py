from __future__ import annotations

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketquery.export.graph_editing import GraphEditor
from pocketquery.export.quantization.four_bit import pack_blocks, store_in_four_bits
from pocketquery.export.sessions import GraphSession
from pocketquery.sdk.arrays import Floats


def _unpacked(codes: np.ndarray, scales: Floats) -> Floats:
    """The slow reading of what pack_blocks writes: each value by itself."""
    rows = np.zeros((len(codes), codes.shape[1] * 32), np.float32)
    for row, blocks in enumerate(codes):
        for block, packed in enumerate(blocks):
            for place, byte in enumerate(packed):
                for half, nibble in enumerate((byte & 15, byte >> 4)):
                    at = block * 32 + 2 * place + half
                    rows[row, at] = (int(nibble) - 8) * scales[row, block]
    return rows


@given(st.integers(0, 2**32 - 1), st.integers(1, 4), st.integers(1, 3))
def test_what_was_in_four_bits_stays_what_it_was(seed: int, count: int, blocks: int) -> None:
    rng = np.random.default_rng(seed)
    nibbles = rng.integers(0, 16, (count, blocks, 32))
    nibbles[:, :, rng.integers(32)] = 0  # as the format has it: what is farthest from zero is -8
    scales = rng.normal(size=(count, blocks, 1)).astype(np.float16).astype(np.float32)
    rows = ((nibbles - 8) * scales).reshape(count, -1).astype(np.float32)
    np.testing.assert_array_equal(_unpacked(*pack_blocks(rows)), rows)


@given(st.integers(0, 2**32 - 1))
def test_a_value_is_within_half_a_step_and_the_far_end_within_one(seed: int) -> None:
    rows = np.random.default_rng(seed).normal(size=(3, 64)).astype(np.float32)
    codes, scales = pack_blocks(rows)
    apart = np.abs(_unpacked(codes, scales) - rows).reshape(3, 2, 32)
    assert (apart <= np.abs(scales)[:, :, None] * 1.0001).all()
    assert (apart <= np.abs(scales)[:, :, None] * 0.5001).mean() > 0.9


def test_a_block_of_zeros_stays_zero() -> None:
    rows = np.zeros((2, 32), np.float32)
    np.testing.assert_array_equal(_unpacked(*pack_blocks(rows)), rows)


@pytest.mark.parametrize("depth", [64, 40])
def test_the_graph_computes_the_product_of_the_packed_weights(depth: int) -> None:
    rng = np.random.default_rng(0)
    weights = rng.normal(size=(depth, 8)).astype(np.float32)
    table = rng.normal(size=(5, depth)).astype(np.float32)
    graph = onnx.helper.make_graph(
        [
            onnx.helper.make_node("Gather", ["table", "input_ids"], ["rows"]),
            onnx.helper.make_node("MatMul", ["rows", "weights"], ["out"], name="product"),
        ],
        "products",
        [
            onnx.helper.make_tensor_value_info(name, onnx.TensorProto.INT64, ["batch", "length"])
            for name in ("input_ids", "attention_mask")
        ],
        [onnx.helper.make_tensor_value_info("out", onnx.TensorProto.FLOAT, None)],
    )
    model = onnx.helper.make_model(
        graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8
    )
    editor = GraphEditor(model)
    editor.store("table", table)
    editor.store("weights", weights)
    editor.finish()
    packed = store_in_four_bits(model)
    operators = [node.op_type for node in packed.graph.node]
    (vectors,) = GraphSession(packed).outputs([1, 3, 4])
    if depth % 32:  # no whole blocks: as it was
        assert operators == ["Gather", "MatMul"]
        np.testing.assert_allclose(vectors[0], table[[1, 3, 4]] @ weights, rtol=1e-5, atol=1e-5)
        return
    assert sorted(operators) == ["Cast", "Gather", "MatMulNBits"]
    whole = store_in_four_bits(model, ["product"])
    assert [node.op_type for node in whole.graph.node] == ["Gather", "MatMul"]
    expected = table[[1, 3, 4]] @ _unpacked(*pack_blocks(weights.T)).T
    np.testing.assert_allclose(vectors[0], expected, atol=0.02 * np.abs(expected).max())

from __future__ import annotations

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketquery.export.graph_editing import GraphEditor
from pocketquery.export.quantization.four_bit import OPSET, Blocks, in_blocks
from pocketquery.export.quantization.quantization import quantize
from pocketquery.export.quantization.smoothing import smooth
from pocketquery.export.sessions import GraphSession
from pocketquery.export.settings import QuantizationOptions
from pocketquery.sdk.arrays import Floats

FOUR_BIT = QuantizationOptions(four_bit=True)


def _values(blocks: Blocks) -> Floats:
    """The slow reading of blocks: each value by itself."""
    rows = np.zeros((len(blocks.codes), blocks.codes.shape[1] * 32), np.float32)
    for row, block, place in np.ndindex(*blocks.codes.shape):
        rows[row, block * 32 + place] = blocks.codes[row, block, place] * blocks.steps[row, block]
    return rows


@given(st.integers(0, 2**32 - 1), st.integers(1, 4), st.integers(1, 3))
def test_what_was_in_four_bits_stays_what_it_was(seed: int, count: int, blocks: int) -> None:
    rng = np.random.default_rng(seed)
    codes = rng.integers(-8, 8, (count, blocks, 32))
    codes[:, :, rng.integers(32)] = -8  # as the format has it: what is farthest from zero
    steps = rng.normal(size=(count, blocks, 1)).astype(np.float16).astype(np.float32)
    rows = (codes * steps).reshape(count, -1).astype(np.float32)
    np.testing.assert_array_equal(_values(in_blocks(rows)), rows)


@given(st.integers(0, 2**32 - 1))
def test_a_value_is_within_half_a_step_and_the_far_end_within_one(seed: int) -> None:
    rows = np.random.default_rng(seed).normal(size=(3, 64)).astype(np.float32)
    blocks = in_blocks(rows)
    apart = np.abs(_values(blocks) - rows).reshape(3, 2, 32)
    assert (apart <= np.abs(blocks.steps)[:, :, None] * 1.0001).all()
    assert (apart <= np.abs(blocks.steps)[:, :, None] * 0.5001).mean() > 0.9


def test_a_block_of_zeros_stays_zero() -> None:
    rows = np.zeros((2, 32), np.float32)
    np.testing.assert_array_equal(_values(in_blocks(rows)), rows)


def _products(weights: dict[str, Floats], table: Floats) -> onnx.ModelProto:
    """Products of negated looked-up rows with each of the weights, side by side."""
    nodes = [
        onnx.helper.make_node("Gather", ["table", "input_ids"], ["found"]),
        onnx.helper.make_node("Neg", ["found"], ["rows"]),
    ]
    nodes += [onnx.helper.make_node("MatMul", ["rows", w], [f"by.{w}"], name=w) for w in weights]
    nodes.append(onnx.helper.make_node("Concat", [f"by.{w}" for w in weights], ["out"], axis=-1))
    graph = onnx.helper.make_graph(
        nodes,
        "products",
        [
            onnx.helper.make_tensor_value_info(name, onnx.TensorProto.INT64, ["batch", "length"])
            for name in ("input_ids", "attention_mask")
        ],
        [onnx.helper.make_tensor_value_info("out", onnx.TensorProto.FLOAT, None)],
    )
    model = onnx.helper.make_model(
        graph, opset_imports=[onnx.helper.make_opsetid("", OPSET)], ir_version=8
    )
    editor = GraphEditor(model)
    for name, array in {"table": table, **weights}.items():
        editor.store(name, array)
    return editor.finish()


@pytest.mark.parametrize("is_smoothed", [False, True])
def test_the_graph_computes_the_int8_product_of_the_rounded_weights(is_smoothed: bool) -> None:
    rng = np.random.default_rng(0)
    table = rng.normal(size=(50, 64)).astype(np.float32)
    table[:, 3] *= 5  # what smoothing is for
    weights = {name: rng.normal(size=(64, 8)).astype(np.float32) for name in ("one", "other")}
    weights["one"][32:, 2] = 0  # a block of zeros
    weights["one"][:32, 5] *= 1e-6  # and one far below its column's step
    rounded = {name: _values(in_blocks(array.T)).T for name, array in weights.items()}
    model = _products(rounded, table)
    if is_smoothed:
        model = smooth(model, {"rows": np.abs(table).max(axis=0)}, block=32)
    packed, int8 = quantize(model, FOUR_BIT), quantize(model)
    operators = [node.op_type for node in packed.graph.node]
    assert operators.count("QuantizeLinear") == operators.count("DynamicQuantizeMatMul") == 1
    kinds = [
        tensor.data_type for tensor in packed.graph.initializer if tensor.name.endswith(".codes")
    ]
    assert kinds == [onnx.TensorProto.INT4]
    exact = -table[[1, 3, 4]] @ np.concatenate(list(rounded.values()), axis=1)
    (found,), (plain,) = (GraphSession(one).outputs([1, 3, 4]) for one in (packed, int8))
    np.testing.assert_allclose(found[0], plain[0], atol=0.01 * np.abs(exact).max())
    np.testing.assert_allclose(found[0], exact, atol=0.05 * np.abs(exact).max())


def test_what_is_excluded_stays_float_and_what_has_no_whole_blocks_int8() -> None:
    rng = np.random.default_rng(0)
    weights = {"w": rng.normal(size=(40, 8)).astype(np.float32)}
    model = _products(weights, rng.normal(size=(5, 40)).astype(np.float32))
    operators = [node.op_type for node in quantize(model, FOUR_BIT).graph.node]
    assert "QuantizeLinear" not in operators
    assert "DynamicQuantizeMatMul" in operators
    operators = [node.op_type for node in quantize(model, FOUR_BIT, excluded=["w"]).graph.node]
    assert "MatMul" in operators

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

from pocketquery.export.graph_editing import GraphEditor
from pocketquery.export.quantization.quantization import quantizable_matmuls, quantize
from pocketquery.export.sessions import GraphSession
from pocketquery.export.settings import QuantizationOptions


def test_close_to_float_and_a_third_of_its_size(
    float_model: onnx.ModelProto, token_ids: list[list[int]]
) -> None:
    int8 = quantize(float_model)
    left, right = (GraphSession(model).encode(token_ids) for model in (float_model, int8))
    cosines = np.einsum("nd,nd->n", left, right)
    assert cosines.mean() > 0.99
    assert (cosines < 1 - 1e-6).any()
    assert int8.ByteSize() < 0.4 * float_model.ByteSize()


def test_every_projection_and_the_vocabulary_table_are_integers(
    float_model: onnx.ModelProto,
) -> None:
    editor = GraphEditor(quantize(float_model))
    assert len(quantizable_matmuls(float_model)) == 12
    assert len(editor.nodes("DynamicQuantizeMatMul")) == 8  # query, key and value are one
    assert not quantizable_matmuls(editor.model)
    types = {tensor.name: tensor.data_type for tensor in editor.graph.initializer}
    table = next(name for name in types if name.startswith("embeddings.word_embeddings"))
    assert types[table] in (TensorProto.INT8, TensorProto.UINT8) or table.endswith("_scale")
    large_floats = [
        tensor.name
        for tensor in editor.graph.initializer
        if tensor.data_type == TensorProto.FLOAT
        and np.prod(tensor.dims) > 2000
        and not tensor.name.startswith("adapter.")
    ]
    assert large_floats == []


def test_seven_bit_weights_stay_in_seven_bits(float_model: onnx.ModelProto) -> None:
    def largest(seven_bit: bool) -> int:
        model = quantize(float_model, QuantizationOptions(seven_bit=seven_bit))
        editor = GraphEditor(model)
        names = [node.input[1] for node in editor.nodes("DynamicQuantizeMatMul")]
        return max(int(np.abs(editor.array(name).astype(int)).max()) for name in names)

    assert largest(True) <= 64
    assert largest(False) > 64


def test_scales_are_per_output_channel(float_model: onnx.ModelProto) -> None:
    sizes = {
        numpy_helper.to_array(tensor).size
        for tensor in quantize(float_model).graph.initializer
        if tensor.name.startswith("onnx::MatMul")
        and tensor.name.endswith(("_scale", "_scale.joined"))
    }
    assert sizes == {64, 128, 3 * 64}


def test_excluded_matmuls_stay_in_float(
    float_model: onnx.ModelProto, token_ids: list[list[int]]
) -> None:
    names = quantizable_matmuls(float_model)
    model = quantize(float_model, excluded=names[:3])
    assert quantizable_matmuls(model) == names[:3]
    all_float = GraphSession(quantize(float_model, excluded=names)).encode(token_ids)
    expected = GraphSession(float_model).encode(token_ids)
    assert np.einsum("nd,nd->n", all_float, expected).min() > 0.999  # the table alone is int8


def test_the_float_graph_is_left_as_it_was(float_model: onnx.ModelProto) -> None:
    before = float_model.SerializeToString(deterministic=True)
    quantize(float_model)
    assert float_model.SerializeToString(deterministic=True) == before


def test_the_same_graph_gives_the_same_bytes(float_model: onnx.ModelProto) -> None:
    first, second = (quantize(float_model).SerializeToString(deterministic=True) for _ in range(2))
    assert first == second

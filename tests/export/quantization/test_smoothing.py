from __future__ import annotations

import numpy as np
import onnx
import pytest
import torch

from pocketquery.export.graph_editing import GraphEditor
from pocketquery.export.onnx_graph import build_graph
from pocketquery.export.quantization.quantization import quantize
from pocketquery.export.quantization.smoothing import _factors, activation_ranges, smooth
from pocketquery.export.sessions import GraphSession
from pocketquery.server.modeling import SentenceEncoder
from tests.tiny_models import bert_teacher, sentences


@pytest.mark.parametrize("alpha", [0.0, 0.5, 0.75, 1.0])
def test_exact_in_float(
    float_model: onnx.ModelProto, token_ids: list[list[int]], alpha: float
) -> None:
    smoothed = smooth(float_model, activation_ranges(float_model, token_ids), alpha=alpha)
    expected = GraphSession(float_model).encode(token_ids)
    assert np.abs(GraphSession(smoothed).encode(token_ids) - expected).max() < 1e-5


def test_exact_with_an_adapter_which_reads_the_tensor_before_the_division(
    float_model: onnx.ModelProto, token_ids: list[list[int]]
) -> None:
    smoothed = smooth(float_model, activation_ranges(float_model, token_ids))
    adapter = {"adapter.layers.1.value.up": np.full((64, 8), 0.3, np.float32)}
    expected = GraphSession(float_model, adapter).encode(token_ids)
    assert np.abs(GraphSession(smoothed, adapter).encode(token_ids) - expected).max() < 1e-5


def test_exact_where_layers_share_their_weights() -> None:
    student = bert_teacher(layers=2)
    first, second = student.backbone.encoder.layer
    second.load_state_dict(first.state_dict())
    model = build_graph(student)
    ids = student.tokenizer(sentences(20))["input_ids"]
    smoothed = smooth(model, activation_ranges(model, ids))
    expected, found = GraphSession(model).encode(ids), GraphSession(smoothed).encode(ids)
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_one_division_for_query_key_and_value(
    float_model: onnx.ModelProto, token_ids: list[list[int]]
) -> None:
    smoothed = smooth(float_model, activation_ranges(float_model, token_ids))
    extra = len(GraphEditor(smoothed).nodes("Mul")) - len(GraphEditor(float_model).nodes("Mul"))
    assert extra == 2 * 3  # a layer: q/k/v together and the two of the FFN
    attended = {node.output[0] for node in GraphEditor(smoothed).nodes("MultiHeadAttention")}
    read = {name for node in GraphEditor(smoothed).nodes("MatMul") for name in node.input}
    assert len(attended) == 2
    assert attended <= read  # what attention gives is not divided


def test_ranges_are_the_largest_absolute_values(
    float_model: onnx.ModelProto, token_ids: list[list[int]]
) -> None:
    whole = activation_ranges(float_model, token_ids)
    parts = [activation_ranges(float_model, [ids]) for ids in token_ids]
    for name, ranges in whole.items():
        expected = np.max([part[name] for part in parts], axis=0)
        np.testing.assert_array_equal(ranges, expected)


def test_factors_by_hand() -> None:
    factors = _factors(
        np.array([16.0, 1.0, 0.0], np.float32), np.array([1, 1, 1], np.float32), 0.75
    )
    np.testing.assert_allclose(factors, [8.0, 1.0, 1e-5**0.75], rtol=1e-5)


def test_smoothing_helps_int8_where_channels_stick_out(token_ids: list[list[int]]) -> None:
    student = _student_with_outlier_channels()
    model = build_graph(student)
    expected = GraphSession(model).encode(token_ids)
    smoothed = smooth(model, activation_ranges(model, token_ids))
    plain_cosine, smoothed_cosine = (
        np.einsum("nd,nd->n", expected, GraphSession(quantize(graph)).encode(token_ids)).mean()
        for graph in (model, smoothed)
    )
    assert 1 - smoothed_cosine < (1 - plain_cosine) / 2


def _student_with_outlier_channels() -> SentenceEncoder:
    student = bert_teacher(layers=2, width=64)
    with torch.no_grad():
        for layer in student.backbone.encoder.layer:
            layer.attention.output.LayerNorm.weight[3] = 30.0
            layer.intermediate.dense.weight[:, 3] /= 30.0
    return student

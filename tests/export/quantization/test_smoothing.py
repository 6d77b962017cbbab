from __future__ import annotations

import numpy as np
import onnx
import pytest
import torch
from transformers.activations import ACT2FN

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


@pytest.mark.parametrize(
    ("activations", "expected"),
    [
        ([16.0, 1.0, 1.0], [8.0, 1.0, 1.0]),
        ([16.0, 1.0, 1.0, 0.25], [8.0, 1.0, 1.0, 0.25**0.75]),  # a quarter: as it is
        ([16.0, 1.0, 1.0, 0.0], [8.0, 1.0, 1.0, 0.25**0.75]),  # silent: as a quarter of the median
        ([1.0, *[0.0] * 99], [1.0, *[0.25**0.75] * 99]),  # nearly all silent: they do not count
        ([1.0, *[1e-3] * 9], [1.0, *[0.25**0.75] * 9]),
        ([1000.0, *[1.0] * 19], [1000**0.75, *[1.0] * 19]),  # nor does a large one
        ([0.0, 0.0], [1e-5**0.75] * 2),
    ],
)
def test_factors_by_hand(activations: list[float], expected: list[float]) -> None:
    ones = np.ones(len(activations), np.float32)
    factors = _factors(np.array(activations, np.float32), ones, 0.75)
    np.testing.assert_allclose(factors, expected, rtol=1e-5)


@pytest.mark.parametrize(
    ("activation", "silenced"),
    [
        ("relu", 0.0),
        ("gelu", 3.0),
        *(
            pytest.param(activation, silenced, marks=pytest.mark.slow)
            for activation in ("relu", "relu6", "relu2", "gelu", "gelu_new", "silu", "tanh")
            for silenced in (0.0, 3.0)
        ),
    ],
)
def test_a_text_that_wakes_channels_silent_in_calibration_keeps_its_vector(
    activation: str, silenced: float, token_ids: list[list[int]]
) -> None:
    model = build_graph(_student_with_silent_channels(activation, silenced))
    expected = GraphSession(model).encode(token_ids)
    for calibration in (token_ids[:1], token_ids[:10]):
        smoothed = smooth(model, activation_ranges(model, calibration))
        vectors = GraphSession(quantize(smoothed)).encode(token_ids)
        assert np.einsum("nd,nd->n", expected, vectors).min() > 0.985


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


def _student_with_silent_channels(activation: str, silenced: float) -> SentenceEncoder:
    """Nine channels in ten of each FFN need ``silenced`` more before they give anything."""
    student = bert_teacher(layers=2, width=64)
    student.backbone.config.hidden_act = activation
    rng = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for layer in student.backbone.encoder.layer:
            layer.intermediate.intermediate_act_fn = ACT2FN[activation]
            bias = layer.intermediate.dense.bias
            bias -= silenced * (torch.rand(len(bias), generator=rng) < 0.9)
    return student

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from torch import nn

from pocketquery.export.graph_editing import GraphEditor
from pocketquery.export.onnx_graph import build_graph
from pocketquery.export.quantization import quantization
from pocketquery.export.quantization.fusing import fuse_products
from pocketquery.export.quantization.quantization import quantizable_matmuls, quantize
from pocketquery.export.quantization.smoothing import activation_ranges, smooth
from pocketquery.export.settings import QuantizationOptions
from tests.tiny_models import bert_teacher

ALL = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
NONE = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL


@pytest.fixture
def unfused(monkeypatch: pytest.MonkeyPatch) -> Callable[..., onnx.ModelProto]:
    """``quantize`` without the last step."""

    def made(
        model: onnx.ModelProto,
        excluded: tuple[str, ...] = (),
        options: QuantizationOptions | None = None,
    ) -> onnx.ModelProto:
        with monkeypatch.context() as patch:
            patch.setattr(quantization, "fuse_products", lambda quantized, joined: quantized)
            return quantize(model, options or QuantizationOptions(), excluded=excluded)

    return made


def operators(model: onnx.ModelProto) -> Counter[str]:
    return Counter(node.op_type for node in model.graph.node)


def vectors(
    model: onnx.ModelProto, ids: list[list[int]], level: onnxruntime.GraphOptimizationLevel = ALL
) -> list[np.ndarray]:
    """Of each text alone, as a device encodes."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = level
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return [
        session.run(
            ["sentence_embedding"],
            {"input_ids": np.array([row]), "attention_mask": np.ones((1, len(row)), np.int64)},
        )[0]
        for row in ids
    ]


@pytest.mark.parametrize("level", [ALL, NONE])
def test_vectors_are_the_same_to_the_bit(
    float_model: onnx.ModelProto,
    token_ids: list[list[int]],
    unfused: Callable[..., onnx.ModelProto],
    level: onnxruntime.GraphOptimizationLevel,
) -> None:
    options = QuantizationOptions()
    smoothed = smooth(float_model, activation_ranges(float_model, token_ids))
    for source in (float_model, smoothed):
        expected = vectors(unfused(source, options=options), token_ids, level)
        found = quantize(source, options)
        assert not operators(found)["MatMulInteger"]
        np.testing.assert_array_equal(vectors(found, token_ids, level), expected)


def test_a_product_is_one_node(
    float_model: onnx.ModelProto, unfused: Callable[..., onnx.ModelProto]
) -> None:
    before, after = operators(unfused(float_model)), operators(quantize(float_model))
    assert (before["MatMulInteger"], before["DynamicQuantizeLinear"]) == (12, 8)
    assert (after["MatMulInteger"], after["DynamicQuantizeLinear"]) == (0, 0)
    assert (after["DynamicQuantizeMatMul"], after["Split"]) == (8, 2)
    assert sum(after.values()) < sum(before.values()) - 50


def test_what_a_session_looks_for_is_found_no_more(
    float_model: onnx.ModelProto, tmp_path: Path
) -> None:
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "optimised.onnx")
    model = quantize(float_model)
    onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    left = operators(onnx.load(tmp_path / "optimised.onnx"))
    before = operators(model)
    assert left == before - Counter({"Constant": before["Constant"]})


def test_where_one_of_three_stays_in_float_two_are_joined(
    float_model: onnx.ModelProto,
    token_ids: list[list[int]],
    unfused: Callable[..., onnx.ModelProto],
) -> None:
    excluded = tuple(quantizable_matmuls(float_model)[:1])
    model = quantize(float_model, excluded=excluded)
    assert quantizable_matmuls(model) == list(excluded)
    first = GraphEditor(model).nodes("Split")[0]
    assert list(first.output) == ["layers.0.key.output", "layers.0.value.output"]
    expected = vectors(unfused(float_model, excluded=excluded), token_ids)
    np.testing.assert_array_equal(vectors(model, token_ids), expected)


def test_of_the_head_too_with_a_bias_or_without(unfused: Callable[..., onnx.ModelProto]) -> None:
    head = nn.Sequential(nn.Linear(32, 24, bias=False), nn.GELU(), nn.Linear(24, 16))
    student = bert_teacher(layers=1, width=32, head=head)
    ids = student.tokenizer(["how do plants make sugar"])["input_ids"]
    model = build_graph(student)
    fused = quantize(model)
    assert operators(fused)["DynamicQuantizeMatMul"] == 6
    np.testing.assert_array_equal(vectors(fused, ids), vectors(unfused(model), ids))


def test_layers_that_share_their_weights_still_do(
    unfused: Callable[..., onnx.ModelProto],
) -> None:
    student = bert_teacher(layers=3, width=32)
    layers = student.backbone.encoder.layer
    for layer in layers[1:]:
        layer.load_state_dict(layers[0].state_dict())
    model = build_graph(student)
    fused = quantize(model)
    assert fused.ByteSize() < unfused(model).ByteSize()
    ids = student.tokenizer(["how do plants make sugar"])["input_ids"]
    np.testing.assert_array_equal(vectors(fused, ids), vectors(unfused(model), ids))


def product(name: str, *, bias: bool) -> list[onnx.NodeProto]:
    node = onnx.helper.make_node
    nodes = [
        node(
            "MatMulInteger", ["codes", f"{name}.weight", "point", f"{name}.points"], [f"{name}.i"]
        ),
        node("Cast", [f"{name}.i"], [f"{name}.f"], to=onnx.TensorProto.FLOAT),
        node("Mul", ["scale", f"{name}.scale"], [f"{name}.scales"]),
        node("Mul", [f"{name}.f", f"{name}.scales"], [name]),
    ]
    return [*nodes, node("Add", [name, f"{name}.bias"], [f"{name}.out"])] if bias else nodes


@pytest.mark.parametrize(
    ("bias", "weights", "points", "left"),
    [
        ((True, True), ("one", "two"), 0, {"DynamicQuantizeMatMul": 1, "Split": 1, "Add": 1}),
        ((False, False), ("one", "two"), 0, {"DynamicQuantizeMatMul": 1, "Split": 1, "Add": 1}),
        ((False, False), ("one", "two"), 3, {"DynamicQuantizeMatMul": 1, "Split": 1, "Add": 1}),
        ((True, False), ("one", "two"), 0, {"MatMulInteger": 2}),
    ],
)
def test_products_of_the_same_activations(
    bias: tuple[bool, bool], weights: tuple[str, str], points: int, left: dict[str, int]
) -> None:
    rng = np.random.default_rng(0)
    stored = {
        f"{name}.{kind}": values
        for name in weights
        for kind, values in {
            "weight": rng.integers(-60, 60, (8, 5), dtype=np.int8),
            "points": np.full(5, points, np.int8),
            "scale": rng.uniform(0.01, 0.02, 5).astype(np.float32),
            "bias": rng.normal(size=5).astype(np.float32),
        }.items()
    }
    ends = [
        f"{name}.out" if with_bias else name for name, with_bias in zip(weights, bias, strict=True)
    ]
    value = onnx.helper.make_tensor_value_info
    nodes = [
        onnx.helper.make_node("DynamicQuantizeLinear", ["x"], ["codes", "scale", "point"]),
        *product(weights[0], bias=bias[0]),
        *product(weights[1], bias=bias[1]),
        onnx.helper.make_node("Add", ends, ["y"]),
    ]
    graph = onnx.helper.make_graph(
        nodes,
        "products",
        [value("x", onnx.TensorProto.FLOAT, [None, 8])],
        [value("y", onnx.TensorProto.FLOAT, [None, 5])],
        [onnx.numpy_helper.from_array(array, name) for name, array in stored.items()],
    )
    model = onnx.helper.make_model(
        graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8
    )
    x = rng.normal(size=(3, 8)).astype(np.float32)

    def found() -> np.ndarray:
        session = onnxruntime.InferenceSession(
            model.SerializeToString(), providers=["CPUExecutionProvider"]
        )
        result: np.ndarray = session.run(["y"], {"x": x})[0]
        return result

    expected = found()
    fuse_products(model)
    assert left.items() <= operators(model).items()
    np.testing.assert_array_equal(found(), expected)

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from torch import nn

from pocketquery.export.adapter import adapter_tensors, fixed_tensors
from pocketquery.export.onnx_graph import build_graph
from pocketquery.export.quantization.quantization import quantize
from pocketquery.export.sessions import GraphSession
from pocketquery.export.settings import GraphOptions
from pocketquery.sdk.arrays import FloatTensors
from pocketquery.sdk.bundle.adapter import LARGEST_RELEASE, pack_adapter
from pocketquery.sdk.bundle.bundle import Bundle
from pocketquery.sdk.errors import InvalidInputError
from pocketquery.server.modeling import SentenceEncoder
from tests.tiny_models import bert_teacher, sentences


def test_names_and_shapes(headed_student: SentenceEncoder) -> None:
    tensors = adapter_tensors(build_graph(headed_student, GraphOptions(adapter_rank=4)))
    layers = {
        f"adapter.layers.{i}.{part}.{side}": (4, 64) if side == "down" else (64, 4)
        for i in range(2)
        for part in ("query", "value")
        for side in ("down", "up")
    }
    head = {
        "adapter.head.0.down": (4, 64),
        "adapter.head.0.up": (96, 4),
        "adapter.head.1.down": (4, 96),
        "adapter.head.1.up": (48, 4),
    }
    assert {name: tensor.shape for name, tensor in tensors.items()} == layers | head


def test_defaults_leave_the_output_alone(
    student: SentenceEncoder, float_model: onnx.ModelProto, token_ids: list[list[int]]
) -> None:
    plain = build_graph(student, GraphOptions(adapter_rank=0))
    assert not adapter_tensors(plain)
    with_adapter = GraphSession(float_model).encode(token_ids)
    np.testing.assert_array_equal(with_adapter, GraphSession(plain).encode(token_ids))


def test_down_is_random_and_exact_in_half_precision_and_up_is_zero(
    float_model: onnx.ModelProto,
) -> None:
    for name, tensor in adapter_tensors(float_model).items():
        np.testing.assert_array_equal(tensor, tensor.astype(np.float16).astype(np.float32))
        assert (np.abs(tensor).max() > 0) == name.endswith("down")


def test_the_last_layers_alone_may_have_one(student: SentenceEncoder) -> None:
    every = adapter_tensors(build_graph(student, GraphOptions(adapter_rank=2)))
    last = adapter_tensors(build_graph(student, GraphOptions(adapter_rank=2, adapter_layers=1)))
    layers = int(student.backbone.config.num_hidden_layers)
    assert layers > 1
    in_layers = [name for name in every if not name.startswith(f"adapter.layers.{layers - 1}.")]
    assert last.keys() == every.keys() - {n for n in in_layers if n.startswith("adapter.layers.")}
    rank = adapter_tensors(build_graph(student, GraphOptions(adapter_layers=1)))
    assert all(len(tensor) == 8 for name, tensor in rank.items() if name.endswith("down"))


def test_the_seed_decides_down(student: SentenceEncoder) -> None:
    first, again, other = (
        adapter_tensors(build_graph(student, GraphOptions(adapter_seed=seed))) for seed in (0, 0, 1)
    )
    name = "adapter.layers.0.query.down"
    np.testing.assert_array_equal(first[name], again[name])
    assert not np.array_equal(first[name], other[name])


@pytest.mark.parametrize("name", ["student", "headed_student", "xlmr_student"])
def test_a_fed_adapter_computes_what_torch_computes(
    name: str, request: pytest.FixtureRequest
) -> None:
    student: SentenceEncoder = request.getfixturevalue(name)
    model = build_graph(student)
    adapter = _random_adapter(model)
    texts = sentences(8)
    with _adapted(student, adapter):
        expected = student.encode(texts)
    ids = [student.tokenizer(text)["input_ids"] for text in texts]
    found = GraphSession(model, adapter).encode(ids)
    assert np.abs(found - expected).max() < 1e-4
    assert np.abs(GraphSession(model).encode(ids) - expected).max() > 1e-2


def test_overridable_after_quantisation(
    float_model: onnx.ModelProto, token_ids: list[list[int]]
) -> None:
    int8 = quantize(float_model)
    session = onnxruntime.InferenceSession(int8.SerializeToString())
    assert [slot.name for slot in session.get_inputs()] == ["input_ids", "attention_mask"]
    slots = {slot.name: tuple(slot.shape) for slot in session.get_overridable_initializers()}
    assert slots == {name: tensor.shape for name, tensor in adapter_tensors(float_model).items()}
    adapter = _random_adapter(float_model)
    with_float = GraphSession(float_model, adapter).encode(token_ids)
    with_int8 = GraphSession(int8, adapter).encode(token_ids)
    plain = GraphSession(int8).encode(token_ids)
    assert np.einsum("nd,nd->n", with_float, with_int8).min() > 0.98
    assert np.einsum("nd,nd->n", with_float, plain).mean() < 0.98


def test_with_down_fixed_the_adapter_is_up_alone_and_computes_the_same(
    headed_student: SentenceEncoder, token_ids: list[list[int]]
) -> None:
    both = build_graph(headed_student, GraphOptions(adapter_rank=3))
    small = build_graph(headed_student, GraphOptions(adapter_rank=3, adapter_train="up"))
    adapter = _random_adapter(small)
    fixed = fixed_tensors(small)
    assert not fixed_tensors(both)
    assert {name.rpartition(".")[2] for name in adapter} == {"up"}
    assert {name.rpartition(".")[2] for name in fixed} == {"down"}
    assert adapter.keys() | fixed.keys() == adapter_tensors(both).keys()
    for name, value in fixed.items():
        np.testing.assert_array_equal(value, adapter_tensors(both)[name])
    found = GraphSession(small, adapter).encode(token_ids)
    np.testing.assert_allclose(found, GraphSession(both, adapter).encode(token_ids), atol=1e-6)
    assert np.abs(found - GraphSession(small).encode(token_ids)).max() > 1e-3
    int8 = quantize(small)
    assert adapter_tensors(int8).keys() == adapter.keys()
    np.testing.assert_equal(dict(fixed_tensors(int8)), dict(fixed))


def test_the_reference_student_has_2304_values_at_rank_1() -> None:
    student = bert_teacher(layers=3, width=384)
    options = GraphOptions(adapter_rank=1, adapter_train="up")
    sizes = [tensor.size for tensor in adapter_tensors(build_graph(student, options)).values()]
    assert sizes == [384] * 6
    assert sum(sizes) == 2304
    full = adapter_tensors(build_graph(student, GraphOptions()))
    assert sum(tensor.size for tensor in full.values()) == 36_864


@pytest.mark.parametrize(
    ("layers", "width", "rank"),
    [(3, 384, 8), (6, 384, 5), pytest.param(12, 384, 2, marks=pytest.mark.slow)],
)
def test_by_default_a_release_may_travel(layers: int, width: int, rank: int) -> None:
    student = bert_teacher(layers=layers, width=width)
    manifest = Bundle.open("default").manifest

    def release(options: GraphOptions) -> bytes:
        tensors = adapter_tensors(build_graph(student, options))
        assert len(tensors["adapter.layers.0.query.down"]) == (options.adapter_rank or rank)
        return pack_adapter(tensors, manifest=manifest, version="1")

    assert len(release(GraphOptions())) <= LARGEST_RELEASE
    if rank < 8:
        with pytest.raises(InvalidInputError, match="with a lower adapter rank"):
            release(GraphOptions(adapter_rank=rank + 1))


def _random_adapter(model: onnx.ModelProto) -> FloatTensors:
    rng = np.random.default_rng(5)
    return {
        name: rng.normal(0, 0.15, tensor.shape).astype(np.float32)
        for name, tensor in adapter_tensors(model).items()
    }


@contextmanager
def _adapted(student: SentenceEncoder, adapter: FloatTensors) -> Iterator[None]:
    """The torch reference: hooks that add ``(x down^T) up^T`` to each projection's output."""
    modules: dict[str, nn.Module] = {}
    for i, layer in enumerate(student.backbone.encoder.layer):
        modules[f"layers.{i}.query"] = layer.attention.self.query
        modules[f"layers.{i}.value"] = layer.attention.self.value
    linear = [module for module in student.head or () if isinstance(module, nn.Linear)]
    modules |= {f"head.{j}": module for j, module in enumerate(linear)}
    with ExitStack() as stack:
        for name, module in modules.items():
            down, up = (torch.from_numpy(adapter[f"adapter.{name}.{s}"]) for s in ("down", "up"))

            def add(
                module: nn.Module,
                inputs: tuple[torch.Tensor],
                output: torch.Tensor,
                down: torch.Tensor = down,
                up: torch.Tensor = up,
            ) -> torch.Tensor:
                return output + inputs[0] @ down.T @ up.T

            stack.callback(module.register_forward_hook(add).remove)
        yield

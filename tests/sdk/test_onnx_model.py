from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto

from pocketquery.sdk.errors import CorruptArtifactError
from pocketquery.sdk.onnx_model import MESSAGES, check_self_contained, open_session
from tests.sdk.tiny_bundle import encoder_onnx

TINY = encoder_onnx()


def external() -> TensorProto:
    tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[2])
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="secret.bin")
    return tensor


def only_location() -> TensorProto:
    return TensorProto(name="w", data_location=TensorProto.EXTERNAL)


def only_entry() -> TensorProto:
    tensor = TensorProto(name="w")
    tensor.external_data.add(key="location", value="*/_ORT_MEM_ADDR_/*")
    return tensor


def graph(**fields: Any) -> onnx.GraphProto:
    return onnx.GraphProto(**fields)


def node(**attribute: Any) -> onnx.NodeProto:
    return onnx.NodeProto(attribute=[onnx.AttributeProto(name="a", **attribute)])


PLACES: dict[str, Callable[[TensorProto], onnx.ModelProto]] = {
    "initializer": lambda t: onnx.ModelProto(graph=graph(initializer=[t])),
    "sparse values": lambda t: onnx.ModelProto(
        graph=graph(sparse_initializer=[onnx.SparseTensorProto(values=t)])
    ),
    "sparse indices": lambda t: onnx.ModelProto(
        graph=graph(sparse_initializer=[onnx.SparseTensorProto(indices=t)])
    ),
    "attribute": lambda t: onnx.ModelProto(graph=graph(node=[node(t=t)])),
    "attributes": lambda t: onnx.ModelProto(graph=graph(node=[node(tensors=[t])])),
    "sparse attribute": lambda t: onnx.ModelProto(
        graph=graph(node=[node(sparse_tensor=onnx.SparseTensorProto(values=t))])
    ),
    "sparse attributes": lambda t: onnx.ModelProto(
        graph=graph(node=[node(sparse_tensors=[onnx.SparseTensorProto(values=t)])])
    ),
    "subgraph": lambda t: onnx.ModelProto(
        graph=graph(node=[node(g=graph(node=[node(g=graph(initializer=[t]))]))])
    ),
    "subgraphs": lambda t: onnx.ModelProto(
        graph=graph(node=[node(graphs=[graph(initializer=[t])])])
    ),
    "function": lambda t: onnx.ModelProto(functions=[onnx.FunctionProto(node=[node(t=t)])]),
    "function default": lambda t: onnx.ModelProto(
        functions=[onnx.FunctionProto(attribute_proto=[onnx.AttributeProto(name="a", t=t)])]
    ),
    "training": lambda t: onnx.ModelProto(
        training_info=[onnx.TrainingInfoProto(algorithm=graph(initializer=[t]))]
    ),
}


@pytest.mark.parametrize("tensor", [external, only_location, only_entry])
@pytest.mark.parametrize("place", PLACES)
def test_values_in_another_file_are_refused_wherever_the_tensor_stands(
    place: str, tensor: Callable[[], TensorProto]
) -> None:
    model = PLACES[place](tensor()).SerializeToString()
    with pytest.raises(CorruptArtifactError, match=r"x: a tensor has its values in another file"):
        check_self_contained(model, "x")
    plain = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[1], float_data=[1.0])
    check_self_contained(PLACES[place](plain).SerializeToString(), "x")


def test_every_way_to_a_tensor_is_looked_through() -> None:
    """Compared with the format's own description, as the installed package has it."""
    for name, ways in MESSAGES.items():
        described = {
            field.number: field.message_type.name
            for field in getattr(onnx, name).DESCRIPTOR.fields
            if field.message_type is not None and field.message_type.name in MESSAGES
        }
        assert ways == described, name
    names = {field.name: field.number for field in TensorProto.DESCRIPTOR.fields}
    assert (names["external_data"], names["data_location"]) == (13, 14)
    held = _held(onnx.ModelProto.DESCRIPTOR, {})
    leading = {"TensorProto"}
    while more := {kind for kind, inside in held.items() if inside & leading} - leading:
        leading |= more
    assert leading == set(MESSAGES)


def _held(message: Any, found: dict[str, set[str]]) -> dict[str, set[str]]:
    """The messages in each message that can be reached from ``message``."""
    if message.name not in found:
        inside = [field.message_type for field in message.fields if field.message_type is not None]
        found[message.name] = {one.name for one in inside}
        for one in inside:
            _held(one, found)
    return found


def test_onnxruntime_would_have_read_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = onnx.load_from_string(TINY)
    table = next(tensor for tensor in model.graph.initializer if tensor.name == "table")
    (tmp_path / "secret.bin").write_bytes(table.raw_data)
    table.ClearField("raw_data")
    table.data_location = TensorProto.EXTERNAL
    table.external_data.add(key="location", value="secret.bin")
    monkeypatch.chdir(tmp_path)
    data = model.SerializeToString()
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    with pytest.raises(CorruptArtifactError, match="values in another file"):
        open_session(data, options, "x")


def test_onnxruntimes_own_format_is_refused(tmp_path: Path) -> None:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.optimized_model_filepath = str(tmp_path / "model.ort")
    options.add_session_config_entry("session.save_model_format", "ORT")
    onnxruntime.InferenceSession(TINY, options, providers=["CPUExecutionProvider"])
    data = (tmp_path / "model.ort").read_bytes()
    assert data[4:8] == b"ORTM"
    with pytest.raises(CorruptArtifactError, match="x: "):
        open_session(data, onnxruntime.SessionOptions(), "x")


def test_graphs_within_graphs_have_a_bound() -> None:
    inner = graph(name="g")
    for _ in range(30):
        inner = graph(node=[node(g=inner)])
    with pytest.raises(CorruptArtifactError, match="nested deeper than 64"):
        check_self_contained(onnx.ModelProto(graph=inner).SerializeToString(), "x")


@pytest.mark.parametrize("name", [b"table", b"sentence_embedding", b"input_ids", b"tiny"])
def test_a_name_that_is_no_text_is_refused_or_left_alone(name: bytes) -> None:
    changed = TINY.replace(name, b"\xff" + name[1:])
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        session = open_session(changed, options, "x")
    except CorruptArtifactError as error:
        assert str(error).startswith("x: ")  # noqa: PT017 - both outcomes are right
        return
    assert session.get_inputs()[0].name == "input_ids"


def test_a_sound_model_is_opened() -> None:
    session = open_session(TINY, onnxruntime.SessionOptions(), "x")
    feed = {name: np.ones((1, 3), np.int64) for name in ("input_ids", "attention_mask")}
    assert session.run(None, feed)[0].shape == (1, 16)


@given(
    st.binary(max_size=200) | st.just(TINY).flatmap(lambda t: st.binary(max_size=4).map(t.__add__))
)
def test_any_bytes_are_looked_through_or_refused(data: bytes) -> None:
    try:
        check_self_contained(data, "x")
    except CorruptArtifactError as error:
        assert str(error).startswith("x: ")  # noqa: PT017 - both outcomes are right


@given(st.integers(0, len(TINY) - 1), st.integers(0, 255))
def test_a_changed_byte_never_hides_a_tensor_from_us_that_onnx_sees(at: int, value: int) -> None:
    model = PLACES["subgraph"](external()).SerializeToString()
    changed = bytearray(model)
    changed[at % len(model)] = value
    parsed = onnx.ModelProto()
    try:
        parsed.ParseFromString(bytes(changed))
    except Exception:  # protobuf's class depends on its version
        return
    try:
        check_self_contained(bytes(changed), "x")
    except CorruptArtifactError:
        return
    assert not _external(parsed)


def _external(message: Any) -> bool:
    if isinstance(message, TensorProto):
        return bool(message.external_data) or message.data_location != TensorProto.DEFAULT
    found = []
    for field, value in message.ListFields():
        if field.message_type is not None:
            repeated = value if hasattr(value, "__len__") else [value]
            found += [_external(one) for one in repeated]
    return any(found)

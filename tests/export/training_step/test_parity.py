"""The gate of a training step, on the step that is stored for the conformance vectors: a built one
passes the same gate wherever it is built."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import pytest

from pocketquery.distill.pruning.pruned_student import _cut_positions
from pocketquery.export.training_step.function import StepShape
from pocketquery.export.training_step.model import EncoderShape
from pocketquery.export.training_step.parity import LARGEST_ERROR, check_training_step
from pocketquery.export.training_step.tensors import StepTensors, divide
from pocketquery.sdk.bundle.bundle import Bundle
from pocketquery.sdk.bundle.manifest import TRAINING_STEP_FILE
from pocketquery.sdk.errors import ArtifactError
from pocketquery.server.modeling import SentenceEncoder
from tests.export.training_bundle import tiny_student
from tests.trainable_bundle import bundle_adapter, trainable_bundle


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    return Bundle.open(trainable_bundle(tmp_path_factory.mktemp("parity") / "bundle"))


@pytest.fixture(scope="module")
def student() -> SentenceEncoder:
    return tiny_student()


@pytest.fixture(scope="module")
def tensors(bundle: Bundle, student: SentenceEncoder) -> StepTensors:
    return divide(student, bundle_adapter(bundle), "index_byol", "adapter")


@pytest.fixture
def shape(student: SentenceEncoder, tensors: StepTensors) -> StepShape:
    names = tuple(tensors.trained), tuple(tensors.target)
    return StepShape(EncoderShape.of(student), "index_byol", 2, *names)


@pytest.fixture
def model(bundle: Bundle) -> onnx.ModelProto:
    return onnx.load_from_string(bundle.read(TRAINING_STEP_FILE))


Check = Callable[[onnx.ModelProto], None]


@pytest.fixture
def check(student: SentenceEncoder, shape: StepShape, tensors: StepTensors) -> Check:
    def run(model: onnx.ModelProto) -> None:
        check_training_step(model.SerializeToString(), student, shape, tensors)

    return run


def test_a_step_passes(
    bundle: Bundle, student: SentenceEncoder, shape: StepShape, tensors: StepTensors
) -> None:
    data = bundle.read(TRAINING_STEP_FILE)
    agreement = check_training_step(data, student, shape, tensors)
    assert agreement.steps == 20
    assert agreement.state_error <= LARGEST_ERROR
    assert agreement.loss_error <= LARGEST_ERROR
    assert agreement.unmoved == 1  # the first step had nothing to learn


def test_a_student_of_few_positions_is_compared_within_them(
    bundle: Bundle, shape: StepShape
) -> None:
    student = tiny_student()
    student.max_length = 8
    _cut_positions(student)
    tensors = divide(student, bundle_adapter(bundle), "index_byol", "adapter")
    agreement = check_training_step(bundle.read(TRAINING_STEP_FILE), student, shape, tensors)
    assert agreement.state_error <= LARGEST_ERROR


def test_a_lost_epsilon_is_found(model: onnx.ModelProto, check: Check) -> None:
    (node,) = [n for n in _users(model, "epsilon") if n.op_type == "Add"][:1]
    other = next(name for name in node.input if name != "epsilon")
    node.op_type = "Identity"
    del node.input[:]
    node.input.append(other)
    with pytest.raises(
        ArtifactError, match=r"gives next\.online\.\S+ that is not finite in step 1"
    ):
        check(model)


def test_a_changed_weight_is_found(model: onnx.ModelProto, check: Check) -> None:
    name = "frozen.layers.0.inner.weight.scales"
    scales = next(tensor for tensor in model.graph.initializer if tensor.name == name)
    values = onnx.numpy_helper.to_array(scales).copy()
    values[3] *= 1.01
    scales.CopyFrom(onnx.numpy_helper.from_array(values.astype(np.float32), name))
    with pytest.raises(ArtifactError, match="does not compute what torch computes"):
        check(model)


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        *((scalar, "wrong") for scalar in ("weight_decay", "ema_rate", "beta2", "anchor_weight")),
        ("online_mask", "online_ids"),
    ],
)
def test_an_input_that_is_not_heeded_is_found(
    model: onnx.ModelProto, check: Check, name: str, instead: str
) -> None:
    for node in _users(model, name):
        node.input[list(node.input).index(name)] = instead
    wrong = onnx.numpy_helper.from_array(np.array(0.6, np.float32), "wrong")
    model.graph.initializer.append(wrong)
    with pytest.raises(ArtifactError):
        check(model)


def _users(model: onnx.ModelProto, name: str) -> list[onnx.NodeProto]:
    users = [node for node in model.graph.node if name in node.input]
    assert users, name
    return users

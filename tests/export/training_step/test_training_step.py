from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import pytest

from pocketquery import sdk
from pocketquery.client.training.step_description import METADATA_KEY
from pocketquery.export.adapter import adapter_tensors
from pocketquery.export.onnx_graph import build_graph
from pocketquery.export.sessions import GraphSession
from pocketquery.export.settings import (
    ExportOptions,
    GraphOptions,
    Objective,
    TrainedPart,
    TrainingOptions,
)
from pocketquery.export.training_step.function import StepShape
from pocketquery.export.training_step.inputs import BatchSizes, random_batch, start_state
from pocketquery.export.training_step.model import EncoderShape
from pocketquery.export.training_step.parity import StepAgreement, step_session
from pocketquery.export.training_step.tensors import divide
from pocketquery.export.training_step.training_step import (
    TrainingStep,
    build_training_step,
)
from pocketquery.sdk.bundle.bundle import Bundle
from pocketquery.sdk.bundle.manifest import TRAINING_STATE_FILE, TRAINING_STEP_FILE
from pocketquery.sdk.bundle.safetensors import parse
from pocketquery.sdk.errors import InvalidInputError
from pocketquery.sdk.settings.declaration import from_json
from pocketquery.server.modeling import SentenceEncoder
from tests.export.training_bundle import tiny_student, tiny_training_bundle
from tests.tiny_models import electra_teacher, sentences
from tests.trainable_bundle import bundle_adapter, trainable_bundle

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module", params=["stored", pytest.param("built", marks=pytest.mark.slow)])
def bundle(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bundle of the conformance vectors, and the one that is exported anew."""
    make = trainable_bundle if request.param == "stored" else tiny_training_bundle
    return make(tmp_path_factory.mktemp("step") / "bundle")


def test_a_bundle_with_a_step_verifies_and_encodes(bundle: Path) -> None:
    assert sdk.verify(bundle).golden is not None
    opened = Bundle.open(bundle)
    assert TRAINING_STEP_FILE in opened
    assert TRAINING_STATE_FILE not in opened  # the adapter's start is in adapter.safetensors
    assert sdk.load(bundle).encode("castle rock").shape == (48,)


def test_the_graph_says_what_it_trains(bundle: Path) -> None:
    opened = Bundle.open(bundle)
    description = _description(opened)
    adapter = bundle_adapter(opened)
    assert description["format"] == "pocketquery-training-step"
    assert (description["objective"], description["part"]) == ("index_byol", "adapter")
    assert (description["views"], description["target_views"]) == (2, 1)
    assert description["encoder_sha256"] == opened.manifest.files["encoder.onnx"].sha256
    assert description["space_id"] == opened.manifest.space.id
    assert {entry["name"]: tuple(entry["shape"]) for entry in description["state"]} == {
        name: value.shape for name, value in adapter.items()
    }
    assert all(entry["target"] and entry["ships"] for entry in description["state"])


def test_the_graph_is_plain_onnx_without_traces_of_its_making(bundle: Path) -> None:
    data = Bundle.open(bundle).read(TRAINING_STEP_FILE)
    model = onnx.load_from_string(data)
    onnx.checker.check_model(model, full_check=True)
    assert [(opset.domain, opset.version) for opset in model.opset_import] == [("", 18)]
    assert {node.domain for node in model.graph.node} == {""}
    assert not model.functions
    assert b".py" not in data


def test_the_state_file_is_there_where_more_than_the_adapter_is_trained() -> None:
    state = {"head.0.bias": np.ones(3, np.float32)}
    step = TrainingStep(b"graph", state, StepAgreement(20, 0.0, 0.0, 0.5))
    files = step.files()
    assert files[TRAINING_STEP_FILE] == b"graph"
    np.testing.assert_array_equal(parse(files[TRAINING_STATE_FILE])["head.0.bias"], np.ones(3))


@pytest.mark.parametrize("scale", [0.0, 0.2])
def test_vectors_are_those_of_the_encoder_with_the_same_adapter(bundle: Path, scale: float) -> None:
    student = tiny_student()
    adapter = _drawn_adapter(bundle, scale)
    batch = student.tokenize(sentences(8))
    ids, mask = batch["input_ids"].numpy(), batch["attention_mask"].numpy()
    graph = GraphSession(build_graph(student, GraphOptions(adapter_rank=2)), adapter)
    expected = graph.encode_batch(ids, mask)
    found = _vectors(bundle, adapter, ids, mask)
    assert np.einsum("nd,nd->n", found, expected).min() > 0.999
    moved = np.einsum("nd,nd->n", found, student.encode(sentences(8)))
    assert (moved < 0.99).all() if scale else (moved > 0.999).all()


def test_mistakes_in_the_options_are_found_at_once() -> None:
    with pytest.raises(
        InvalidInputError, match="part is 'head', expected one of adapter, top, all"
    ):
        from_json(TrainingOptions, {"part": "head"}, "options")
    with pytest.raises(InvalidInputError, match="views is 4; index_byol takes 2"):
        TrainingOptions(views=4)
    with pytest.raises(InvalidInputError, match="views is 3; byol takes 2 or 4"):
        TrainingOptions("byol", views=3)
    with pytest.raises(InvalidInputError, match="adapter_rank is 0"):
        ExportOptions(GraphOptions(adapter_rank=0), training=TrainingOptions())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("objective", "part", "views"),
    [
        ("byol", "adapter", 2),
        ("byol", "adapter", 4),
        ("index_byol", "top", 2),
        ("index_byol", "all", 2),
        ("byol", "all", 2),
    ],
)
def test_every_kind_of_step_passes_its_gate(
    objective: Objective, part: TrainedPart, views: int, tmp_path: Path
) -> None:
    folder = tiny_training_bundle(tmp_path / "b", objective=objective, part=part, views=views)
    opened = Bundle.open(folder)
    sdk.verify(folder)
    state = _description(opened)["state"]
    heads = {entry["name"] for entry in state if not entry["ships"]}
    assert {name.split(".")[0] for name in heads} == (
        {"projector", "predictor"} if objective == "byol" else set()
    )
    initial = parse(opened.read(TRAINING_STATE_FILE))
    in_adapter = bundle_adapter(opened).keys()
    expected = {e["name"]: tuple(e["shape"]) for e in state if e["name"] not in in_adapter}
    assert {name: value.shape for name, value in initial.items()} == expected


@pytest.mark.slow
def test_the_same_student_gives_the_same_bytes(tmp_path: Path) -> None:
    opened = Bundle.open(tiny_training_bundle(tmp_path / "bundle"))
    again = build_training_step(
        tiny_student(),
        bundle_adapter(opened),
        encoder_sha256=opened.manifest.files["encoder.onnx"].sha256,
    )
    assert again.model == opened.read(TRAINING_STEP_FILE)


@pytest.mark.slow
def test_other_architectures_have_steps_too(xlmr_student: SentenceEncoder) -> None:
    for student in (xlmr_student, electra_teacher()):
        adapter = adapter_tensors(build_graph(student))
        step = build_training_step(student, adapter, encoder_sha256="0" * 64)
        assert step.agreement.state_error < 1e-5


def _drawn_adapter(bundle: Path, scale: float) -> dict[str, npt.NDArray[np.float32]]:
    rng = np.random.default_rng(0)
    return {
        name: value + scale * rng.normal(size=value.shape).astype(np.float32)
        for name, value in bundle_adapter(Bundle.open(bundle)).items()
    }


def _vectors(
    bundle: Path,
    adapter: dict[str, npt.NDArray[np.float32]],
    ids: npt.NDArray[np.int64],
    mask: npt.NDArray[np.int64],
) -> npt.NDArray[np.float32]:
    """The step's ``vectors`` of a batch that is given as both views."""
    opened, student = Bundle.open(bundle), tiny_student()
    tensors = divide(student, adapter, "index_byol", "adapter")
    shape = StepShape(
        EncoderShape.of(student), "index_byol", 2, tuple(tensors.trained), tuple(tensors.target)
    )
    feed = random_batch(shape, 48, len(student.tokenizer), BatchSizes(batch=len(ids)), seed=0)
    feed |= start_state(shape, tensors)
    feed |= {"online_ids": np.tile(ids, (2, 1)), "online_mask": np.tile(mask, (2, 1))}
    session = step_session(opened.read(TRAINING_STEP_FILE))
    vectors: npt.NDArray[np.float32] = session.run(["vectors"], feed)[0]
    np.testing.assert_allclose(vectors[: len(ids)], vectors[len(ids) :], atol=1e-6)
    return vectors[: len(ids)]


def _description(bundle: Bundle) -> dict[str, Any]:
    model = onnx.load_from_string(bundle.read(TRAINING_STEP_FILE))
    properties = {entry.key: entry.value for entry in model.metadata_props}
    described: dict[str, Any] = json.loads(properties[METADATA_KEY])
    return described

from __future__ import annotations

import json
from pathlib import Path

import onnx
import pytest

from pocketquery import sdk
from pocketquery.export.training_step import (
    STEP_METADATA,
    bundle_adapter,
)
from pocketquery.sdk.bundle import Bundle
from pocketquery.sdk.manifest import TRAINING_STATE_FILE, TRAINING_STEP_FILE
from tests.export.training_bundle import tiny_training_bundle


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_training_bundle(tmp_path_factory.mktemp("step") / "bundle")


def test_a_bundle_with_a_step_verifies_and_encodes(bundle: Path) -> None:
    assert sdk.verify(bundle).golden is not None
    opened = Bundle.open(bundle)
    assert TRAINING_STEP_FILE in opened
    assert TRAINING_STATE_FILE not in opened  # the adapter's start is in adapter.safetensors
    assert sdk.load(bundle).encode("castle rock").shape == (48,)


def test_the_graph_says_what_it_trains(bundle: Path) -> None:
    opened = Bundle.open(bundle)
    model = onnx.load_from_string(opened.read(TRAINING_STEP_FILE))
    description = json.loads({p.key: p.value for p in model.metadata_props}[STEP_METADATA])
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

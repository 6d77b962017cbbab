"""Python holds to what lies in conformance/, as every implementation must."""

from __future__ import annotations

import base64
import gzip
import json
import random
import re
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from numpy.typing import NDArray

from pocketquery import sdk
from pocketquery.client.store.expiry import Age
from pocketquery.client.store.stored_examples import plain
from pocketquery.client.training.batches import padded
from pocketquery.client.training.monitors import measure
from pocketquery.client.training.step import Hyperparameters, LocalStep, StepBatch
from pocketquery.client.views.typing_noise import mistype
from pocketquery.sdk import errors
from pocketquery.sdk.bundle.adapter import read_adapter
from pocketquery.sdk.bundle.bundle import Bundle
from pocketquery.sdk.bundle.manifest import ADAPTER_FILE
from pocketquery.sdk.bundle.safetensors import parse
from pocketquery.sdk.bundle.statement import is_older
from pocketquery.sdk.tokenizers.tokenizer import open_tokenizer
from tests.conformance.lineage import TARGET as LINEAGES
from tests.conformance.lineage import followed
from tests.conformance.refused import CONFORMANCE, Case, opened, read_cases
from tests.conformance.store import lived
from tests.sdk.tiny_bundle import encoder_onnx

ENCODER, TRAINING = CONFORMANCE / "encoder", CONFORMANCE / "training"
GRAPHS = CONFORMANCE / "graphs"
# Not asked of tests/conformance/tokenizers.py, which needs more than the base install.
WORDPIECE = CONFORMANCE / "tokenizer" / "wordpiece.json.gz"
REFERENCE = CONFORMANCE.parent / "benchmarks" / "reference" / "bundle"
EXPECTED = json.loads((ENCODER / "expected.json").read_text(encoding="utf-8"))


def unpacked(path: Path) -> Any:
    return json.loads(gzip.decompress(path.read_bytes()))


def floats(packed: dict[str, Any]) -> NDArray[np.float32]:
    values = np.frombuffer(base64.b64decode(packed["data"]), "<f4").reshape(packed["shape"])
    return values.astype(np.float32)


@pytest.mark.parametrize("case", read_cases(), ids=lambda case: case.name)
def test_what_must_be_refused_is(case: Case, tmp_path: Path) -> None:
    with pytest.raises(getattr(errors, case.error)) as found:
        opened(case, tmp_path)
    assert type(found.value).__name__ == case.error


def test_the_committed_graph_is_what_onnx_writes() -> None:
    pytest.importorskip("onnx")
    assert (ENCODER / "tiny" / "encoder.onnx").read_bytes() == encoder_onnx()


def test_ids_and_vectors() -> None:
    encoder = sdk.load(ENCODER / "tiny", public_key=EXPECTED["key"])
    for name in ("tiny", "swapped"):
        expected = EXPECTED[name]
        assert [encoder.tokenize(text) for text in EXPECTED["texts"]] == expected["ids"]
        assert_near(encoder.encode(EXPECTED["texts"]), expected["vectors"])
        assert_near(
            encoder.encode_query(EXPECTED["texts"][:4], truncate_dim=8), expected["queries"]
        )
        encoder.swap_adapter((ENCODER / "release.safetensors").read_bytes())


def assert_near(vectors: NDArray[np.float32], expected: Any) -> None:
    assert (vectors * np.array(expected)).sum(axis=1).min() > 0.9999


@pytest.mark.parametrize("name", sorted(p.name.partition(".")[0] for p in GRAPHS.glob("*.onnx.gz")))
def test_vectors_of_exported_graphs(name: str) -> None:
    model = gzip.decompress((GRAPHS / f"{name}.onnx.gz").read_bytes())
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model, options)
    calls = unpacked(GRAPHS / "expected.json.gz")[name]["calls"]
    for call in calls:
        feed = {key: np.array(call[key], np.int64) for key in ("input_ids", "attention_mask")}
        if "refused" in call:
            with pytest.raises(Exception, match="out of data bounds"):
                session.run(None, feed)
            continue
        (vectors,) = session.run(None, feed)
        assert (vectors * np.array(call["vectors"])).sum(axis=1).min() > 0.999
    assert sum("vectors" in call for call in calls) >= 10


def test_exported_graphs_have_the_operators_of_the_specification() -> None:
    onnx = pytest.importorskip("onnx")
    page = (CONFORMANCE.parent / "docs" / "formats" / "bundle.md").read_text(encoding="utf-8")
    listed = page.partition("operators and no others")[2].partition("Weights of")[0]
    found: set[str] = set()
    for path in GRAPHS.glob("*.onnx.gz"):
        model = onnx.load_from_string(gzip.decompress(path.read_bytes()))
        found |= {node.op_type for node in model.graph.node}
    assert sorted(found) == re.findall(r"`([A-Z]\w+)`", listed)


def test_the_reference_encoder() -> None:
    encoder = sdk.load(REFERENCE)
    expected = EXPECTED["reference"]
    assert [encoder.tokenize(text) for text in EXPECTED["texts"]] == expected["ids"]
    assert_near(encoder.encode(EXPECTED["texts"]), expected["vectors"])
    assert_near(encoder.encode_query(EXPECTED["texts"][:4], truncate_dim=8), expected["queries"])


@pytest.mark.parametrize("name", sorted(EXPECTED["models"]))
def test_sentencepiece_ids(name: str) -> None:
    data = (ENCODER / f"{name}.model").read_bytes()
    tokenizer = open_tokenizer("sentencepiece", data, 64, {"layout": "xlm-roberta"})
    expected = EXPECTED["models"][name]
    assert [tokenizer.encode(text) for text in expected["texts"]] == expected["ids"]


def test_wordpiece_ids() -> None:
    found = unpacked(WORDPIECE)
    for case in found["cases"]:
        data = json.dumps(found["tokenizer"] | case["change"]).encode()
        tokenizer = open_tokenizer("wordpiece", data, case["max_length"])
        assert [tokenizer.encode(text) for text in found["texts"]] == case["ids"], case["name"]


def test_lineages() -> None:
    found = unpacked(LINEAGES)
    for case in found["cases"]:
        if "error" in case:
            with pytest.raises(errors.ArtifactError) as error:
                followed(case)
            assert type(error.value).__name__ == case["error"], case["name"]
            continue
        newest = followed(case)
        assert newest.sequence == case["sequence"], case["name"]
        for secret, version in case["targets"].items():
            assert newest.target(bytes.fromhex(secret)).version == version
    assert all(is_older(a, b) == older for a, b, older in found["older"])


def test_twenty_training_steps() -> None:
    found = unpacked(TRAINING / "steps.json.gz")
    documents = np.concatenate([floats(found["documents"]), np.zeros((1, 48), np.float32)])
    bundle = Bundle.open(TRAINING / "bundle")
    step = LocalStep.open(bundle)
    state = step.initial_state(parse(bundle.read(ADAPTER_FILE)))
    hyper = Hyperparameters(**found["steps"]["hyperparameters"])
    for fed, losses in zip(found["steps"]["batches"], found["steps"]["losses"], strict=True):
        online, target = padded(fed["online_ids"]), padded(fed["target_ids"])
        shown = np.array(fed["shown"])
        batch = StepBatch(
            *online,
            *target,
            anchor=floats(fed["anchor"]),
            prototypes=documents[np.array(fed["prototypes"])],
            shown=documents[shown],
            shown_mask=(shown >= 0).astype(np.float32),
            opened=np.zeros(len(shown), np.int64),
            opened_weight=np.array(fed["opened_weight"], np.float32),
        )
        state, loss, _ = step.run(batch, state, hyper)
        assert [loss.loss, loss.view_loss] == pytest.approx(losses[:2], abs=1e-4)
    for name, packed in found["steps"]["online"].items():
        assert state.online[name] == pytest.approx(floats(packed), abs=1e-4)


def test_the_release_that_every_device_writes_is_read() -> None:
    manifest = Bundle.open(TRAINING / "bundle").manifest
    release = read_adapter(TRAINING / "adapter.safetensors", manifest=manifest)
    assert (release.version, release.parent_version) == ("1-local", "1")
    trained = unpacked(TRAINING / "steps.json.gz")["local"]["adapter"]
    for name, packed in trained.items():
        assert (release.tensors[name] == floats(packed).astype(np.float16)).all()
    encoder = sdk.load(TRAINING / "bundle")
    encoder.swap_adapter(release.tensors)


@pytest.mark.parametrize("name", ["store", "set_back"])
def test_lives_of_a_query_store(name: str, tmp_path: Path) -> None:
    found = unpacked(CONFORMANCE / "store" / f"{name}.json.gz")
    for number, steps in enumerate(found["lives"]):
        assert lived(steps, tmp_path / str(number)) == steps


def test_views_monitors_and_ages() -> None:
    found = unpacked(TRAINING / "steps.json.gz")
    for typed in found["views"]["typed"]:
        rng = random.Random(typed["seed"])
        texts = [
            mistype(text, typed["rate"], rng) for _ in range(8) for text in found["views"]["texts"]
        ]
        assert texts == typed["texts"]
    for one in found["monitors"]:
        health = vars(measure(floats(one["vectors"]), floats(one["shipped"])))
        assert health == pytest.approx(one["health"], abs=1e-6)
    for text, folded in found["plain"].items():
        assert plain(text) == folded
    for name in ("store", "set_back"):
        for readings in unpacked(CONFORMANCE / "store" / f"{name}.json.gz")["ages"]:
            age = Age()
            for now, opening, (*state, stamp) in readings:
                age = age.at(now, 15 * 86_400.0, opening=opening)
                assert (age.seconds, age.seen, age.origin, age.stamp) == (*state[:3], stamp)
                # The older file knows none of a clock that went back to before ``origin``.
                assert name == "store" or age.landed == state[3]

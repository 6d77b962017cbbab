"""Python holds to what lies in conformance/, as every implementation must."""

from __future__ import annotations

import base64
import gzip
import json
import random
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from pocketquery import sdk
from pocketquery.client.store.expiry import Age
from pocketquery.client.store.stored_examples import plain
from pocketquery.client.training.batches import padded
from pocketquery.client.training.monitors import measure
from pocketquery.client.training.step import Hyperparameters, LocalStep, StepBatch
from pocketquery.client.views.typing_noise import mistype
from pocketquery.sdk import errors, open_index
from pocketquery.sdk.bundle.adapter import read_adapter
from pocketquery.sdk.bundle.bundle import Bundle
from pocketquery.sdk.bundle.manifest import ADAPTER_FILE
from pocketquery.sdk.bundle.safetensors import parse
from pocketquery.sdk.bundle.statement import is_older
from pocketquery.sdk.slices.deltas import apply_delta
from pocketquery.sdk.slices.source import read_source
from pocketquery.sdk.tokenizers.tokenizer import open_tokenizer
from tests.conformance.lineage import TARGET as LINEAGES
from tests.conformance.lineage import followed
from tests.conformance.refused import CONFORMANCE, Case, opened, read_cases
from tests.conformance.search import called
from tests.sdk.tiny_bundle import encoder_onnx

ENCODER, TRAINING = CONFORMANCE / "encoder", CONFORMANCE / "training"
# Not asked of tests/conformance/tokenizers.py, which needs more than the base install.
WORDPIECE = CONFORMANCE / "tokenizer" / "wordpiece.json.gz"
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
        vectors = encoder.encode(EXPECTED["texts"])
        assert (vectors * np.array(expected["vectors"])).sum(axis=1).min() > 0.9999
        encoder.swap_adapter((ENCODER / "release.safetensors").read_bytes())


@pytest.mark.parametrize("name", ["base", "compact", "earlier"])
def test_hits(name: str) -> None:
    expected = unpacked(CONFORMANCE / "index" / "expected.json.gz")[name]
    with open_index(CONFORMANCE / "index" / name) as index:
        assert len(index) == expected["size"]
        for search in expected["searches"]:
            if "$" in json.dumps(search.get("filter", {})):
                continue  # numbers that JSON cannot hold are written for JavaScript
            options = {"vector": np.array(search["vector"])} if "vector" in search else {}
            hits = index.search(
                search["query"],
                search["k"],
                mode=search["mode"],
                filter=search.get("filter"),
                **options,
            )
            scores = [score for _, score in search["hits"]]
            assert [hit.score for hit in hits] == pytest.approx(scores, abs=1e-6)
            assert {hit.id for hit in hits[:1]} <= {hit_id for hit_id, _ in search["hits"]}


def test_text_queries_and_what_is_none() -> None:
    encoder = sdk.load(ENCODER / "tiny")
    expected = json.loads((CONFORMANCE / "search" / "expected.json").read_bytes())
    place = CONFORMANCE / "search" / "index"
    open_index(place, public_key=EXPECTED["key"]).close()
    with open_index(place, encoder=encoder) as index:
        for search in expected["searches"]:
            hits = search.pop("hits")
            found = index.search(**search)
            scores = [score for _, score in hits]
            assert [hit.score for hit in found] == pytest.approx(scores, abs=1e-5)
            for hit, (wanted, score) in zip(found, hits, strict=True):
                its = dict(hits).get(hit.id, scores[-1])  # equal ones in another order
                assert hit.id == wanted or its == pytest.approx(score, abs=1e-5)
        for one in expected["inputs"]:
            with pytest.raises(getattr(errors, one["error"])):
                called(index, encoder, one)


@pytest.mark.parametrize(
    ("name", "start", "deltas"),
    [
        ("signed", "search/index", ["first", "second"]),
        ("plain", "index/compact", ["plain"]),
    ],
)
def test_deltas(name: str, start: str, deltas: list[str], tmp_path: Path) -> None:
    expected = unpacked(CONFORMANCE / "deltas" / "expected.json.gz")[name]
    key = EXPECTED["key"] if name == "signed" else None
    shutil.copytree(CONFORMANCE / start, tmp_path / "index")
    for delta in deltas:
        apply_delta(CONFORMANCE / "deltas" / f"{delta}.delta", tmp_path / "index", public_key=key)
    with read_source(tmp_path / "index", key) as source:
        assert source.contents().sha256 == expected["contents_sha256"]
    with open_index(tmp_path / "index", public_key=key) as index:
        assert len(index) == expected["size"]
        for search in expected["searches"]:
            hits = search.pop("hits")
            if "$bigint" in json.dumps(search["filter"]):
                continue  # written for JavaScript
            if "vector" in search:
                search["vector"] = np.array(search["vector"])
            found = index.search(**search)
            assert [hit.score for hit in found] == pytest.approx([s for _, s in hits], abs=1e-6)


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

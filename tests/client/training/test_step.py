from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray

from pocketquery import sdk
from pocketquery.client.training.batches import padded
from pocketquery.client.training.step import Hyperparameters, LocalStep, StepBatch
from pocketquery.client.training.step_description import METADATA_KEY
from pocketquery.sdk.bundle.bundle import Bundle
from pocketquery.sdk.bundle.manifest import ADAPTER_FILE, TRAINING_STATE_FILE, TRAINING_STEP_FILE
from pocketquery.sdk.bundle.safetensors import parse, serialize
from pocketquery.sdk.bundle.writing import file_entries, write_bundle
from pocketquery.sdk.errors import (
    ArtifactNotFoundError,
    CorruptArtifactError,
    InvalidInputError,
    PocketQueryError,
    SpaceMismatchError,
    UnsupportedVersionError,
)
from tests.sdk.tiny_bundle import write_tiny_bundle
from tests.synthetic_sentences import sentences
from tests.trainable_bundle import trainable_bundle

DIMENSION = 48
HYPER = Hyperparameters()


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trainable_bundle(tmp_path_factory.mktemp("step") / "bundle")


@pytest.fixture(scope="module")
def byol(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its heads start as the bundle says; the same one as in test_training, built once."""
    folder = tmp_path_factory.mktemp("step") / "byol"
    from tests.export.training_bundle import tiny_training_bundle  # torch

    return tiny_training_bundle(folder, objective="byol", views=4)


@pytest.fixture(scope="module")
def step(bundle: Path) -> LocalStep:
    return LocalStep.open(bundle)


@pytest.fixture(scope="module")
def adapter(bundle: Path) -> dict[str, NDArray[Any]]:
    return parse(Bundle.open(bundle).read(ADAPTER_FILE))


def unit(*shape: int, seed: int = 0) -> NDArray[np.float32]:
    rows = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
    units: NDArray[np.float32] = rows / np.linalg.norm(rows, axis=-1, keepdims=True)
    return units


def make_batch(bundle: Path, count: int = 5, **changes: Any) -> StepBatch:
    encoder = sdk.load(bundle)
    texts = sentences(count)
    clean = [encoder.tokenize(text) for text in texts]
    noisy = [encoder.tokenize(text[1:]) for text in texts]
    online_ids, online_mask = padded(clean + noisy)
    target_ids, target_mask = padded(clean)
    fields: dict[str, Any] = {
        "online_ids": online_ids,
        "online_mask": online_mask,
        "target_ids": target_ids,
        "target_mask": target_mask,
        "anchor": encoder.encode(texts),
        "prototypes": unit(count, 7, DIMENSION),
        "shown": np.zeros((count, 1, DIMENSION), np.float32),
        "shown_mask": np.zeros((count, 1), np.float32),
        "opened": np.zeros(count, np.int64),
        "opened_weight": np.zeros(count, np.float32),
    }
    return StepBatch(**fields | changes)


def test_what_a_step_gives(bundle: Path, step: LocalStep, adapter: dict[str, Any]) -> None:
    batch, start = make_batch(bundle), step.initial_state(adapter)
    before = {name: value.copy() for name, value in start.online.items()}
    state, losses, vectors = step.run(batch, start, HYPER)
    assert (start.step, state.step) == (0, 1)
    assert vectors.shape == (10, DIMENSION)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, rtol=1e-5)
    expected = losses.view_loss + HYPER.anchor_weight * losses.anchor_loss
    assert losses.loss == pytest.approx(expected, rel=1e-5)
    assert losses.view_loss > 0
    for name, value in before.items():
        np.testing.assert_array_equal(start.online[name], value)  # the given state is left alone
        moved = 0.99 * value + 0.01 * state.online[name]
        np.testing.assert_allclose(state.target[name], moved, rtol=1e-5, atol=1e-7)
    assert any((state.online[name] != value).any() for name, value in before.items())


def test_the_clean_view_is_what_the_shipped_encoder_sees(
    bundle: Path, step: LocalStep, adapter: dict[str, Any]
) -> None:
    """The step's frozen weights are 8 bits of their own: near the shipped encoder, not equal."""
    batch = make_batch(bundle)
    _, losses, vectors = step.run(batch, step.initial_state(adapter), HYPER)
    cosines = (vectors[:5] * batch.anchor).sum(axis=1)
    assert cosines.min() > 0.97
    assert losses.anchor_loss == pytest.approx(1 - cosines.mean(), abs=1e-5)


def test_it_is_adamw_that_moves(bundle: Path, step: LocalStep, adapter: dict[str, Any]) -> None:
    """Decoupled Weight Decay Regularization, algorithm 2, from the moments that come out."""
    hyper = dataclasses.replace(HYPER, weight_decay=0.1, beta1=0.8)
    before, _, _ = step.run(make_batch(bundle), step.initial_state(adapter), hyper)
    after, _, _ = step.run(make_batch(bundle), before, hyper)
    assert after.step == 2
    for name, value in before.online.items():
        first = after.first_moment[name] / (1 - 0.8**2)
        second = after.second_moment[name] / (1 - 0.999**2)
        expected = value * (1 - 1e-3 * 0.1) - 1e-3 * first / (np.sqrt(second) + 1e-8)
        np.testing.assert_allclose(after.online[name], expected, rtol=1e-4, atol=1e-7)


def test_a_learning_rate_of_zero_changes_nothing(
    bundle: Path, step: LocalStep, adapter: dict[str, Any]
) -> None:
    start = step.initial_state(adapter)
    hyper = dataclasses.replace(HYPER, learning_rate=0.0, weight_decay=0.5)
    state, _, _ = step.run(make_batch(bundle), start, hyper)
    for name, value in start.online.items():
        np.testing.assert_array_equal(state.online[name], value)


def test_padding_does_not_count(bundle: Path, step: LocalStep, adapter: dict[str, Any]) -> None:
    batch = make_batch(bundle)
    wider = dataclasses.replace(
        batch,
        online_ids=np.pad(batch.online_ids, ((0, 0), (0, 9)), constant_values=7),
        online_mask=np.pad(batch.online_mask, ((0, 0), (0, 9))),
    )
    found = [step.run(b, step.initial_state(adapter), HYPER)[1].loss for b in (batch, wider)]
    assert found[0] == pytest.approx(found[1], rel=1e-4)


def test_the_opened_result_counts_by_its_weight(
    bundle: Path, step: LocalStep, adapter: dict[str, Any]
) -> None:
    shown = unit(5, 3, DIMENSION, seed=1)
    batch = make_batch(
        bundle,
        shown=shown,
        shown_mask=np.ones((5, 3), np.float32),
        opened=np.array([0, 1, 2, 0, 1]),
        opened_weight=np.array([1, 1, 0, 0, 0], np.float32),
    )
    hyper = dataclasses.replace(HYPER, opened_loss_weight=1.0)
    _, losses, vectors = step.run(batch, step.initial_state(adapter), hyper)
    scores = np.einsum("bd,bsd->bs", vectors[:5], shown)[:2] / 0.05
    cross = np.log(np.exp(scores).sum(1)) - scores[[0, 1], [0, 1]]
    assert losses.opened_loss == pytest.approx(cross.mean(), rel=1e-3)
    assert losses.loss == pytest.approx(
        losses.view_loss + HYPER.anchor_weight * losses.anchor_loss + losses.opened_loss, rel=1e-5
    )


@pytest.mark.parametrize("count", [1, 2])
def test_small_batches(bundle: Path, step: LocalStep, adapter: dict[str, Any], count: int) -> None:
    batch = make_batch(bundle, count)
    state, losses, _ = step.run(batch, step.initial_state(adapter), HYPER)
    assert np.isfinite(losses.loss)
    assert all(np.isfinite(value).all() for value in state.online.values())


def test_half_precision_starts_where_single_does(step: LocalStep, adapter: dict[str, Any]) -> None:
    wide = {name: value.astype(np.float32) for name, value in adapter.items()}
    for name, value in step.initial_state(adapter).online.items():
        assert value.dtype == np.float32
        np.testing.assert_array_equal(value, step.initial_state(wide).online[name])


@pytest.mark.slow
def test_heads_start_as_the_bundle_says(byol: Path, adapter: dict[str, Any]) -> None:
    own = parse(Bundle.open(byol).read(TRAINING_STATE_FILE))
    state = LocalStep.open(byol).initial_state(adapter)
    assert state.online.keys() == own.keys() | adapter.keys()
    assert state.target.keys() == {n for n in state.online if not n.startswith("predictor.")}
    for name, value in own.items():
        np.testing.assert_array_equal(state.online[name], value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda name, v: {"adapter.other": v}, "does not train"),
        (lambda name, v: {name: v[:1]}, "expected float32"),
        (lambda name, v: {name: v.astype(np.float64)}, "float64"),
        (lambda name, v: {name: np.full_like(v, np.nan)}, "NaN"),
    ],
)
def test_an_adapter_of_another_encoder_is_refused(
    step: LocalStep,
    adapter: dict[str, Any],
    change: Callable[[str, Any], dict[str, Any]],
    message: str,
) -> None:
    name = sorted(adapter)[0]
    with pytest.raises(InvalidInputError, match=message):
        step.initial_state(adapter | change(name, adapter[name]))


def test_a_tensor_that_nobody_has_is_named(step: LocalStep, adapter: dict[str, Any]) -> None:
    name = sorted(adapter)[0]
    with pytest.raises(InvalidInputError, match="has a value for"):
        step.initial_state({n: v for n, v in adapter.items() if n != name})


@pytest.mark.parametrize(
    "changes",
    [
        {"online_ids": np.full((10, 4), 10**6)},
        {"prototypes": None},
        {"anchor": np.zeros((5, DIMENSION + 1), np.float32)},
        {"opened": np.zeros(4, np.int64)},
    ],
)
def test_a_batch_that_does_not_fit_is_refused(
    bundle: Path, step: LocalStep, adapter: dict[str, Any], changes: dict[str, Any]
) -> None:
    batch = make_batch(bundle)
    if "online_ids" in changes:
        changes = changes | {"online_mask": np.ones((10, 4), np.int64)}
    with pytest.raises(InvalidInputError, match="cannot take the batch"):
        step.run(dataclasses.replace(batch, **changes), step.initial_state(adapter), HYPER)


def test_a_bundle_without_a_step(tmp_path: Path) -> None:
    with pytest.raises(ArtifactNotFoundError, match="--training-step"):
        LocalStep.open(write_tiny_bundle(tmp_path / "bundle"))


def test_threads_are_counted_from_one(bundle: Path) -> None:
    with pytest.raises(InvalidInputError, match="num_threads"):
        LocalStep.open(bundle, num_threads=0)


def rewritten(bundle: Path, folder: Path, files: dict[str, bytes], **changes: Any) -> Path:
    """A copy of ``bundle`` with other ``files`` and a manifest that vouches for them."""
    opened = Bundle.open(bundle)
    content = {name: opened.read(name) for name in opened.manifest.files} | files
    manifest = opened.manifest._replace(files=file_entries(content), **changes)
    write_bundle(folder, manifest, content)
    return folder


def edited(bundle: Path, edit: Callable[[onnx.ModelProto], None]) -> dict[str, bytes]:
    model = onnx.load_from_string(Bundle.open(bundle).read(TRAINING_STEP_FILE))
    edit(model)
    return {TRAINING_STEP_FILE: model.SerializeToString()}


def described(**changes: Any) -> Callable[[onnx.ModelProto], None]:
    def edit(model: onnx.ModelProto) -> None:
        entry = next(item for item in model.metadata_props if item.key == METADATA_KEY)
        entry.value = json.dumps(json.loads(entry.value) | changes)

    return edit


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"space_id": "space-other"}, SpaceMismatchError, "space-other"),
        ({"encoder_sha256": "ab" * 32}, CorruptArtifactError, "made for the encoder"),
        ({"dimension": 47}, CorruptArtifactError, "dimensions"),
        ({"version": 2}, UnsupportedVersionError, "version is 2"),
        ({"format": "other"}, CorruptArtifactError, "format"),
        ({"objective": "simclr"}, CorruptArtifactError, "objective"),
        ({"views": 4}, CorruptArtifactError, "4 views"),
        ({"target_views": 2}, CorruptArtifactError, "2 target views"),
        ({"state": []}, CorruptArtifactError, "ships"),
        ({"state": [3]}, CorruptArtifactError, "an object"),
        (
            {"state": [{"name": "a", "shape": [0], "target": True, "ships": True}]},
            CorruptArtifactError,
            "shape",
        ),
        (
            {"state": [{"name": "a", "shape": [2], "target": 1, "ships": True}]},
            CorruptArtifactError,
            "true or false",
        ),
        (
            {"state": [{"name": "a", "shape": [2], "target": True, "ships": True}]},
            CorruptArtifactError,
            "is unknown|is missing",
        ),
    ],
)
def test_a_description_that_does_not_hold_is_refused(
    bundle: Path,
    tmp_path: Path,
    changes: dict[str, Any],
    error: type[PocketQueryError],
    message: str,
) -> None:
    files = edited(bundle, described(**changes))
    with pytest.raises(error, match=message):
        LocalStep.open(rewritten(bundle, tmp_path / "bundle", files))


def lengthen_a_tensor(model: onnx.ModelProto) -> None:
    entry = next(item for item in model.metadata_props if item.key == METADATA_KEY)
    content = json.loads(entry.value)
    content["state"][0]["shape"][0] += 1
    entry.value = json.dumps(content)


def rename_an_output(model: onnx.ModelProto) -> None:
    output = next(item for item in model.graph.output if item.name == "vectors")
    node = next(node for node in model.graph.node if "vectors" in node.output)
    node.output[:] = ["renamed" if name == "vectors" else name for name in node.output]
    output.name = "renamed"


def forget_the_description(model: onnx.ModelProto) -> None:
    del model.metadata_props[:]


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lengthen_a_tensor, r"is tensor\(float\) .*, expected tensor\(float\)"),
        (rename_an_output, "output 'renamed' is unknown"),
        (forget_the_description, "no metadata"),
    ],
)
def test_another_graph_is_refused(
    bundle: Path, tmp_path: Path, edit: Callable[[onnx.ModelProto], None], message: str
) -> None:
    with pytest.raises(CorruptArtifactError, match=message):
        LocalStep.open(rewritten(bundle, tmp_path / "bundle", edited(bundle, edit)))


@pytest.mark.parametrize("data", [b"", b"no graph", bytes(1000)])
def test_bytes_that_are_no_graph_are_refused(bundle: Path, tmp_path: Path, data: bytes) -> None:
    with pytest.raises(CorruptArtifactError):
        LocalStep.open(rewritten(bundle, tmp_path / "bundle", {TRAINING_STEP_FILE: data}))


def test_a_step_that_was_changed_on_disk_is_refused(bundle: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(bundle, tmp_path / "copy"))
    data = bytearray((copy / TRAINING_STEP_FILE).read_bytes())
    data[len(data) // 2] ^= 1
    (copy / TRAINING_STEP_FILE).write_bytes(data)
    with pytest.raises(CorruptArtifactError, match="SHA-256"):
        LocalStep.open(copy)


@pytest.mark.slow
def test_a_state_that_does_not_fit_is_corrupt(
    byol: Path, adapter: dict[str, Any], tmp_path: Path
) -> None:
    own = parse(Bundle.open(byol).read(TRAINING_STATE_FILE))
    name = sorted(own)[0]
    bad = serialize(own | {name: np.full_like(own[name], np.inf)})
    step = LocalStep.open(rewritten(byol, tmp_path / "bundle", {TRAINING_STATE_FILE: bad}))
    with pytest.raises(CorruptArtifactError, match="infinity"):
        step.initial_state(adapter)

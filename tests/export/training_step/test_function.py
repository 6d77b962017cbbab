"""The pure function against its eager twin: modules, autograd and torch.optim.AdamW."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from pocketquery.export.adapter import adapter_tensors
from pocketquery.export.onnx_graph import build_graph
from pocketquery.export.settings import Objective
from pocketquery.export.training_step.function import LOSSES, StepShape, training_step
from pocketquery.export.training_step.inputs import BatchSizes, random_batch, start_state
from pocketquery.export.training_step.model import EncoderShape
from pocketquery.export.training_step.reference import ReferenceStep
from pocketquery.export.training_step.storage import FROZEN, traced_frozen
from pocketquery.export.training_step.tensors import StepTensors, divide
from pocketquery.server.modeling import SentenceEncoder
from tests.tiny_models import electra_teacher

Arrays = dict[str, Any]

SIZES = BatchSizes(batch=16, length=7, target_length=5, prototypes=9, shown=3)


def _step(
    student: SentenceEncoder, objective: Objective, part: str, views: int
) -> tuple[StepShape, StepTensors]:
    tensors = divide(student, adapter_tensors(build_graph(student)), objective, part)
    trained, target = tuple(tensors.trained), tuple(tensors.target)
    return StepShape(EncoderShape.of(student), objective, views, trained, target), tensors


def _run(shape: StepShape, tensors: StepTensors, given: Arrays) -> Arrays:
    frozen = {
        name.removeprefix(FROZEN): torch.from_numpy(np.array(value))
        for name, value in traced_frozen(tensors).items()
    }
    inputs = {name: torch.from_numpy(np.array(value)) for name, value in given.items()}
    return {name: value.numpy() for name, value in training_step(shape, frozen, inputs).items()}


def _batch(shape: StepShape, student: SentenceEncoder, seed: int, **changes: float) -> Arrays:
    batch = random_batch(shape, student.dimension, len(student.tokenizer), SIZES, seed)
    return batch | {name: np.array(value, np.float32) for name, value in changes.items()}


@pytest.fixture
def electra() -> SentenceEncoder:
    return electra_teacher()


@pytest.mark.parametrize(
    ("name", "objective", "part", "views"),
    [
        ("headed_student", "index_byol", "adapter", 2),
        ("headed_student", "index_byol", "top", 2),
        ("headed_student", "index_byol", "all", 2),
        ("headed_student", "byol", "adapter", 2),
        ("student", "byol", "top", 4),
        ("cls_student", "byol", "all", 4),
        ("xlmr_student", "index_byol", "all", 2),
        ("electra", "index_byol", "all", 2),
    ],
)
def test_five_steps_equal_the_twin_s(
    name: str, objective: Objective, part: str, views: int, request: pytest.FixtureRequest
) -> None:
    student: SentenceEncoder = request.getfixturevalue(name)
    shape, tensors = _step(student, objective, part, views)
    twin, state = ReferenceStep(student, shape, tensors), start_state(shape, tensors)
    for step in range(5):
        batch = _batch(shape, student, step, step=step + 1, ema_rate=0.9)
        found, expected = _run(shape, tensors, batch | state), twin.run(batch)
        for loss in LOSSES:
            assert found[loss] == pytest.approx(expected[loss], abs=2e-5), (step, loss)
        np.testing.assert_allclose(found["vectors"], expected["vectors"], atol=2e-5)
        state = {key: found[f"next.{key}"] for key in state}
    reached = twin.state()
    assert reached.keys() == state.keys()
    for kind in ("online", "target", "first_moment", "second_moment"):
        names = [key for key in state if key.startswith(kind + ".")]
        left = np.concatenate([state[key].ravel() for key in names])
        right = np.concatenate([reached[key].ravel() for key in names])
        assert np.linalg.norm(left - right) <= 1e-5 * np.linalg.norm(right), kind


def test_the_loss_is_the_weighted_sum_of_its_terms(student: SentenceEncoder) -> None:
    shape, tensors = _step(student, "index_byol", "adapter", 2)
    state = start_state(shape, tensors)
    weights = {"anchor_weight": 0.25, "opened_loss_weight": 2.0}
    found = _run(shape, tensors, _batch(shape, student, 0, **weights) | state)
    total = found["view_loss"] + 0.25 * found["anchor_loss"] + 2 * found["opened_loss"]
    assert found["loss"] == pytest.approx(total, rel=1e-6)


def test_terms_can_be_switched_off_and_left_empty(student: SentenceEncoder) -> None:
    shape, tensors = _step(student, "index_byol", "adapter", 2)
    batch = _batch(shape, student, 0, anchor_weight=0, opened_loss_weight=0)
    rows = SIZES.batch
    batch["shown"] = np.zeros((rows, 1, student.dimension), np.float32)
    batch["shown_mask"] = np.zeros((rows, 1), np.float32)
    batch["opened"] = np.zeros(rows, np.int64)
    batch["opened_weight"] = np.zeros(rows, np.float32)
    batch["prototypes"] = batch["prototypes"][:, :1]
    found = _run(shape, tensors, batch | start_state(shape, tensors))
    assert all(np.isfinite(value).all() for value in found.values())
    assert found["opened_loss"] == 0
    assert found["view_loss"] == 0  # one document leaves nothing to rank
    assert all(not found[f"next.first_moment.{name}"].any() for name in shape.trained)


def test_without_gradient_nothing_but_the_decay_moves(student: SentenceEncoder) -> None:
    shape, tensors = _step(student, "index_byol", "adapter", 2)
    off = {"learning_rate": 0.5, "weight_decay": 0.1, "opened_loss_weight": 0, "anchor_weight": 0}
    batch = _batch(shape, student, 0, **off)
    batch["prototypes"] = batch["prototypes"][:, :1]
    found = _run(shape, tensors, batch | start_state(shape, tensors))
    for name in shape.trained:
        kept = tensors.trained[name] * np.float32(1 - 0.5 * 0.1)
        np.testing.assert_allclose(found[f"next.online.{name}"], kept, rtol=1e-6)


@pytest.mark.parametrize(("rate", "source"), [(1.0, "given"), (0.0, "next")])
def test_the_target_follows_at_the_rate_given(
    student: SentenceEncoder, rate: float, source: str
) -> None:
    shape, tensors = _step(student, "index_byol", "adapter", 2)
    state = start_state(shape, tensors)
    found = _run(shape, tensors, _batch(shape, student, 0, ema_rate=rate) | state)
    for name in shape.target:
        wanted = state[f"target.{name}"] if source == "given" else found[f"next.online.{name}"]
        np.testing.assert_array_equal(found[f"next.target.{name}"], wanted)


def test_twenty_steps_on_one_batch_lower_the_loss(headed_student: SentenceEncoder) -> None:
    shape, tensors = _step(headed_student, "index_byol", "adapter", 2)
    state, losses = start_state(shape, tensors), []
    for step in range(20):
        batch = _batch(shape, headed_student, 0, step=step + 1, learning_rate=3e-3)
        found = _run(shape, tensors, batch | state)
        state = {key: found[f"next.{key}"] for key in state}
        losses.append(float(found["loss"]))
    assert losses[-1] < 0.8 * losses[0]

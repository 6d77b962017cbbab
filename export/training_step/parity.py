"""The parity gate: a training step ships only if it agrees with the torch step.

Twenty steps of both from one start, on batches of two shapes. Adam divides by the gradient's size,
so rounding of a gradient that is nearly zero grows to whole steps. So the agreement is judged over
all tensors of one kind together. Every loss and every number must be finite by itself. In the first
step gradients are exactly zero, all of them or those of the low-rank factors: that is where a lost
epsilon divides zero by zero.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import onnxruntime

from pocketquery.export.training_step.function import LOSSES, StepShape
from pocketquery.export.training_step.inputs import BatchSizes, random_batch, start_state
from pocketquery.export.training_step.reference import ReferenceStep
from pocketquery.export.training_step.tensors import StepTensors
from pocketquery.sdk.arrays import Tensors
from pocketquery.sdk.errors import ArtifactError
from pocketquery.server.modeling import SentenceEncoder

__all__ = ["LARGEST_ERROR", "StepAgreement", "check_training_step"]

STEPS = 20
LARGEST_ERROR = 1e-5
# Over a handful of queries batch statistics magnify rounding a hundredfold with every few steps
# (measured: 1e-1 after 20 steps of 4 queries, 1e-6 of 16), so the batches are as devices have them.
SIZES = (
    BatchSizes(batch=16, length=9, target_length=7, prototypes=13, shown=3),
    BatchSizes(batch=12, length=6, target_length=10, prototypes=8, shown=1),
)


@dataclass(frozen=True)
class StepAgreement:
    """How near an exported step is to torch after ``steps`` steps.

    Attributes:
        steps: made by both.
        state_error: the largest relative L2 difference of online, target and moments.
        loss_error: the largest difference of a loss, relative to the losses' size or 1.
        unmoved: share of the trained numbers whose gradient was exactly zero in the first step.
    """

    steps: int
    state_error: float
    loss_error: float
    unmoved: float


def check_training_step(
    model: bytes, student: SentenceEncoder, shape: StepShape, tensors: StepTensors
) -> StepAgreement:
    """Run the step and its torch twin side by side.

    Raises:
        ArtifactError: they differ by more than :data:`LARGEST_ERROR`, or something is not finite.
    """
    session = step_session(model)
    names = [output.name for output in session.get_outputs()]
    twin = ReferenceStep(student, shape, tensors)
    state = start_state(shape, tensors)
    loss_error = unmoved = 0.0
    for step in range(STEPS):
        batch = _batch(shape, student, step)
        results = dict(zip(names, session.run(None, batch | state), strict=True))
        _check_finite(results, step)
        state = {name: results[f"next.{name}"] for name in state}
        expected = twin.run(batch)
        loss_error = max(loss_error, _loss_error(results, expected))
        if step == 0:
            unmoved = _zeros(state, shape)
    agreement = StepAgreement(STEPS, _state_error(state, twin.state()), loss_error, unmoved)
    if not (agreement.state_error <= LARGEST_ERROR and agreement.loss_error <= LARGEST_ERROR):
        raise ArtifactError(
            "the exported training step does not compute what torch computes: after "
            f"{STEPS} steps the state differs by {agreement.state_error:.1e} and a loss by "
            f"{agreement.loss_error:.1e} (relative; expected {LARGEST_ERROR} or less). Nothing was "
            "written; report the architecture and the versions of torch and onnxscript"
        )
    return agreement


def step_session(model: bytes) -> onnxruntime.InferenceSession:
    """A session over the step as a device opens it: one thread."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def _batch(shape: StepShape, student: SentenceEncoder, step: int) -> dict[str, npt.NDArray[Any]]:
    vocabulary = int(student.backbone.config.vocab_size)
    sizes, most = SIZES[step % len(SIZES)], student.max_length
    sizes = dataclasses.replace(  # a student has no positions beyond its maximum length
        sizes, length=min(sizes.length, most), target_length=min(sizes.target_length, most)
    )
    batch = random_batch(shape, student.dimension, vocabulary, sizes, seed=step)
    batch["step"] = np.array(step + 1, np.float32)
    if step == 0 and "prototypes" in batch:  # one document and no other term: nothing to learn
        off = np.zeros((), np.float32)
        batch |= {"prototypes": batch["prototypes"][:, :1]}
        batch |= {"anchor_weight": off, "opened_loss_weight": off}
    return batch


def _check_finite(results: Tensors, step: int) -> None:
    # all() of isfinite, and not a maximum: comparisons with NaN are false, so a maximum may hide it
    for name, value in results.items():
        if not np.isfinite(value).all():
            raise ArtifactError(
                f"the exported training step gives {name} that is not finite in step {step + 1}; "
                "expected numbers. Nothing was written; report the versions of torch and onnxscript"
            )


def _loss_error(actual: Tensors, expected: Mapping[str, Any]) -> float:
    errors: list[float] = [
        abs(float(actual[name]) - expected[name]) / max(1.0, abs(expected[name])) for name in LOSSES
    ]
    vectors = np.abs(actual["vectors"] - expected["vectors"]).max()
    return max(*errors, float(vectors))


def _state_error(actual: Tensors, expected: Tensors) -> float:
    """The largest, over the kinds of state, of |found - expected| / |expected|."""
    kinds = {name.partition(".")[0] for name in expected}
    errors = []
    for kind in kinds:
        names = [name for name in expected if name.partition(".")[0] == kind]
        difference = sum(_square(actual[name] - expected[name]) for name in names)
        errors.append(np.sqrt(difference / sum(_square(expected[name]) for name in names)))
    return float(np.max(errors))  # numpy's maximum is NaN where one of them is


def _square(values: npt.NDArray[Any]) -> float:
    return float(np.square(values.astype(np.float64)).sum())


def _zeros(state: Tensors, shape: StepShape) -> float:
    moments = [state[f"first_moment.{name}"] for name in shape.trained]
    zeros = sum(int((moment == 0).sum()) for moment in moments)
    return zeros / sum(int(moment.size) for moment in moments)

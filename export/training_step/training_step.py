"""``train_step.onnx``: one step of local training as a plain ONNX graph for stock onnxruntime.

Built from the student and the adapter of its bundle, held to torch by the parity gate, and written
into the bundle. ARCHITECTURE.md says what its inputs and outputs are; what trains and where it
starts, in the graph's own metadata.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt
import onnx
import torch

from pocketquery.client.training.step_description import FORMAT, METADATA_KEY, VERSION
from pocketquery.export.settings import TrainingOptions
from pocketquery.export.training_step.function import StepShape, training_step
from pocketquery.export.training_step.graph import trace_to_onnx
from pocketquery.export.training_step.inputs import slots
from pocketquery.export.training_step.model import EncoderShape
from pocketquery.export.training_step.parity import StepAgreement, check_training_step
from pocketquery.export.training_step.storage import FROZEN, store_frozen
from pocketquery.export.training_step.tensors import StepTensors, divide
from pocketquery.sdk.arrays import Floats
from pocketquery.sdk.bundle.manifest import (
    TRAINING_STATE_FILE,
    TRAINING_STEP_FILE,
)
from pocketquery.sdk.bundle.safetensors import serialize
from pocketquery.server.modeling import SentenceEncoder

__all__ = ["TrainingStep", "build_training_step"]


@dataclass(frozen=True)
class TrainingStep:
    """A step that passed the parity gate.

    Attributes:
        model: the ONNX file.
        state: initial float32 values of the trained tensors that the bundle's adapter does not
            hold; empty where only the adapter is trained.
        agreement: how near it is to torch.
    """

    model: bytes
    state: dict[str, Floats]
    agreement: StepAgreement

    def files(self) -> dict[str, bytes]:
        """The files a bundle carries for it, by name."""
        files = {TRAINING_STEP_FILE: self.model}
        if self.state:
            files[TRAINING_STATE_FILE] = serialize(self.state)
        return files


def build_training_step(
    student: SentenceEncoder,
    adapter: Mapping[str, npt.NDArray[Any]],
    options: TrainingOptions = TrainingOptions(),
    *,
    encoder_sha256: str,
    fixed: Mapping[str, npt.NDArray[Any]] | None = None,
) -> TrainingStep:
    """Build the step of ``student`` and check it against torch.

    Args:
        student: the distilled encoder the bundle was exported from, float32, on the CPU.
        adapter: the bundle's adapter, float16 or float32, by name.
        options: objective, trained part and views.
        encoder_sha256: of the ``encoder.onnx`` it belongs to, hexadecimal.
        fixed: the low-rank tensors that are constants of that graph
            (:func:`pocketquery.export.adapter.fixed_tensors`); they stay as they are.

    Raises:
        InvalidInputError: an adapter of another encoder.
        UnknownModelError: an architecture that is not supported.
        ArtifactError: what was exported does not compute what torch computes.
        MissingExtraError: the packages of the extra "export" are not installed.
    """
    student = student.eval()
    tensors = divide(student, adapter, options.objective, options.part, fixed)
    shape = StepShape(
        EncoderShape.of(student),
        options.objective,
        options.views,
        tuple(tensors.trained),
        tuple(tensors.target),
    )
    model = _graph(student, shape, tensors)
    description = _describe(student, shape, tensors, options.part, encoder_sha256)
    onnx.helper.set_model_props(model, {METADATA_KEY: json.dumps(description)})
    data: bytes = model.SerializeToString(deterministic=True)
    agreement = check_training_step(data, student, shape, tensors)
    state = {name: value for name, value in tensors.trained.items() if name not in adapter}
    return TrainingStep(data, state, agreement)


def _graph(student: SentenceEncoder, shape: StepShape, tensors: StepTensors) -> onnx.ModelProto:
    vocabulary = int(student.backbone.config.vocab_size)

    def function(inputs: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        frozen = {
            name.removeprefix(FROZEN): value
            for name, value in inputs.items()
            if name.startswith(FROZEN)
        }
        return training_step(shape, frozen, inputs)

    model = trace_to_onnx(function, slots(shape, tensors, student.dimension, vocabulary))
    store_frozen(model, tensors)
    model.graph.name = "pocketquery-training-step"
    return model


def _describe(
    student: SentenceEncoder,
    shape: StepShape,
    tensors: StepTensors,
    part: str,
    encoder_sha256: str,
) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "version": VERSION,
        "objective": shape.objective,
        "part": part,
        "views": shape.views,
        "target_views": shape.target_views,
        "dimension": student.dimension,
        "space_id": student.space_id,
        "encoder_sha256": encoder_sha256,
        "state": [
            {
                "name": name,
                "shape": list(value.shape),
                "target": name in shape.target,
                "ships": name not in tensors.heads,
            }
            for name, value in tensors.trained.items()
        ],
    }

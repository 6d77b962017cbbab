"""One local training step: a bundle's ``train_step.onnx`` in an ordinary onnxruntime session.

The graph holds everything: the passes of the online and the target network, the loss, gradients,
AdamW and the moving average. State goes in and comes out, so a step is a pure function and the
device needs nothing that it does not have for encoding.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pocketquery.client.training.step_description import StateTensor, StepDescription
from pocketquery.client.training.step_signature import check_step_signature
from pocketquery.client.training.step_values import (
    Hyperparameters,
    State,
    StepBatch,
    StepLosses,
    Tensors,
)
from pocketquery.sdk.arrays import Floats
from pocketquery.sdk.bundle.bundle import Bundle
from pocketquery.sdk.bundle.manifest import ENCODER_FILE, TRAINING_STATE_FILE, TRAINING_STEP_FILE
from pocketquery.sdk.bundle.safetensors import parse
from pocketquery.sdk.errors import (
    ArtifactNotFoundError,
    CorruptArtifactError,
    InvalidInputError,
    SpaceMismatchError,
)
from pocketquery.sdk.onnx_model import open_session
from pocketquery.sdk.validation import check_count

if TYPE_CHECKING:
    import onnxruntime

__all__ = ["Hyperparameters", "LocalStep", "State", "StepBatch", "StepLosses"]

_LOG_FATAL_ONLY = 4  # onnxruntime logs what it then also raises; the exception is enough
_SCALARS = ("loss", "view_loss", "anchor_loss", "opened_loss")


class LocalStep:
    """The training step of one encoder; made by :meth:`open`.

    Attributes:
        description: objective, part, views and the trained tensors.
    """

    def __init__(
        self, bundle: Bundle, session: onnxruntime.InferenceSession, description: StepDescription
    ) -> None:
        self.description = description
        self._bundle = bundle
        self._session = session
        self._outputs = [*_SCALARS, "vectors", *_state_names(description.state, "next.")]

    @classmethod
    def open(cls, bundle: Bundle | Path | str, *, num_threads: int = 1) -> LocalStep:
        """The training step in ``bundle``, an open bundle or its path.

        Args:
            bundle: where ``train_step.onnx`` lies, beside the encoder it belongs to.
            num_threads: threads inside one step.

        Raises:
            ArtifactNotFoundError: no such bundle, or it brings no training step.
            CorruptArtifactError: the graph is damaged, its inputs or outputs are not as it says,
                or it was made for another encoder.
            SpaceMismatchError: it was made for another space.
            UnsupportedVersionError: written in a newer version.
            InvalidInputError: ``num_threads`` below 1.
        """
        bundle = bundle if isinstance(bundle, Bundle) else Bundle.open(bundle)
        if TRAINING_STEP_FILE not in bundle:
            raise ArtifactNotFoundError(
                f"{bundle.path}: the bundle has no {TRAINING_STEP_FILE}, so this encoder cannot "
                "learn on the device; export it with: pocketquery export --training-step"
            )
        source = f"{bundle.path}: {TRAINING_STEP_FILE}"
        session = _open(bundle.read(TRAINING_STEP_FILE), num_threads, source)
        metadata = session.get_modelmeta().custom_metadata_map
        description = StepDescription.of_metadata(metadata, source)
        _check_bundle(description, bundle, source)
        check_step_signature(session, description, source)
        return cls(bundle, session, description)

    def initial_state(self, adapter: Mapping[str, NDArray[Any]]) -> State:
        """The state before the first step: target like online, moments zero.

        Args:
            adapter: the release to start from: float16 or float32 by name. What it does not name
                starts as the bundle's ``train_state.safetensors`` has it.

        Raises:
            InvalidInputError: a tensor the step does not train, of another shape or dtype, or not
                finite; a tensor that neither has.
            CorruptArtifactError: the bundle's own values are not as the step describes.
        """
        known = {tensor.name for tensor in self.description.state}
        if unknown := sorted(set(adapter) - known):
            raise InvalidInputError(
                f"the adapter has {unknown[0]!r}, which this step does not train (it trains "
                f"{self.description.part!r}: {', '.join(sorted(known))}); they are of different "
                "encoders"
            )
        own = self._own_values() if known - set(adapter) else {}
        online = {
            tensor.name: _start(tensor, adapter, own, str(self._bundle.path))
            for tensor in self.description.state
        }
        return State(
            online=online,
            target={t.name: online[t.name] for t in self.description.state if t.target},
            first_moment={name: np.zeros_like(value) for name, value in online.items()},
            second_moment={name: np.zeros_like(value) for name, value in online.items()},
        )

    def run(
        self, batch: StepBatch, state: State, hyper: Hyperparameters
    ) -> tuple[State, StepLosses, Floats]:
        """One step.

        Args:
            batch: what to learn from.
            state: of :meth:`initial_state` or the step before; left as it is.
            hyper: the scalars.

        Returns:
            The state after the step, the losses before it, and the online encoder's vectors
            before it: float32 (V * B, d), L2-normalised.

        Raises:
            InvalidInputError: the batch is not of the graph's shapes, or its ids are of another
                vocabulary.
        """
        feed = _batch_feed(batch) | _scalar_feed(hyper, state.step + 1) | _state_feed(state)
        try:
            outputs = self._session.run(self._outputs, feed)
        except Exception as error:  # onnxruntime's exceptions share no base class
            shapes = {name: value.shape for name, value in _batch_feed(batch).items()}
            raise InvalidInputError(
                f"the training step of {self._bundle.path} cannot take the batch {shapes}; "
                f"expected {self.description.views} online and {self.description.target_views} "
                f"target views of each query, and this encoder's tokens. onnxruntime says: {error}"
            ) from error
        by_name = dict(zip(self._outputs, outputs, strict=True))
        losses = StepLosses(*(float(by_name[name]) for name in _SCALARS))
        return _next_state(by_name, self.description.state, state.step + 1), losses, outputs[4]

    def _own_values(self) -> dict[str, NDArray[Any]]:
        if TRAINING_STATE_FILE not in self._bundle:
            return {}
        return parse(self._bundle.read(TRAINING_STATE_FILE), TRAINING_STATE_FILE)


def _open(model: bytes, num_threads: int, source: str) -> onnxruntime.InferenceSession:
    import onnxruntime  # here: it takes 25 ms, and a device that only searches needs none of it

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = check_count(num_threads, "num_threads")
    options.inter_op_num_threads = 1
    options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
    options.log_severity_level = _LOG_FATAL_ONLY
    # A plan made for one length does not serve the next. The arena stays: without it the heap was
    # left in pieces, and 3x384 peaked at 430 MB instead of 250 over batches of varying length.
    options.enable_mem_pattern = False
    return open_session(model, options, source)


def _check_bundle(description: StepDescription, bundle: Bundle, source: str) -> None:
    space, encoder = bundle.manifest.space, bundle.manifest.files[ENCODER_FILE].sha256
    if description.space_id != space.id:
        raise SpaceMismatchError.between(source, description.space_id, "the encoder", space.id)
    if description.encoder_sha256 != encoder or description.dimension != space.dimension:
        raise CorruptArtifactError(
            f"{source} was made for the encoder {description.encoder_sha256} with "
            f"{description.dimension} dimensions, the bundle's is {encoder} with "
            f"{space.dimension}; export the bundle again"
        )


def _start(
    tensor: StateTensor,
    adapter: Mapping[str, NDArray[Any]],
    own: Mapping[str, NDArray[Any]],
    source: str,
) -> Floats:
    """The first value of ``tensor``: the adapter's, else the bundle's own."""
    is_given = tensor.name in adapter
    value = adapter.get(tensor.name, own.get(tensor.name))
    error = InvalidInputError if is_given or value is None else CorruptArtifactError
    where = "the adapter" if is_given else f"{source}: {TRAINING_STATE_FILE}"
    if value is None:
        raise error(f"neither the adapter nor {where} has a value for {tensor.name!r}")
    if value.shape != tensor.shape or value.dtype not in (np.float16, np.float32):
        raise error(
            f"{where}: {tensor.name!r} is {value.dtype} {list(value.shape)}, expected float32 "
            f"{list(tensor.shape)}"
        )
    if not np.isfinite(value).all():
        raise error(f"{where}: {tensor.name!r} holds NaN or infinity, expected finite numbers")
    return np.ascontiguousarray(value, np.float32).reshape(tensor.shape)


def _state_names(state: tuple[StateTensor, ...], prefix: str) -> list[str]:
    names = []
    for kind in ("online", "target", "first_moment", "second_moment"):
        names += [f"{prefix}{kind}.{t.name}" for t in state if t.target or kind != "target"]
    return names


def _batch_feed(batch: StepBatch) -> dict[str, NDArray[Any]]:
    values = {field.name: getattr(batch, field.name) for field in fields(batch)}
    clean = values.pop("clean")
    if clean is not None:  # a mistyped view that is taught is not held to the anchor
        held = (clean < len(clean))[:, None]
        values["anchor"] = np.where(held, batch.anchor, np.float32(0))
    return {name: value for name, value in values.items() if value is not None}


def _scalar_feed(hyper: Hyperparameters, step: int) -> dict[str, NDArray[Any]]:
    values = {field.name: getattr(hyper, field.name) for field in fields(hyper)} | {"step": step}
    return {name: np.array(value, np.float32) for name, value in values.items()}


def _state_feed(state: State) -> Tensors:
    kinds = ("online", "target", "first_moment", "second_moment")
    return {f"{kind}.{n}": value for kind in kinds for n, value in getattr(state, kind).items()}


def _next_state(outputs: Mapping[str, Any], state: tuple[StateTensor, ...], step: int) -> State:
    def of(kind: str, tensors: list[StateTensor]) -> Tensors:
        return {tensor.name: outputs[f"next.{kind}.{tensor.name}"] for tensor in tensors}

    every = list(state)
    return State(
        online=of("online", every),
        target=of("target", [tensor for tensor in every if tensor.target]),
        first_moment=of("first_moment", every),
        second_moment=of("second_moment", every),
        step=step,
    )

"""The encoder's ONNX graph in an onnxruntime session: token ids in, one vector out.

Decisions, all measured:

- One text a call, unpadded. Dynamic int8 takes its activation scale over the whole batch, so a
  vector would otherwise depend on its neighbours and on their padding.
- The adapter's tensors are bound when the session is made (``add_initializer``), so they cost a
  call nothing; feeding them as inputs would add a copy and a dictionary entry for each. Another
  adapter is therefore another session, made beside this one.
- The model is kept for that: onnxruntime's session keeps its bytes anyway.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from pocketquery.sdk.bundle.manifest import ENCODER_FILE
from pocketquery.sdk.errors import CorruptArtifactError
from pocketquery.sdk.onnx_model import AnonymousFile, open_session
from pocketquery.sdk.validation import check_count

if TYPE_CHECKING:
    import onnxruntime

    from pocketquery.sdk.arrays import NDArray

__all__ = ["Graph"]

_INPUTS = ("input_ids", "attention_mask")
_OUTPUT = "sentence_embedding"
_LOG_FATAL_ONLY = 4  # onnxruntime logs what it then also raises; the exception is enough


class Graph:
    """A session over ``encoder.onnx``. Calls may run in parallel threads.

    Args:
        model: the ONNX file.
        adapter: values for overridable initialisers by name, float16 or float32; those not named
            keep the graph's defaults.
        dimension: the dimension the output must have.
        max_length: the most ids a call will bring.
        num_threads: threads inside one call.
        source: how to call the bundle in an error.

    Raises:
        CorruptArtifactError: onnxruntime cannot load the graph; its inputs or output are not as a
            bundle's; or an adapter tensor has no counterpart of its shape and type.
        InvalidInputError: ``num_threads`` is below 1.
    """

    def __init__(
        self,
        model: bytes | AnonymousFile,
        *,
        adapter: Mapping[str, NDArray[Any]],
        dimension: int,
        max_length: int,
        num_threads: int,
        source: str,
    ) -> None:
        num_threads = check_count(num_threads, "num_threads")
        self._model = model
        self._dimension = dimension
        self._max_length = max_length
        self._num_threads = num_threads
        self._source = source
        tensors = {name: _float32(name, value, source) for name, value in adapter.items()}
        # The session reads the adapter in place, as long as it lives, so both are referenced.
        self._adapter = _bindable(tensors)
        self._session = _open(model, self._adapter, num_threads, source)
        _check_signature(self._session, dimension, source)
        self._mask = np.ones((1, max_length), dtype=np.int64)
        self._mask.setflags(write=False)

    @property
    def adapter(self) -> dict[str, NDArray[np.float32]]:
        """Copies of the tensors that are bound, by name; those left at their defaults are not."""
        return {name: np.array(value.numpy()) for name, value in self._adapter.items()}

    @property
    def adapter_names(self) -> frozenset[str]:
        """The names of every tensor an adapter may set."""
        return frozenset(slot.name for slot in self._session.get_overridable_initializers())

    def with_adapter(self, adapter: Mapping[str, NDArray[Any]]) -> Graph:
        """The same encoder with another adapter; this one stays as it is. Errors as the class's."""
        return Graph(
            self._model,
            adapter=adapter,
            dimension=self._dimension,
            max_length=self._max_length,
            num_threads=self._num_threads,
            source=self._source,
        )

    def __reduce__(self) -> tuple[Callable[[], Graph], tuple[()]]:
        """A copy, or one in another process, with the model's own bytes: no file is needed."""
        make = partial(
            Graph,
            self._model if isinstance(self._model, bytes) else bytes(self._model.view()),
            adapter=self.adapter,
            dimension=self._dimension,
            max_length=self._max_length,
            num_threads=self._num_threads,
            source=self._source,
        )
        return make, ()

    def embed(self, ids: list[int]) -> NDArray[np.float32]:
        """The vector of one text.

        Args:
            ids: its token ids, special tokens included.

        Returns:
            float32 (dimension,), L2-normalised by the graph.

        Raises:
            CorruptArtifactError: the graph cannot take the ids (they are of another vocabulary).
        """
        feed = {
            "input_ids": np.array([ids], dtype=np.int64),  # (1, length)
            "attention_mask": self._mask[:, : len(ids)],  # (1, length)
        }
        try:
            vector: NDArray[np.float32] = self._session.run([_OUTPUT], feed)[0][0]
        except Exception as error:  # onnxruntime's exceptions share no base class
            raise CorruptArtifactError(
                f"{self._source}: the encoder cannot take the tokenizer's ids (largest "
                f"{max(ids, default=0)}); they are of different vocabularies. Export the bundle "
                f"again. onnxruntime says: {error}"
            ) from error
        if vector.shape != (self._dimension,):
            raise CorruptArtifactError(
                f"{self._source}: the encoder gives a vector of shape {vector.shape}, the manifest "
                f"says {self._dimension} dimensions"
            )
        return vector


def _open(
    model: bytes | AnonymousFile,
    adapter: Mapping[str, onnxruntime.OrtValue],
    num_threads: int,
    source: str,
) -> onnxruntime.InferenceSession:
    try:
        session = open_session(model, _options(adapter, num_threads), f"{source}: {ENCODER_FILE}")
    except CorruptArtifactError:
        if adapter:  # find out whether it was the adapter, and which tensor
            _check_adapter(_open(model, {}, num_threads, source), adapter, source)
        raise
    _check_adapter(session, adapter, source)
    return session


def _options(
    adapter: Mapping[str, onnxruntime.OrtValue], num_threads: int
) -> onnxruntime.SessionOptions:
    import onnxruntime  # here: it takes 25 ms, and help or a wrong path need none of it

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = num_threads
    options.inter_op_num_threads = 1
    options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
    options.log_severity_level = _LOG_FATAL_ONLY
    # A bundle's int8 is dynamic: looking for pairs of quantisation and its reverse, to fold them,
    # takes 3 of a session's 19 ms and finds none; the vectors are the same to the bit.
    options.add_session_config_entry("session.disable_quant_qdq", "1")
    for name, value in adapter.items():
        options.add_initializer(name, value)
    return options


def _bindable(tensors: Mapping[str, NDArray[np.float32]]) -> dict[str, onnxruntime.OrtValue]:
    if not tensors:
        return {}
    import onnxruntime

    return {
        name: onnxruntime.OrtValue.ortvalue_from_numpy(value) for name, value in tensors.items()
    }


def _float32(name: str, value: NDArray[Any], source: str) -> NDArray[np.float32]:
    if value.dtype not in (np.float16, np.float32):
        raise CorruptArtifactError(
            f"{source}: adapter tensor {name!r} is {value.dtype}, expected float16 or float32"
        )
    if not np.isfinite(value).all():
        raise CorruptArtifactError(f"{source}: adapter tensor {name!r} holds NaN or infinity")
    return np.array(value, dtype=np.float32, order="C")  # a copy: the session will point into it


def _check_adapter(
    session: onnxruntime.InferenceSession, adapter: Mapping[str, onnxruntime.OrtValue], source: str
) -> None:
    # onnxruntime takes a name it does not know, or another shape, without a word.
    slots = {slot.name: tuple(slot.shape) for slot in session.get_overridable_initializers()}
    for name, value in adapter.items():
        if name not in slots:
            known = ", ".join(sorted(slots)) or "none"
            raise CorruptArtifactError(
                f"{source}: the adapter has a tensor {name!r}, the encoder takes: {known}; "
                "they are of different encoders"
            )
        shape = tuple(value.shape())
        if slots[name] != shape:
            raise CorruptArtifactError(
                f"{source}: adapter tensor {name!r} has shape {shape}, the encoder takes "
                f"{slots[name]}; they are of different encoders"
            )


def _check_signature(session: onnxruntime.InferenceSession, dimension: int, source: str) -> None:
    inputs = {item.name: item.type for item in session.get_inputs()}
    if inputs != dict.fromkeys(_INPUTS, "tensor(int64)"):
        raise CorruptArtifactError(
            f"{source}: encoder.onnx takes {inputs}, expected int64 {' and '.join(_INPUTS)}"
        )
    outputs = {item.name: item for item in session.get_outputs()}
    if _OUTPUT not in outputs:
        raise CorruptArtifactError(
            f"{source}: encoder.onnx gives {sorted(outputs)}, expected {_OUTPUT}"
        )
    output = outputs[_OUTPUT]
    # An exporter may leave the last axis symbolic (a text); then the first call tells.
    if output.type != "tensor(float)" or len(output.shape) != 2:
        raise CorruptArtifactError(
            f"{source}: {_OUTPUT} is {output.type} {output.shape}, "
            f"expected float (batch, {dimension})"
        )
    if isinstance(output.shape[1], int) and output.shape[1] != dimension:
        raise CorruptArtifactError(
            f"{source}: {_OUTPUT} has {output.shape[1]} dimensions, the manifest says {dimension}"
        )

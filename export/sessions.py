"""Running a graph held in memory exactly as a device runs it: one thread, one text at a time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime

from pocketquery.sdk.arrays import Floats

__all__ = ["GraphSession"]


class GraphSession:
    """An onnxruntime session over a graph with the inputs ``input_ids`` and ``attention_mask``.

    Args:
        model: the graph.
        extra: further feeds of every call, say an adapter by name.
    """

    def __init__(self, model: onnx.ModelProto, extra: Mapping[str, Floats] | None = None) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        self._session = onnxruntime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        self._extra = dict(extra or {})

    def outputs(self, ids: Sequence[int]) -> list[Floats]:
        """All outputs for one text, unpadded."""
        feed = {
            "input_ids": np.array([ids], np.int64),
            "attention_mask": np.ones((1, len(ids)), np.int64),
        }
        results: list[Floats] = self._session.run(None, feed | self._extra)
        return results

    def encode_batch(self, ids: npt.NDArray[np.int64], mask: npt.NDArray[np.int64]) -> Floats:
        """Vectors of one padded batch, ids and mask (batch, length); float32 (batch, dim)."""
        feed = {"input_ids": ids, "attention_mask": mask}
        vectors: Floats = self._session.run(None, feed | self._extra)[0]
        return vectors

    def encode(self, texts: Iterable[Sequence[int]]) -> Floats:
        """Vectors of token id lists, one call each; float32 (texts, dim).

        One at a time because the scales of dynamic int8 are per tensor: a vector would otherwise
        change with the texts beside it.
        """
        return np.concatenate([self.outputs(ids)[0] for ids in texts])

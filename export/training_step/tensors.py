"""Which tensors a step trains, and the frozen rest in 8 bits.

Frozen weights are stored as int8 with one float32 scale a row (an output of a linear layer, an
entry of a table), symmetric, so that the step's file is about as large as the encoder's. Vectors
(biases, norms) stay float32. The key projection's bias is never trained: the softmax over keys does
not change with it, so its gradient is rounding alone, which Adam would blow up to whole steps.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from pocketquery.distill.pruning.product_codes import expand_codes, product_codes
from pocketquery.export.training_step.heads import initial_heads
from pocketquery.export.training_step.model import TABLES, WORDS, student_parameters
from pocketquery.sdk.arrays import Floats
from pocketquery.sdk.errors import InvalidInputError
from pocketquery.server.modeling import SentenceEncoder

__all__ = ["StepTensors", "dequantise", "divide", "quantise"]


@dataclass(frozen=True)
class StepTensors:
    """The tensors of one step, by name.

    Attributes:
        trained: initial values of the online network's trained tensors, heads last.
        heads: names among them that never ship and that the target may lack.
        frozen: float32 vectors and small matrices as they are.
        rows: int8 (rows, columns) of frozen matrices; of a product-quantised table its centroids.
        scales: float32 (rows, 1) of the same names.
        codes: uint8 (rows, places) of product-quantised tables, see product_codes.py.
    """

    trained: dict[str, Floats]
    heads: frozenset[str]
    frozen: dict[str, Floats]
    rows: dict[str, npt.NDArray[np.int8]]
    scales: dict[str, Floats]
    codes: dict[str, npt.NDArray[np.uint8]] = field(default_factory=dict)

    @property
    def target(self) -> list[str]:
        """The trained tensors that the target network has: all but the predictor's."""
        return [name for name in self.trained if not name.startswith("predictor.")]

    @property
    def tables(self) -> list[str]:
        """The frozen tables, which the step looks up in 8 bits."""
        return [name for name in TABLES if name in self.rows]

    def frozen_values(self) -> dict[str, Floats]:
        """Every frozen tensor as float32, the stored ones as the step sees them."""
        stored = {name: dequantise(self.rows[name], self.scales[name]) for name in self.rows}
        stored |= {name: expand_codes(codes, stored[name]) for name, codes in self.codes.items()}
        return self.frozen | stored


def quantise(matrix: Floats) -> tuple[npt.NDArray[np.int8], Floats]:
    """int8 rows in [-127, 127] and their float32 scales (rows, 1); a row of zeros has scale 1."""
    largest = np.abs(matrix).max(axis=1, keepdims=True)
    scales = np.where(largest > 0, largest / 127, 1).astype(np.float32)
    return np.rint(matrix / scales).clip(-127, 127).astype(np.int8), scales


def dequantise(rows: npt.NDArray[np.int8], scales: Floats) -> Floats:
    """The float32 matrix that ``rows`` and ``scales`` stand for."""
    return rows.astype(np.float32) * scales


def divide(
    student: SentenceEncoder,
    adapter: Mapping[str, npt.NDArray[Any]],
    objective: str,
    part: str,
    fixed: Mapping[str, npt.NDArray[Any]] | None = None,
) -> StepTensors:
    """The tensors of a step over ``student`` with ``adapter``; ``fixed`` are the low-rank tensors
    that are constants of the encoder's graph.

    Raises:
        InvalidInputError: no such part, an adapter that does not fit the student, or none where
            it is what is to be trained.
    """
    own = {
        name: value.detach().cpu().float().numpy()
        for name, value in student_parameters(student).items()
    }
    # In order of name: a file has its tensors in another order than a graph its inputs.
    trainable = {name: np.asarray(adapter[name], np.float32) for name in sorted(adapter)}
    low_rank = trainable | {n: np.asarray(v, np.float32) for n, v in sorted((fixed or {}).items())}
    _check_adapter(low_rank, own)
    chosen = _chosen(part, own, trainable)
    heads = initial_heads(student.dimension) if objective == "byol" else {}
    ups = (value for name, value in low_rank.items() if name.endswith(".up"))
    if part != "adapter" and not any(value.any() for value in ups):
        low_rank = {}
    rest = {name: value for name, value in (own | low_rank).items() if name not in chosen}
    codes: dict[str, npt.NDArray[np.uint8]] = {}
    centroids: dict[str, Floats] = {}
    size = getattr(student.backbone.config, "vocabulary_subvector", None)
    if size is not None and WORDS in rest:
        codes[WORDS], centroids[WORDS] = product_codes(rest[WORDS], size)
    stored = {
        name: quantise(centroids.get(name, value))
        for name, value in rest.items()
        if name in TABLES or (value.ndim == 2 and name.endswith(".weight"))
    }
    return StepTensors(
        chosen | heads,
        frozenset(heads),
        {name: value for name, value in rest.items() if name not in stored},
        {name: rows for name, (rows, _) in stored.items()},
        {name: scales for name, (_, scales) in stored.items()},
        codes,
    )


def _chosen(
    part: str, own: Mapping[str, Floats], adapter: Mapping[str, Floats]
) -> dict[str, Floats]:
    if part == "adapter":
        if not adapter:
            raise InvalidInputError(
                "the encoder has no adapter, which is what this step would train; export it with "
                "an adapter rank above 0, or train another part"
            )
        return dict(adapter)
    layers = [int(name.split(".")[1]) for name in own if name.startswith("layers.")]
    last = f"layers.{max(layers)}."
    return {
        name: value
        for name, value in own.items()
        if (part == "all" or name.startswith((last, "head."))) and not name.endswith(".key.bias")
    }


def _check_adapter(adapter: Mapping[str, Floats], own: Mapping[str, Floats]) -> None:
    for name, value in adapter.items():
        layer, _, side = name.removeprefix("adapter.").rpartition(".")
        weight = own.get(f"{layer}.weight")
        other = adapter.get(f"adapter.{layer}.{'up' if side == 'down' else 'down'}")
        if weight is None or side not in ("down", "up") or other is None:
            raise InvalidInputError(
                f"the adapter has a tensor {name!r} without a counterpart in the student or in "
                "itself; expected the adapter of a bundle made from this student"
            )
        rank = value.shape[0] if side == "down" else value.shape[-1]
        expected = (rank, weight.shape[1]) if side == "down" else (weight.shape[0], rank)
        if value.shape != expected:
            raise InvalidInputError(
                f"adapter tensor {name!r} has shape {value.shape}, the student takes {expected}; "
                "they are of different encoders"
            )

"""The inputs of a step's graph, and batches of random ones to trace and to check it with."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from pocketquery.export.training_step.function import SCALARS, StepShape
from pocketquery.export.training_step.graph import Slot
from pocketquery.export.training_step.storage import Arrays, traced_frozen
from pocketquery.export.training_step.tensors import StepTensors

__all__ = ["BatchSizes", "HYPERPARAMETERS", "random_batch", "slots", "start_state"]

HYPERPARAMETERS = {
    "temperature": 0.05,
    "anchor_weight": 0.5,
    "opened_loss_weight": 1.0,
    "learning_rate": 1e-4,  # with 1e-3, BYOL's heads bounce so that rounding grows to 1e-2
    "weight_decay": 0.01,
    "beta1": 0.9,
    "beta2": 0.999,
    "epsilon": 1e-6,  # large enough to damp gradients that are rounding alone
    "ema_rate": 0.99,
    "step": 1.0,
}
"""Values that make every term of the step count."""


@dataclass(frozen=True)
class BatchSizes:
    """Queries, tokens of the online and the target views, prototypes and shown results a query."""

    batch: int = 5
    length: int = 11
    target_length: int = 7
    prototypes: int = 13
    shown: int = 3


_TRACED = BatchSizes()  # no two alike, so that no axis is taken for another


def random_batch(
    shape: StepShape, dimension: int, vocabulary: int, sizes: BatchSizes, seed: int
) -> Arrays:
    """A batch of random queries of random lengths, and the scalars, by input name."""
    rng = np.random.default_rng(seed)
    batch: Arrays = {}
    for side, views, length in (
        ("online", shape.views, sizes.length),
        ("target", shape.target_views, sizes.target_length),
    ):
        size = (views * sizes.batch, length)
        mask = np.arange(length) < rng.integers(1, length + 1, (size[0], 1))
        # 0 and 1 are the ids that padding has in the vocabularies we know.
        padding = shape.encoder.padding_id or 0
        ids = rng.integers(2, vocabulary, size)
        batch[f"{side}_ids"] = np.where(mask, ids, padding).astype(np.int64)
        batch[f"{side}_mask"] = mask.astype(np.int64)
    if shape.objective == "index_byol":
        batch["prototypes"] = _unit_rows(rng, sizes.batch, sizes.prototypes, dimension)
    batch["anchor"] = _unit_rows(rng, sizes.batch, dimension)
    batch["shown"] = _unit_rows(rng, sizes.batch, sizes.shown, dimension)
    batch["opened"] = rng.integers(0, sizes.shown, sizes.batch)
    batch["opened_weight"] = (rng.random(sizes.batch) < 0.5).astype(np.float32)
    batch["shown_mask"] = np.ones((sizes.batch, sizes.shown), np.float32)
    return batch | {name: np.array(HYPERPARAMETERS[name], np.float32) for name in SCALARS}


def start_state(shape: StepShape, tensors: StepTensors) -> Arrays:
    """The state before the first step, by input name."""
    state: Arrays = {f"online.{name}": value for name, value in tensors.trained.items()}
    state |= {f"target.{name}": tensors.trained[name] for name in shape.target}
    for moment in ("first_moment", "second_moment"):
        state |= {f"{moment}.{name}": np.zeros_like(v) for name, v in tensors.trained.items()}
    return state


def slots(shape: StepShape, tensors: StepTensors, dimension: int, vocabulary: int) -> list[Slot]:
    """What the step is traced with, in this order: batch, scalars, state, frozen tensors."""
    example = random_batch(shape, dimension, vocabulary, _TRACED, seed=0)
    example |= start_state(shape, tensors) | traced_frozen(tensors)
    axes = _axes(shape)
    return [
        Slot(name, torch.from_numpy(np.array(value)), axes.get(name, ("",) * value.ndim))
        for name, value in example.items()
    ]


def _axes(shape: StepShape) -> dict[str, tuple[str, ...]]:
    online = (f"{shape.views}*batch", "length")
    target = ("batch" if shape.target_views == 1 else "2*batch", "target_length")
    return {
        "online_ids": online,
        "online_mask": online,
        "target_ids": target,
        "target_mask": target,
        "prototypes": ("batch", "prototypes", ""),
        "anchor": ("batch", ""),
        "shown": ("batch", "shown", ""),
        "opened": ("batch",),
        "opened_weight": ("batch",),
        "shown_mask": ("batch", "shown"),
    }


def _unit_rows(rng: np.random.Generator, *shape: int) -> npt.NDArray[np.float32]:
    rows = rng.normal(size=shape).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=-1, keepdims=True)
    return rows

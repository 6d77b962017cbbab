"""The inputs and outputs of a training step: scalars, batch, state, losses."""

from __future__ import annotations

from dataclasses import dataclass

from pocketquery.sdk.arrays import Floats, Integers, Rows

__all__ = ["Hyperparameters", "State", "StepBatch", "StepLosses", "Tensors"]

Tensors = dict[str, Floats]


@dataclass(frozen=True)
class Hyperparameters:
    """Scalars of a step, inputs of the graph."""

    temperature: float = 0.05
    anchor_weight: float = 5.0
    opened_loss_weight: float = 0.0
    learning_rate: float = 1e-3
    weight_decay: float = 0.0
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8
    ema_rate: float = 0.99


@dataclass(frozen=True)
class StepBatch:
    """What one step learns from: B queries, V online and T target views, view-major rows.

    Attributes:
        online_ids: int64 (V * B, L), padded at the end.
        online_mask: int64 (V * B, L), 1 = a token.
        target_ids: int64 (T * B, M).
        target_mask: int64 (T * B, M).
        anchor: float32 (B, d), the shipped encoder's vectors of the clean queries.
        prototypes: float32 (B, K, d); None where the objective has none.
        shown: float32 (B, S, d), documents that were shown; S >= 1, zeros where there are none.
        shown_mask: float32 (B, S), 1 = a document.
        opened: int64 (B,), which of them was opened.
        opened_weight: float32 (B,), 0 where none was.
        clean: (B,), in which row of the online views each query stands as it was typed; the first B
            by default. One that does not stand there is not held to its anchor, and adds 1 to the
            mean that is the anchor's loss.
    """

    online_ids: Integers
    online_mask: Integers
    target_ids: Integers
    target_mask: Integers
    anchor: Floats
    prototypes: Floats | None
    shown: Floats
    shown_mask: Floats
    opened: Integers
    opened_weight: Floats
    clean: Rows | None = None


@dataclass(frozen=True)
class State:
    """Everything a step changes: float32 tensors by name, and how many steps were done."""

    online: Tensors
    target: Tensors
    first_moment: Tensors
    second_moment: Tensors
    step: int = 0


@dataclass(frozen=True)
class StepLosses:
    """The total and its terms, before their weights."""

    loss: float
    view_loss: float
    anchor_loss: float
    opened_loss: float

"""The settings of a pretraining run."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from pocketquery.sdk.validation import SEED, check_fields, number, one_of, whole

__all__ = ["PretrainingConfig"]

_MIXTURES = ("sum", "turns")
_SCHEDULES = ("linear", "constant")

# What changes how a run is watched or fed, and not what it computes.
_INDIFFERENT = ("checkpoint_every", "log_every", "diagnose_every", "patience", "workers")


@dataclass(frozen=True)
class PretrainingConfig:
    """How an encoder learns; section 1.6 of the objectives' common ground.

    Attributes:
        steps: optimiser steps.
        batch_size: groups of a batch, in one process and one micro-batch.
        token_budget: instead, about so many tokens of a batch, padding included; 0 for batches of
            ``batch_size`` groups.
        accumulate: micro-batches a step, whose gradients are averaged. It adds no negatives.
        cache_rows: texts that are encoded at a time where an objective asks for pooled vectors: a
            contrastive batch larger than memory, at the price of a second forward pass; 0 for all.
        learning_rate: peak of AdamW's.
        schedule: after the warm-up, ``"linear"`` falls to nothing and ``"constant"`` stays.
        warmup: share of the steps that warm up.
        weight_decay: of matrices; biases, norms and position tables have none.
        max_gradient_norm: clipping.
        mixture: of several objectives, ``"sum"`` adds their weighted losses in every step;
            ``"turns"`` gives every step to one of them, as often as its weight says.
        seed: of order, draws, masks and dropout.
        bfloat16: autocast the loss (accelerators, processors with AMX or AVX512-BF16; others
            stay with float32).
        checkpoint_every: steps between checkpoints.
        log_every: steps between lines of the log.
        diagnose_every: steps between diagnoses: of the geometry, where there are held-out texts,
            and of the losses' gradient norms, where a step has several and ``cache_rows`` is 0 (the
            last micro-batch's, before weighting); 0 for none.
        patience: diagnoses in a row, collapsed or alarming to an objective itself, after which the
            run stops; 0 for never.
        workers: processes that prepare batches; does not change the result.
    """

    steps: int = 1000
    batch_size: int = 64
    token_budget: int = 0
    accumulate: int = 1
    cache_rows: int = 0
    learning_rate: float = 3e-4
    schedule: str = "linear"
    warmup: float = 0.1
    weight_decay: float = 0.01
    max_gradient_norm: float = 1.0
    mixture: str = "sum"
    seed: int = 0
    bfloat16: bool = False
    checkpoint_every: int = 500
    log_every: int = 50
    diagnose_every: int = 200
    patience: int = 0
    workers: int = 0

    def __post_init__(self) -> None:
        counts = ("steps", "batch_size", "accumulate", "checkpoint_every", "log_every")
        switches = ("token_budget", "cache_rows", "diagnose_every", "patience", "workers")
        check_fields(
            self,
            **dict.fromkeys(counts, whole()),
            **dict.fromkeys(switches, whole(0)),
            **dict.fromkeys(("learning_rate", "max_gradient_norm"), number(above=0)),
            warmup=number(0, 1),
            seed=SEED,
            weight_decay=number(0),
            mixture=one_of(*_MIXTURES),
            schedule=one_of(*_SCHEDULES),
        )

    def identity(self) -> dict[str, Any]:
        """What must be the same for a run to be resumed, as JSON values."""
        return {key: value for key, value in asdict(self).items() if key not in _INDIFFERENT}

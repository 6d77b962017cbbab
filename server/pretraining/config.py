"""The settings of a pretraining run."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Annotated, Any, Literal

from pocketquery.sdk.settings.common import Bfloat16, Seed, Share
from pocketquery.sdk.settings.declaration import Settings
from pocketquery.sdk.validation import number, whole

__all__ = ["PretrainingConfig"]

# What changes how a run is watched or fed, and not what it computes.
_MAY_CHANGE_ON_RESUME = ("checkpoint_every", "log_every", "diagnose_every", "patience", "workers")


@dataclass(frozen=True)
class PretrainingConfig(Settings):
    """How an encoder learns; section 1.6 of the objectives' common ground.

    ``accumulate`` adds no negatives. With ``cache_rows`` above 0 a contrastive batch may be larger
    than memory, at the price of a second forward pass. A diagnosis looks at the vectors where there
    are held-out texts, and at the losses' gradient norms where a step has several and
    ``cache_rows`` is 0.
    """

    steps: Annotated[int, whole(), "optimiser steps"] = 1000
    batch_size: Annotated[int, whole(), "groups of a batch, in one process"] = 64
    token_budget: Annotated[
        int, whole(0), "instead, about so many tokens of a batch, padding included; 0: off"
    ] = 0
    accumulate: Annotated[int, whole(), "batches whose gradients make one step"] = 1
    cache_rows: Annotated[
        int,
        whole(0),
        "encode so many texts at a time: large contrastive batches in little memory; 0: all",
    ] = 0
    learning_rate: Annotated[float, number(above=0), "peak of AdamW's"] = 3e-4
    schedule: Annotated[
        Literal["linear", "constant"], "after the warm-up: linear (to nothing) or constant"
    ] = "linear"
    warmup: Annotated[Share, "share of the steps that warm up"] = 0.1
    weight_decay: Annotated[
        float, number(0), "of matrices; biases, norms and position tables have none"
    ] = 0.01
    max_gradient_norm: Annotated[float, number(above=0), "clipping"] = 1.0
    mixture: Annotated[
        Literal["sum", "turns"], "of several objectives: sum of losses in every step, or turns"
    ] = "sum"
    seed: Seed = 0
    bfloat16: Bfloat16 = False
    checkpoint_every: Annotated[int, whole(), "steps between checkpoints"] = 500
    log_every: Annotated[int, whole(), "steps between lines of the log"] = 50
    diagnose_every: Annotated[
        int, whole(0), "steps between diagnoses of the vectors and the losses' pull; 0: none"
    ] = 200
    patience: Annotated[
        int, whole(0), "alarming diagnoses in a row after which the run stops; 0: never"
    ] = 0
    workers: Annotated[int, whole(0), "processes that prepare batches"] = 0

    def identity(self) -> dict[str, Any]:
        """What must be the same for a run to be resumed, as JSON values."""
        return {
            key: value for key, value in asdict(self).items() if key not in _MAY_CHANGE_ON_RESUME
        }

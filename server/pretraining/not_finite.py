"""End a run whose loss or gradient is not finite, and save its batch for inspection."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from pathlib import Path

import torch

from pocketquery.sdk.errors import ArtifactError
from pocketquery.sdk.files import make_folder, write_atomic
from pocketquery.server.pretraining.distributed import Processes
from pocketquery.server.pretraining.mixture import MicroBatch

__all__ = ["check_finite"]


def check_finite(
    loss: float,
    norm: torch.Tensor,
    step: int,
    taken: Sequence[MicroBatch],
    run: Path | None,
    processes: Processes,
) -> None:
    """Raise if the loss or the gradient is not finite; both are the same in all processes.

    Args:
        loss: of the step.
        norm: of the gradient, scalar.
        step: from 0.
        taken: the micro-batches of this process, which are saved in ``run``.
        run: folder of the run, or None.
        processes: this one among all.

    Raises:
        ArtifactError: one of the two is NaN or infinite.
    """
    length = float(norm)
    if math.isfinite(loss) and math.isfinite(length):
        return
    where = "nothing was saved, because the run has no folder"
    if run is not None:
        path = run / f"not_finite.{processes.rank}.pt"
        make_folder(run)
        buffer = io.BytesIO()
        torch.save({"step": step, "batches": [(p.part, p.batch) for p in taken]}, buffer)
        write_atomic(path, buffer.getvalue())
        where = f"its batches are in {path}, the last good checkpoint beside them"
    raise ArtifactError(
        f"step {step + 1} gave the loss {loss} and a gradient of norm {length}, expected finite "
        f"numbers; {where}. Lower the learning rate or raise the temperature, and run again"
    )

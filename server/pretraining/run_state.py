"""The state of a run, and its way to a checkpoint and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from pocketquery.sdk.files import make_folder
from pocketquery.server.modeling import (
    SentenceEncoder,
    tokenizer_fingerprint,
    weights_fingerprint,
)
from pocketquery.server.pretraining.config import PretrainingConfig
from pocketquery.server.pretraining.diagnostics import Watch
from pocketquery.server.pretraining.distributed import Processes
from pocketquery.server.pretraining.mixture import Part
from pocketquery.server.training.checkpoints import load_checkpoint, save_checkpoint
from pocketquery.server.training.log import trim_log

__all__ = ["RunState", "run_identity"]


def run_identity(
    encoder: SentenceEncoder,
    parts: Sequence[Part],
    config: PretrainingConfig,
    processes: Processes,
) -> dict[str, Any]:
    """What makes a run this run; a checkpoint of another one is refused.

    Args:
        encoder: as it was before the first step.
        parts: of the run.
        config: of the run.
        processes: how many there are decides which batches are averaged.
    """
    return {
        "start": weights_fingerprint(encoder.state_dict()),
        "tokenizer": tokenizer_fingerprint(encoder.tokenizer),
        "pooling": encoder.pooling,
        "max_length": encoder.max_length,
        "parts": [part.identity() for part in parts],
        "processes": processes.count,
        **config.identity(),
    }


@dataclass(frozen=True)
class RunState:
    """What changes while a run goes on. Batches and dropout do not: they follow from the step.

    Attributes:
        encoder: its weights.
        objectives: heads, targets, banks; a bank differs from process to process.
        optimizer: moments.
        watch: diagnoses that were alarming in a row.
        run: folder, or None where nothing is kept.
        identity: of the run.
        processes: this one among all; the first writes.
    """

    encoder: SentenceEncoder
    objectives: nn.ModuleList
    optimizer: torch.optim.Optimizer
    watch: Watch
    run: Path | None
    identity: Mapping[str, Any]
    processes: Processes

    def resume(self) -> int:
        """Load the checkpoint, if there is one, into all processes; returns the steps done."""
        saved = None
        if self.run is not None and self.processes.first:
            saved = load_checkpoint(self.run / "checkpoint.pt", self.identity)
            trim_log(self.run / "log.jsonl", saved["step"] if saved else -1)
        state = self.processes.share(saved)
        if state is None:
            self.processes.share_weights([self.encoder, self.objectives])
            return 0
        self.encoder.load_state_dict(state["encoder"])
        self.objectives.load_state_dict(state["objectives"][self.processes.rank])
        self.optimizer.load_state_dict(state["optimizer"])
        self.watch.in_a_row = state["alarms_in_a_row"]
        return int(state["step"])

    def save(self, done: int) -> None:
        """Replace the checkpoint by one after ``done`` steps."""
        if self.run is None:
            return
        objectives = self.processes.gather_state(self.objectives)
        if not self.processes.first:
            return
        make_folder(self.run)
        state = {
            "step": done,
            "encoder": self.encoder.state_dict(),
            "objectives": objectives,
            "optimizer": self.optimizer.state_dict(),
            "alarms_in_a_row": self.watch.in_a_row,
        }
        save_checkpoint(self.run / "checkpoint.pt", self.identity, state)

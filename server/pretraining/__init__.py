"""Central pretraining: one plain loop that every objective plugs into, and what it stands on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pocketquery.sdk.lazy import lazy_names

if TYPE_CHECKING:
    from pocketquery.server.pretraining.config import PretrainingConfig
    from pocketquery.server.pretraining.distributed import Processes, join_processes
    from pocketquery.server.pretraining.held_out import HeldOut
    from pocketquery.server.pretraining.loop import pretrain
    from pocketquery.server.pretraining.mixture import Part
    from pocketquery.server.pretraining.training_run import TrainingReport, pretrain_to_folder

__all__ = [
    "pretrain",
    "pretrain_to_folder",
    "TrainingReport",
    "Part",
    "HeldOut",
    "PretrainingConfig",
    "Processes",
    "join_processes",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "config": ["PretrainingConfig"],
        "distributed": ["Processes", "join_processes"],
        "held_out": ["HeldOut"],
        "loop": ["pretrain"],
        "mixture": ["Part"],
        "training_run": ["TrainingReport", "pretrain_to_folder"],
    },
)

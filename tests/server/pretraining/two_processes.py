"""What each process of test_distributed does, started by torchrun.

torchrun --nproc-per-node 2 -m tests.server.pretraining.two_processes FOLDER
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch

from pocketquery.server.modeling import SentenceEncoder, weights_fingerprint
from pocketquery.server.objectives.mlm import Mlm
from pocketquery.server.objectives.objective import Batch, LossParts
from pocketquery.server.pretraining import Part, Processes, join_processes, pretrain
from tests.server.pretraining import small_run
from tests.server.pretraining.small_run import documents, losses, make_encoder

CONFIG = replace(small_run.CONFIG, steps=9, batch_size=4)

Made = tuple[SentenceEncoder, list[Part]]


class Banked(Mlm):
    """MLM whose loss also depends on what it saw before: a state of its own in each process."""

    seen: torch.Tensor

    def __init__(self, encoder: SentenceEncoder) -> None:
        super().__init__(encoder)
        self.register_buffer("seen", torch.zeros(()))

    def loss(self, encoder: SentenceEncoder, batch: Batch) -> LossParts:
        found = super().loss(encoder, batch)
        return LossParts(found.total * (1 + 1e-3 * self.seen), found.parts, found.stats)

    def after_step(self, encoder: SentenceEncoder, batch: Batch, step: int, steps: int) -> None:
        self.seen += batch["input_ids"].float().mean()


def banked(rank: int) -> Callable[[], Made]:
    """Encoders and heads that differ from process to process: the first's are to be everyone's."""

    def make() -> Made:
        encoder = make_encoder(seed=rank)
        torch.manual_seed(rank)
        return encoder, [Part(Banked(encoder), documents())]

    return make


def weights(run: Path, processes: Processes) -> str:
    """Of the encoder that a finished run leaves in this process."""
    encoder, parts = banked(processes.rank)()
    pretrain(encoder, parts, CONFIG, run=run, processes=processes)
    return weights_fingerprint(encoder.state_dict())


def means(processes: Processes) -> list[float | None]:
    """Of three gradients: in both processes, in the second alone, in none."""
    parameters = [torch.nn.Parameter(torch.zeros(2)) for _ in range(3)]
    parameters[0].grad = torch.full((2,), processes.rank + 1.0)
    if processes.rank == 1:
        parameters[1].grad = torch.full((2,), 2.0)
    processes.average_gradients(parameters)
    return [None if p.grad is None else float(p.grad[1]) for p in parameters]


def main(folder: Path) -> None:
    """Run whole, run in two pieces, run without a state of its own; write what came out."""
    processes, _ = join_processes()
    make = banked(processes.rank)
    report = {
        "count": processes.count,
        "whole": losses(CONFIG, folder / "whole", processes=processes, make=make),
        "begun": losses(CONFIG, folder / "cut", processes=processes, make=make, stop_after=6),
        "resumed": losses(CONFIG, folder / "cut", processes=processes, make=make),
        "weights": weights(folder / "whole", processes),
        "weights_resumed": weights(folder / "cut", processes),
        "plain": losses(CONFIG, processes=processes),
        "means": means(processes),
    }
    (folder / f"report.{processes.rank}.json").write_text(json.dumps(report), encoding="utf-8")
    processes.leave()


if __name__ == "__main__":
    main(Path(sys.argv[1]))

"""Which of a run's weights are taken: those of the best score on development texts.

Looks are taken on the way, one step before a checkpoint may be saved, and once at the end, so that
a run that is killed and goes on takes the same looks at the same weights. The best so far lies
beside the checkpoint.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save
from torch import nn

from pocketquery.sdk.files import write_atomic
from pocketquery.server.modeling import SentenceEncoder
from pocketquery.server.objectives import Objective
from pocketquery.server.training.log import append_line

__all__ = ["Choice"]


class Choice:
    """Called after every step; keeps the weights of the highest score, the earliest of equals.

    Args:
        encoder: that is trained.
        objectives: with their heads.
        score: of an encoder as it would ship, in eval mode.
        every: steps between looks, above 1.
        run: folder of the run; None keeps the best in memory.
    """

    def __init__(
        self,
        encoder: SentenceEncoder,
        objectives: Sequence[Objective[Any]],
        score: Callable[[SentenceEncoder], float],
        every: int,
        run: Path | None,
    ) -> None:
        self._encoder, self._objectives, self._score = encoder, objectives, score
        self._every, self._run = every, run
        self._modules = nn.ModuleList([encoder, *objectives])
        self._best: tuple[float, int, dict[str, torch.Tensor]] | None = None

    def __call__(self, step: int, loss: float) -> None:
        if (step + 1) % self._every == 0:
            self._look(step)

    def best(self, steps: int) -> SentenceEncoder:
        """After the last step: the best weights, back in encoder and heads, as they ship."""
        self._look(steps)
        _, _, weights = self._kept()
        self._modules.load_state_dict(weights)
        return self._shipped().eval()

    def _look(self, step: int) -> None:
        self._modules.eval()
        score = float(self._score(self._shipped().eval()))
        self._modules.train()
        if self._run is not None:
            append_line(self._run / "log.jsonl", {"step": step, "development": score})
        if score > self._kept()[0]:
            weights = {name: t.detach().clone() for name, t in self._modules.state_dict().items()}
            self._keep(score, step, weights)

    def _shipped(self) -> SentenceEncoder:
        encoder = self._encoder
        for objective in self._objectives:
            encoder = objective.export(encoder)
        return encoder

    def _keep(self, score: float, step: int, weights: dict[str, torch.Tensor]) -> None:
        if self._run is None:
            self._best = score, step, weights
            return
        distinct = {name: tensor.contiguous() for name, tensor in weights.items()}
        said = {"choice": json.dumps([score, step])}
        write_atomic(self._run / "best.safetensors", save(distinct, metadata=said))

    def _kept(self) -> tuple[float, int, dict[str, torch.Tensor]]:
        if self._run is None:
            return self._best or (float("-inf"), 0, {})
        path = self._run / "best.safetensors"
        if not path.is_file():
            return float("-inf"), 0, {}
        with safe_open(path, framework="pt") as opened:
            score, step = json.loads(opened.metadata()["choice"])
        return score, step, load_file(path)

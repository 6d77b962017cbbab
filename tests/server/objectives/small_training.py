"""A few steps of an objective on the tiny models' sentences."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from pocketquery.server.modeling import SentenceEncoder
from pocketquery.server.objectives import Objective
from tests.tiny_models import sentences


def train(
    encoder: SentenceEncoder,
    objective: Objective[Any],
    optimizer: torch.optim.Optimizer,
    steps: range,
) -> list[float]:
    """The losses of some steps, each of which draws the same whenever it is taken."""
    losses = []
    encoder.train()
    for step in steps:
        torch.manual_seed(step)
        start = step * 16 % 200
        batch = objective.collate(sentences()[start : start + 16], np.random.default_rng(step))
        loss = objective.loss(encoder, batch).total
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        optimizer.zero_grad()
        objective.after_step(encoder, batch, step, 6)
        losses.append(float(loss.detach()))
    return losses


def adam(encoder: SentenceEncoder, objective: Objective[Any]) -> torch.optim.Optimizer:
    return torch.optim.AdamW([*encoder.parameters(), *objective.parameters()], lr=3e-3)

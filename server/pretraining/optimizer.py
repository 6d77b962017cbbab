"""The optimiser of every run, and its learning rate."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import nn

from pocketquery.server.pretraining.config import PretrainingConfig
from pocketquery.server.pretraining.schedule import warmup_constant, warmup_linear

__all__ = ["make_optimizer", "set_learning_rate", "trained_parameters"]


def trained_parameters(modules: Iterable[nn.Module]) -> dict[str, nn.Parameter]:
    """Every parameter with a gradient, once, by a name that says where it was met first."""
    found: dict[str, nn.Parameter] = {}
    seen: set[int] = set()
    for place, module in enumerate(modules):
        for name, parameter in module.named_parameters():
            if parameter.requires_grad and id(parameter) not in seen:
                seen.add(id(parameter))
                found[f"{place}.{name}"] = parameter
    return found


def make_optimizer(
    parameters: dict[str, nn.Parameter], config: PretrainingConfig
) -> torch.optim.AdamW:
    """AdamW; biases, norms and position tables do not decay."""
    kept = [p for name, p in parameters.items() if p.ndim <= 1 or "position_embeddings" in name]
    ids = {id(parameter) for parameter in kept}
    decaying = [p for p in parameters.values() if id(p) not in ids]
    groups = [
        {"params": decaying, "weight_decay": config.weight_decay},
        {"params": kept, "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=config.learning_rate, betas=(0.9, 0.999), fused=True)


def set_learning_rate(
    optimizer: torch.optim.Optimizer, step: int, config: PretrainingConfig
) -> float:
    """Set and return the learning rate of ``step``, counted from 0."""
    factor = warmup_linear if config.schedule == "linear" else warmup_constant
    rate = config.learning_rate * factor(step, config.steps, config.warmup)
    for group in optimizer.param_groups:
        group["lr"] = rate
    return rate

"""The optimizer of every training loop, and its schedule of learning rates."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Protocol

import torch
from torch import nn

__all__ = [
    "LearningRates",
    "make_optimizer",
    "set_learning_rate",
    "trained_parameters",
    "warmup_constant",
    "warmup_linear",
]

_POSITIONS = re.compile(r"(^|\.)(position_embeddings|positions)\.")  # an encoder's, a decoder's


class LearningRates(Protocol):
    """The settings of a run that concern its optimizer: every training configuration has them."""

    @property
    def learning_rate(self) -> float:
        """The peak."""

    @property
    def weight_decay(self) -> float:
        """Of matrices."""

    @property
    def steps(self) -> int:
        """Of the whole run."""

    @property
    def warmup(self) -> float:
        """Share of the steps that warm up."""


def trained_parameters(modules: Iterable[nn.Module]) -> dict[str, nn.Parameter]:
    """Every parameter with a gradient, once, by a name that says where it was met first."""
    trained: dict[str, nn.Parameter] = {}
    seen: set[int] = set()
    for place, module in enumerate(modules):
        for name, parameter in module.named_parameters():
            if parameter.requires_grad and id(parameter) not in seen:
                seen.add(id(parameter))
                trained[f"{place}.{name}"] = parameter
    return trained


def make_optimizer(
    parameters: Mapping[str, nn.Parameter], config: LearningRates
) -> torch.optim.AdamW:
    """AdamW; biases, norms and position tables do not decay.

    Args:
        parameters: what is trained, by name.
        config: the peak of the learning rate, and the decay of the weights.
    """
    decaying, others = list[nn.Parameter](), list[nn.Parameter]()
    for name, parameter in parameters.items():
        decays = parameter.ndim > 1 and not _POSITIONS.search(name)
        (decaying if decays else others).append(parameter)
    groups = [
        {"params": decaying, "weight_decay": config.weight_decay},
        {"params": others, "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=config.learning_rate, betas=(0.9, 0.999), fused=True)


def set_learning_rate(
    optimizer: torch.optim.Optimizer, step: int, config: LearningRates, schedule: str = "linear"
) -> float:
    """Set the learning rate of ``step``, counted from 0, and return it.

    Args:
        optimizer: from :func:`make_optimizer`.
        step: about to be taken.
        config: peak, steps and warm-up.
        schedule: after the warm-up, ``"linear"`` falls to nothing and ``"constant"`` stays.
    """
    factor = warmup_linear if schedule == "linear" else warmup_constant
    rate = config.learning_rate * factor(step, config.steps, config.warmup)
    for group in optimizer.param_groups:
        group["lr"] = rate
    return rate


def warmup_linear(step: int, total: int, warmup: float = 0.1) -> float:
    """Factor in (0, 1]: linear rise over the first ``warmup`` share of steps, then linear fall.

    Args:
        step: 0-based index of the step about to be taken.
        total: number of steps of the run.
        warmup: share of ``total``.
    """
    rising = max(1, round(total * warmup))
    if step < rising:
        return (step + 1) / rising
    return max(total - step, 1) / max(total - rising + 1, 1)


def warmup_constant(step: int, total: int, warmup: float = 0.1) -> float:
    """Factor in (0, 1]: the same rise, then 1."""
    return min(1.0, (step + 1) / max(1, round(total * warmup)))

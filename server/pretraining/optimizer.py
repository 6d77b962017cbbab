"""The optimiser of every run, and its learning rates."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import nn

from pocketquery.server.objectives.objective import Objective, Rate
from pocketquery.server.pretraining.config import PretrainingConfig
from pocketquery.server.pretraining.schedule import warmup_constant, warmup_linear

__all__ = ["make_optimizer", "own_rates", "set_learning_rate", "trained_parameters"]

_POSITIONS = re.compile(r"(^|\.)(position_embeddings|positions)\.")  # an encoder's, a decoder's


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


def own_rates(objectives: Iterable[Objective[Any]]) -> dict[int, Rate]:
    """The rates of the heads that have one of their own, by the id of the parameter."""
    return {
        id(parameter): rate
        for objective in objectives
        for head, rate in objective.rates.items()
        for parameter in objective.get_submodule(head).parameters()
    }


def make_optimizer(
    parameters: Mapping[str, nn.Parameter],
    config: PretrainingConfig,
    rates: Mapping[int, Rate] | None = None,
) -> torch.optim.AdamW:
    """AdamW; biases, norms and position tables do not decay.

    Args:
        parameters: what is trained, by name.
        config: the peak of the learning rate, and the decay of the weights.
        rates: of parameters that have their own, by id; see :func:`own_rates`.
    """
    groups: dict[tuple[Rate, bool], list[nn.Parameter]] = {
        (Rate(), True): [],
        (Rate(), False): [],
    }
    for name, parameter in parameters.items():
        decays = parameter.ndim > 1 and not _POSITIONS.search(name)
        rate = (rates or {}).get(id(parameter), Rate())
        groups.setdefault((rate, decays), []).append(parameter)
    chosen: list[dict[str, Any]] = [
        {
            "params": members,
            "weight_decay": config.weight_decay if decays else 0.0,
            "multiplier": rate.multiplier,
            "fixed": rate.fixed,
        }
        for (rate, decays), members in groups.items()
    ]
    return torch.optim.AdamW(chosen, lr=config.learning_rate, betas=(0.9, 0.999), fused=True)


def set_learning_rate(
    optimizer: torch.optim.Optimizer, step: int, config: PretrainingConfig
) -> float:
    """Set the learning rates of ``step``, counted from 0; returns the encoder's."""
    factor = warmup_linear if config.schedule == "linear" else warmup_constant
    rate = config.learning_rate * factor(step, config.steps, config.warmup)
    for group in optimizer.param_groups:
        scheduled = config.learning_rate if group["fixed"] else rate
        group["lr"] = scheduled * group["multiplier"]
    return rate

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import pytest
import torch
from torch import nn

from pocketquery.server.objectives import build_objective
from pocketquery.server.training.optimizer import (
    make_optimizer,
    set_learning_rate,
    trained_parameters,
    warmup_linear,
)
from tests.server.pretraining.small_run import CONFIG, make_encoder, make_parts


def test_biases_norms_and_positions_do_not_decay_and_matrices_do() -> None:
    encoder = make_encoder()
    parameters = trained_parameters([encoder])
    decaying, kept = make_optimizer(parameters, CONFIG).param_groups
    names = {id(parameter): name for name, parameter in parameters.items()}
    kept_names = {names[id(parameter)] for parameter in kept["params"]}
    assert kept["weight_decay"] == 0
    assert decaying["weight_decay"] == 0.01
    assert any("position_embeddings" in name for name in kept_names)
    assert all("LayerNorm" in name or "bias" in name or "position" in name for name in kept_names)
    assert any("word_embeddings" in names[id(p)] for p in decaying["params"])
    assert len(decaying["params"]) + len(kept["params"]) == len(list(encoder.parameters()))


@pytest.mark.parametrize("name", ["gur", "seed", "tsdae"])
def test_a_decoders_positions_do_not_decay_either(name: str) -> None:
    encoder = make_encoder()
    parameters = trained_parameters([encoder, build_objective(name, encoder)])
    decaying, kept = make_optimizer(parameters, CONFIG).param_groups
    names = {id(parameter): name for name, parameter in parameters.items()}
    assert any(names[id(p)].startswith("1.") and "position" in names[id(p)] for p in kept["params"])
    assert not any("position" in names[id(p)] for p in decaying["params"])


def test_every_weight_is_trained_once_and_targets_never() -> None:
    encoder = make_encoder()
    target = nn.Linear(2, 2).requires_grad_(requires_grad=False)
    modules = [encoder, nn.ModuleList([part.objective for part in make_parts(encoder)]), encoder]
    found = trained_parameters([*modules, target])
    assert len({id(parameter) for parameter in found.values()}) == len(found)
    assert not {id(p) for p in target.parameters()} & {id(p) for p in found.values()}


@pytest.mark.parametrize(
    ("schedule", "rates"),
    [("linear", [0.5, 1.0, 0.75, 0.5, 0.25]), ("constant", [0.5, 1.0, 1.0, 1.0, 1.0])],
)
def test_the_rate_rises_and_then_falls_or_stays(
    schedule: Literal["linear", "constant"], rates: list[float]
) -> None:
    config = replace(CONFIG, steps=5, warmup=0.4, learning_rate=1.0, schedule=schedule)
    optimizer = make_optimizer({"weight": nn.Parameter(torch.zeros(1, 1))}, config)
    found = [set_learning_rate(optimizer, step, config, schedule) for step in range(5)]
    assert found == pytest.approx(rates)
    assert optimizer.param_groups[0]["lr"] == found[-1]


def test_it_rises_then_falls_and_is_never_zero() -> None:
    factors = [warmup_linear(step, 100, 0.1) for step in range(100)]
    assert factors[0] == 0.1
    assert factors[9] == factors[10] == 1.0 or max(factors) == 1.0
    assert factors[:10] == sorted(factors[:10])
    assert factors[10:] == sorted(factors[10:], reverse=True)
    assert min(factors) > 0


def test_a_single_step_is_taken_at_the_full_rate() -> None:
    assert warmup_linear(0, 1) == 1.0

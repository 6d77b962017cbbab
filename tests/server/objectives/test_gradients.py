"""Every objective's gradients, of all it trains, are those of finite differences, in float64."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch

from pocketquery.server.corpus.groups import Group, GroupList, Source
from pocketquery.server.modeling import SentenceEncoder
from pocketquery.server.objectives import OBJECTIVES, build_objective
from pocketquery.server.objectives.objective import Batch, Objective
from pocketquery.server.objectives.shared.asymmetric_norm import AsymmetricNorm
from tests.tiny_models import bert_teacher, sentences

STEP = 1e-6
TEXTS = sentences(48)


def documents() -> Iterator[Group]:
    for row in range(0, 48, 6):
        yield Group(f"d{row}", tuple(TEXTS[row : row + 6]), (), "en")


def sessions() -> Iterator[Group]:
    for row in range(0, 48, 4):
        yield Group(f"s{row}", tuple(TEXTS[row : row + 4]), ("user", "agent") * 2, "en")


def pairs() -> Iterator[Group]:
    for row, text in enumerate(TEXTS[:8]):
        yield Group(f"p{row}", (text, f"the {text} king"), (), "en")


def triples() -> Iterator[Group]:
    for row in range(0, 32, 4):
        yield Group(f"t{row}", tuple(TEXTS[row : row + 4]), (), "en")


GROUPS: dict[str, Callable[[], Iterator[Group]]] = {
    "documents": documents,
    "sessions": sessions,
    "pairs": pairs,
    "triples": triples,
    "queries": pairs,
}

CASES: list[tuple[str, dict[str, Any]]] = [
    *((name, {}) for name in OBJECTIVES),
    *(("contrastive", {"loss": loss}) for loss in ("quick_thought", "ams", "info_nce")),
    ("seed", {"memory": "cross"}),
    ("cpdae", {"variant": "cpdae_r"}),
    ("query_bert", {"projector": "mlp"}),
    ("ccp", {"bn_mode": "none", "normalize": False}),
    ("ccp", {"mlm_probability": 0.999}),
]


@pytest.mark.parametrize(("name", "options"), CASES, ids=lambda case: str(case))
def test_gradients_are_those_of_finite_differences(name: str, options: dict[str, Any]) -> None:
    """Along one direction a parameter tensor, which touches all of its entries.

    A parameter without a gradient may not move the loss either.
    """
    encoder, objective, batch = prepared(name, options)
    kept = {name: buffer.clone() for name, buffer in objective.named_buffers()}

    def total() -> torch.Tensor:
        """Of the same state every time: a bank, a target's schedule, the side of a norm."""
        for name, buffer in objective.named_buffers():
            buffer.copy_(kept[name])
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            return objective.loss(encoder, batch).total

    trained = [p for p in (*encoder.parameters(), *objective.parameters()) if p.requires_grad]
    at_hand = {id(p): p for p in trained}
    total().backward()  # type: ignore[no-untyped-call]
    for number, parameter in enumerate(at_hand.values()):
        gradient = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
        generator = torch.Generator().manual_seed(number)
        direction = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
        direction /= 10 * direction.norm()
        if float(gradient.norm()) > 1e-7:  # else nothing depends on it: a slope of 0 is expected
            direction += gradient / gradient.norm()
        values = []
        for shift in (STEP, -STEP):
            with torch.no_grad():
                parameter.add_(direction, alpha=shift)
            values.append(float(total().detach()))
            with torch.no_grad():
                parameter.sub_(direction, alpha=shift)
        slope = float((gradient * direction).sum())
        assert (values[0] - values[1]) / (2 * STEP) == pytest.approx(slope, rel=1e-4, abs=1e-7)


def prepared(name: str, options: dict[str, Any]) -> tuple[SentenceEncoder, Objective[Any], Batch]:
    """A tiny encoder and objective in float64, as they are trained, and a batch."""
    encoder = bert_teacher(layers=1, width=16)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        objective = build_objective(name, encoder, options)
    source: Source = GroupList(list(GROUPS[objective.kinds[0]]()), objective.kinds[0])
    objective.prepare(source, encoder.tokenizer)
    encoder.train().double()
    objective.train().double()
    rng = random.Random(0)
    drawn = (objective.draw(source[row], rng) for row in range(len(source)))
    examples = [example for example in drawn if example is not None]
    batch = objective.collate(examples, np.random.default_rng(0))
    objective.loss(encoder, batch)  # what is filled at first
    for module in objective.modules():
        if isinstance(module, AsymmetricNorm):
            module.momentum = 0.0  # running statistics are constants to the gradient, so here too
    return encoder, objective, batch

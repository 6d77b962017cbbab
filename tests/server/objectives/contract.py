"""The contract of objectives: what holds for every one of them, wherever it is registered.

The tests here and in research/ run each ``check_...`` for their own objectives.
"""

from __future__ import annotations

import copy
import dataclasses
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast, get_args

import numpy as np
import pytest
import torch

from pocketquery.sdk.errors import InvalidInputError
from pocketquery.server.corpus.groups import Group, GroupList, Kind, Source
from pocketquery.server.modeling import SentenceEncoder
from pocketquery.server.objectives import build_objective
from pocketquery.server.objectives.objective import Batch, Objective
from pocketquery.server.objectives.shared.asymmetric_norm import AsymmetricNorm
from pocketquery.server.objectives.shared.masking import IGNORED
from pocketquery.server.pretraining import Part, PretrainingConfig, pretrain
from pocketquery.server.pretraining.command_parts import make_parts
from tests.server.pretraining.small_run import losses
from tests.tiny_models import bert_teacher, sentences

CONFIG = PretrainingConfig(
    steps=8, batch_size=8, learning_rate=1e-3, checkpoint_every=3, log_every=3, accumulate=2
)

_STEP = 1e-6  # of finite differences
_PADDING = 7  # columns
_FREE_TEXT = {"user_role", "light", "heavy"}  # settings that are no choice of a few words
_SHARES = ("rate", "prob", "share")  # in the names of settings from 0 to 1
_SIZES = {"documents": 6, "sessions": 4, "pairs": 2, "triples": 10, "queries": 1}
_TEXTS = sentences(200)


def source(kind: Kind, count: int = 40, languages: tuple[str, ...] = ("fr", "en")) -> GroupList:
    """Groups of a kind, in turn of each language."""
    groups = []
    for number in range(count):
        texts = tuple(_TEXTS[(number * 3 + i * 7) % 200] for i in range(_SIZES[kind]))
        roles = ("user", "agent", "user", "agent") if kind == "sessions" else ()
        lang = languages[number % len(languages)]
        groups.append(Group(str(number), texts, roles, lang, title=kind == "documents"))
    return GroupList(groups, kind)


def built(
    name: str, options: dict[str, Any] | None = None, layers: int = 1, width: int = 16
) -> tuple[SentenceEncoder, Objective[Any]]:
    """A tiny encoder and an objective around it, prepared."""
    encoder = bert_teacher(layers=layers, width=width)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        objective = build_objective(name, encoder, options)
    objective.prepare(source(objective.kinds[0], 8, ("en",)), encoder.tokenizer)
    return encoder, objective


def examples_of(objective: Objective[Any]) -> list[Any]:
    """One example a group, of one language."""
    groups, rng = source(objective.kinds[0], 8, ("en",)), random.Random(0)
    drawn = (objective.draw(groups[row], rng) for row in range(len(groups)))
    return [example for example in drawn if example is not None]


def batch_of(objective: Objective[Any], seed: int = 0) -> Batch:
    return objective.collate(examples_of(objective), np.random.default_rng(seed))


def check_gradients(name: str, options: dict[str, Any]) -> None:
    """The gradient reaches the encoder, and all of it is that of finite differences, in float64.

    Along one direction a parameter tensor, which touches all of its entries. A parameter without a
    gradient may not move the loss either.
    """
    encoder, objective = built(name, options)
    encoder.train().double()
    objective.train().double()
    batch = batch_of(objective)
    objective.loss(encoder, batch)  # fills running statistics
    for module in objective.modules():
        if isinstance(module, AsymmetricNorm):
            module.momentum = 0.0  # running statistics are constants to the gradient, so here too
    buffers = {name: buffer.clone() for name, buffer in objective.named_buffers()}

    def total() -> torch.Tensor:
        """Of the same state every time: a bank, a target's schedule, the side of a norm."""
        for name, buffer in objective.named_buffers():
            buffer.copy_(buffers[name])
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            return objective.loss(encoder, batch).total

    trained = [p for p in (*encoder.parameters(), *objective.parameters()) if p.requires_grad]
    total().backward()  # type: ignore[no-untyped-call]
    reached = [p for p in encoder.parameters() if p.grad is not None and p.grad.abs().sum() > 0]
    assert len(reached) > 8
    for number, parameter in enumerate({id(p): p for p in trained}.values()):
        gradient = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
        generator = torch.Generator().manual_seed(number)
        direction = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
        direction /= 10 * direction.norm()
        if float(gradient.norm()) > 1e-7:  # else nothing depends on it: a slope of 0 is expected
            direction += gradient / gradient.norm()
        values = []
        for shift in (_STEP, -_STEP):
            with torch.no_grad():
                parameter.add_(direction, alpha=shift)
            values.append(float(total().detach()))
            with torch.no_grad():
                parameter.sub_(direction, alpha=shift)
        slope = float((gradient * direction).sum())
        assert (values[0] - values[1]) / (2 * _STEP) == pytest.approx(slope, rel=1e-4, abs=1e-7)


def check_batches(name: str, options: dict[str, Any]) -> None:
    """A batch is a pure function of examples and generator, and its loss of batch and seed.

    Parts and figures are finite, figures have no gradient, and where nothing is drawn the order of
    the examples does not matter.
    """
    encoder, objective = built(name, options)
    encoder.train()
    objective.train()
    one, again, other = (batch_of(objective, seed) for seed in (0, 0, 1))
    assert _equal(one, again)
    state = copy.deepcopy(objective.state_dict())
    totals = []
    for batch in (one, again):
        objective.load_state_dict(state)
        torch.manual_seed(3)
        found = objective.loss(encoder, batch)
        totals.append(found.total)
        for value in (*found.parts.values(), *found.stats.values()):
            assert torch.isfinite(torch.as_tensor(value))
        for value in found.stats.values():
            assert not torch.as_tensor(value).requires_grad
    assert torch.equal(*totals)
    if _equal(one, other):
        turned = objective.collate(examples_of(objective)[::-1], np.random.default_rng(0))
        _check_equal_parts(encoder, objective, one, turned)


def check_padding(name: str, options: dict[str, Any]) -> None:
    """Columns of padding change no part of the loss."""
    encoder, objective = built(name, options)
    batch = batch_of(objective)
    wide = dict(batch)
    for key, value in batch.items():
        if key.endswith(("labels", "targets")):
            wide[key] = torch.nn.functional.pad(value, (0, _PADDING), value=IGNORED)
        elif key.endswith(("ids", "mask", "inputs")):
            wide[key] = torch.nn.functional.pad(value, (0, _PADDING))
    _check_equal_parts(encoder, objective, batch, wide)


def check_learning(name: str, options: dict[str, Any]) -> None:
    """The loss of a batch falls."""
    encoder, objective = built(name, options, width=32)
    encoder.train()
    objective.train()
    batch = batch_of(objective)
    optimizer = torch.optim.AdamW([*encoder.parameters(), *objective.parameters()], lr=2e-3)
    found = []
    for step in range(24):
        torch.manual_seed(step)
        total = objective.loss(encoder, batch).total
        total.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        optimizer.zero_grad()
        objective.after_step(encoder, batch, step, 24)
        found.append(float(total.detach()))
    first, last = float(np.mean(found[:4])), float(np.mean(found[-4:]))
    assert last < first - 0.1 * abs(first)


def check_settings(name: str) -> None:
    """Each setting is read from text, and a value it cannot have is refused by its name."""
    encoder, objective = built(name)
    defaults = dataclasses.asdict(cast("Any", objective).config)
    written = build_objective(name, encoder, {key: str(value) for key, value in defaults.items()})
    assert dataclasses.asdict(cast("Any", written).config) == defaults
    for key, default in defaults.items():
        wrong: list[Any] = []
        if isinstance(default, str) and key not in _FREE_TEXT:
            wrong = ["nonsense"]
        elif not isinstance(default, str | bool):
            wrong = [-1, float("nan")]
            wrong += [2.0] if any(part in key for part in _SHARES) else []
        for value in wrong:
            with pytest.raises(InvalidInputError, match=key):
                build_objective(name, encoder, {key: value})


def check_resuming(name: str, folder: Path) -> None:
    """Interrupted in the loop, it continues to the same losses, to the bit."""

    def make() -> tuple[SentenceEncoder, list[Part]]:
        return parts_of(name)

    whole = losses(CONFIG, make=make)
    losses(CONFIG, folder, make=make, stop_after=5)
    assert losses(CONFIG, folder, make=make) == whole[3:]
    assert all(torch.isfinite(torch.tensor(whole)))


def check_shipping(name: str, folder: Path) -> None:
    """What ships is an encoder that can be saved, without what served the training alone."""
    encoder, parts = parts_of(name)
    weights = {key for key, _ in encoder.named_parameters()}
    shipped = pretrain(encoder, parts, replace(CONFIG, steps=1))
    assert {key for key, _ in shipped.named_parameters() if not key.startswith("head.")} == weights
    shipped.save(folder / "model")
    loaded = SentenceEncoder.load(folder / "model")
    assert abs(loaded.encode(_TEXTS[:3]) - shipped.encode(_TEXTS[:3])).max() < 1e-5
    assert loaded.dimension == shipped.dimension


def check_beside_gur(name: str, *, gur_first: bool) -> None:
    """It trains beside GUR, which adds tokens to the vocabulary before or after it is built."""
    order = ["gur", name] if gur_first else [name, "gur"]
    sources: dict[Kind, Source] = {kind: source(kind) for kind in get_args(Kind)}
    config = replace(CONFIG, steps=2, accumulate=1)

    def make() -> tuple[SentenceEncoder, list[Part]]:
        encoder = bert_teacher(layers=1, width=32)
        rows = encoder.backbone.get_input_embeddings().num_embeddings
        options: dict[str, dict[str, str]] = {each: {} for each in order}
        weights = dict.fromkeys(order, 1.0)
        parts, _ = make_parts(encoder, sources, weights, options, held_out=0, seed=0)
        assert encoder.backbone.get_input_embeddings().num_embeddings > rows
        assert [part.objective.name for part in parts] == order
        return encoder, parts

    once, again = (losses(config, make=make) for _ in range(2))
    assert len(once) == 2
    assert torch.isfinite(torch.tensor(once)).all()
    assert once == again


def parts_of(name: str) -> tuple[SentenceEncoder, list[Part]]:
    encoder = bert_teacher(layers=2, width=32)
    torch.manual_seed(0)
    objective = build_objective(name, encoder)
    return encoder, [Part(objective, source(objective.kinds[0]))]


CHECKS: tuple[Callable[[str, dict[str, Any]], None], ...] = (
    check_batches,
    check_gradients,
    check_learning,
    check_padding,
)


def _check_equal_parts(
    encoder: SentenceEncoder, objective: Objective[Any], one: Batch, other: Batch
) -> None:
    encoder.eval().double()
    objective.eval().double()
    with torch.no_grad():
        first, second = (objective.loss(encoder, batch).parts for batch in (one, other))
    for name, part in first.items():
        assert float(second[name]) == pytest.approx(float(part), abs=1e-6)


def _equal(one: Batch, other: Batch) -> bool:
    return all(map(torch.equal, _tensors(one), _tensors(other)))


def _tensors(batch: Batch) -> Iterator[torch.Tensor]:
    return (value for value in batch.values() if isinstance(value, torch.Tensor))

"""CCP as an objective: the toggle, the bank, the warm-up, and resuming to the bit."""

from __future__ import annotations

import copy
import math
import random
from typing import Any

import numpy as np
import pytest
import torch

from pocketquery.server.corpus.groups import Group
from pocketquery.server.modeling import SentenceEncoder
from pocketquery.server.objectives.ccp import Ccp, CcpConfig
from pocketquery.server.objectives.objective import Batch
from tests.tiny_models import WORDS, bert_teacher


def document(number: int, language: str = "en", seed: int = 0) -> Group:
    """Eight sentences about one pair of words."""
    rng = random.Random(f"{seed}/{number}")
    topic = [WORDS[number % 27], WORDS[(number * 7 + 5) % 27]]
    texts = [" ".join([*topic, *rng.sample(WORDS, 3)]) for _ in range(8)]
    return Group(f"{language}{number}", tuple(texts), lang=language)


def batch_of(objective: Ccp, start: int, language: str = "en", count: int = 6) -> Batch:
    rng = random.Random(start)
    pairs = [objective.draw(document(start + i, language), rng) for i in range(count)]
    return objective.collate([p for p in pairs if p is not None], np.random.default_rng(start))


def made(warmups: int = 0, **options: Any) -> tuple[SentenceEncoder, Ccp]:
    encoder = bert_teacher(layers=1, width=32)
    torch.manual_seed(0)
    banked = {"bank": "language", "bank_size": 16, "bank_warmup": 0}
    settings: dict[str, Any] = {"mlm_probability": 0.0, **banked} | options
    objective = Ccp(encoder, CcpConfig(**settings))
    objective.warmups_left.fill_(warmups)
    return encoder, objective


def value(encoder: SentenceEncoder, objective: Ccp, batch: Batch) -> float:
    with torch.no_grad():
        return float(objective.loss(encoder, batch).total)


def step(encoder: SentenceEncoder, objective: Ccp, batch: Batch, number: int = 0) -> float:
    loss = objective.loss(encoder, batch).total
    objective.after_step(encoder, batch, number, 10)
    return float(loss.detach())


def test_the_sides_take_turns_and_modes_from_outside_do_not_matter() -> None:
    encoder, objective = made()
    sides = []
    for number in range(5):
        sides.append(int(objective.batch_side))
        objective.train(number % 2 == 0)  # what an outer loop may do at any moment
        step(encoder, objective, batch_of(objective, 8 * number))
    assert sides == [0, 1, 0, 1, 0]


def test_the_turn_is_the_one_that_the_flag_says() -> None:
    encoder, objective = made()
    batch = batch_of(objective, 0)
    first = value(encoder, objective, batch)
    objective.batch_side.fill_(1)
    assert value(encoder, objective, batch) != first
    objective.batch_side.fill_(0)
    assert value(encoder, objective, batch) == first


def test_the_other_modes_do_not_depend_on_the_turn() -> None:
    for mode in ("vanilla", "none"):
        encoder, objective = made(bn_mode=mode)
        batch = batch_of(objective, 0)
        first = value(encoder, objective, batch)
        objective.batch_side.fill_(1)
        assert value(encoder, objective, batch) == first


def test_what_is_only_measured_changes_nothing() -> None:
    encoder, objective = made()
    step(encoder, objective, batch_of(objective, 0))
    before = copy.deepcopy(objective.state_dict())
    value(encoder, objective, batch_of(objective, 50))
    objective.after_step(encoder, batch_of(objective, 50), 0, 1)
    for name, tensor in objective.state_dict().items():
        torch.testing.assert_close(tensor, before[name], equal_nan=True, rtol=0, atol=0)


@pytest.mark.parametrize("bn_mode", ["asym", "none"])
def test_a_batch_in_one_language_never_changes_the_loss_of_another(bn_mode: str) -> None:
    encoder, objective = made(bn_mode=bn_mode)
    english = batch_of(objective, 0)
    step(encoder, objective, batch_of(objective, 30))
    assert objective.bank is not None
    before = objective.bank.read("en").vectors.clone()
    loss = value(encoder, objective, english)
    # Only into the bank: running statistics are one set for all languages.
    state = {n: t.clone() for n, t in objective.head.state_dict().items()}
    for start in (100, 120, 140, 160):
        step(encoder, objective, batch_of(objective, start, "fr"))
    objective.head.load_state_dict(state)
    assert torch.equal(objective.bank.read("en").vectors, before)
    assert len(objective.bank.read("fr").vectors) == 16
    assert value(encoder, objective, english) == loss


def test_by_default_each_language_has_its_bank() -> None:
    objective = Ccp(bert_teacher(layers=1, width=32), CcpConfig(mlm_probability=0.0))
    assert objective.bank is not None
    batch = batch_of(objective, 0)
    objective.loss(bert_teacher(layers=1, width=32), batch)
    objective.after_step(bert_teacher(layers=1, width=32), batch, 0, 10)
    assert len(objective.bank.read("en").texts) == 6
    assert len(objective.bank.read("fr").texts) == 0


def test_a_shared_bank_lets_languages_in_and_no_bank_lets_nothing_in() -> None:
    encoder, objective = made(bank="shared", bn_mode="none")
    english = batch_of(objective, 0)
    before = value(encoder, objective, english)
    step(encoder, objective, batch_of(objective, 100, "fr"))
    assert value(encoder, objective, english) > before  # more negatives
    encoder, objective = made(bank="none", bn_mode="none")
    before = value(encoder, objective, english)
    step(encoder, objective, batch_of(objective, 100))
    assert value(encoder, objective, english) == before
    assert not [name for name in objective.state_dict() if name.startswith("bank.")]


def test_the_bank_takes_the_contexts_as_they_were_contrasted() -> None:
    encoder, objective = made(bn_mode="none")
    encoder.eval()
    batch = batch_of(objective, 0)
    objective.loss(encoder, batch)
    assert objective.bank is not None
    assert len(objective.bank.read("en").vectors) == 0  # not before the optimiser's step
    with torch.no_grad():
        pooled = encoder.pooled(batch["input_ids"], batch["attention_mask"])
        vectors = objective.head(pooled, batch_statistics=True)
        expected = torch.nn.functional.normalize(vectors, dim=-1)[6:]
        for parameter in encoder.parameters():
            parameter.mul_(1.5)  # the optimiser's step
    objective.after_step(encoder, batch, 0, 1)
    rows = objective.bank.read("en")
    torch.testing.assert_close(rows.vectors, expected)
    assert torch.equal(rows.positions, batch["positions"][6:])


def test_several_micro_batches_a_step_all_enter_the_bank() -> None:
    encoder, objective = made()
    batches = [batch_of(objective, start) for start in (0, 20)]
    for batch in batches:
        objective.loss(encoder, batch)
    objective.after_step(encoder, batches[-1], 0, 1)
    assert objective.bank is not None
    expected = torch.cat([batch["documents"][6:] for batch in batches])
    assert torch.equal(objective.bank.read("en").documents, expected)


def test_the_warm_up_fills_the_statistics_before_the_first_contrast() -> None:
    encoder, objective = made(warmups=60)
    encoder.eval()
    assert objective.head.norm is not None
    batch = batch_of(objective, 0)
    with torch.no_grad():
        objective.loss(encoder, batch)  # measuring changes nothing
        hidden = objective.head.inner(encoder.pooled(batch["input_ids"], batch["attention_mask"]))
    assert int(objective.warmups_left) == 60
    assert objective.head.norm.running_mean.abs().sum() == 0
    found = objective.loss(encoder, batch)
    assert float(found.total.detach()) > 0
    assert int(objective.warmups_left) == 0
    running = objective.head.norm.running_mean
    assert torch.allclose(running, hidden.mean(dim=0), atol=0.1 * float(hidden.std(dim=0).mean()))


def test_the_bank_fills_before_it_counts() -> None:
    encoder, objective = made(bank_warmup=2, bn_mode="none")
    counted = []
    for number in range(4):
        batch = batch_of(objective, 20 * number)
        counted.append(float(objective.loss(encoder, batch).stats["bank_rows"]))
        objective.after_step(encoder, batch, number, 4)
    assert counted == [0, 0, 12, 16]


def test_the_order_of_the_pairs_does_not_matter() -> None:
    encoder, objective = made()
    encoder.eval()
    batch = batch_of(objective, 0)
    order = torch.tensor([3, 1, 5, 0, 2, 4])
    order = torch.cat([order, order + 6])
    mixed = {name: v[order] for name, v in batch.items() if isinstance(v, torch.Tensor)}
    mixed["language"] = batch["language"]
    loss = value(encoder, objective, batch)
    assert value(encoder, objective, mixed) == pytest.approx(loss, abs=1e-5)


def test_about_every_second_batch_is_masked_language_modelling() -> None:
    encoder, objective = made(mlm_probability=0.5)
    pairs = [objective.draw(document(i), random.Random(i)) for i in range(2)]
    kept = [pair for pair in pairs if pair is not None]
    batches = [objective.collate(kept, np.random.default_rng(seed)) for seed in range(1000)]
    assert abs(sum("labels" in batch for batch in batches) / 1000 - 0.5) < 0.05
    mlm = next(batch for batch in batches if "labels" in batch)
    side = int(objective.batch_side)
    found = objective.loss(encoder, mlm)
    objective.after_step(encoder, mlm, 0, 1)
    assert set(found.parts) == {"mlm"}
    assert int(objective.batch_side) == side
    alone = Ccp(encoder, CcpConfig(mlm_probability=0.0))
    assert not any("labels" in alone.collate(kept, np.random.default_rng(s)) for s in range(50))


def train(steps: int, **options: Any) -> list[dict[str, float]]:
    """What was logged while tiny documents were learnt."""
    encoder, objective = made(**options)
    encoder.train()
    torch.manual_seed(0)
    trained = [*encoder.parameters(), *objective.parameters()]
    optimizer = torch.optim.AdamW(trained, lr=2e-3)
    logged = []
    for number in range(steps):
        batch = batch_of(objective, (number % 3) * 8, count=8)
        found = objective.loss(encoder, batch)
        found.total.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        optimizer.zero_grad()
        objective.after_step(encoder, batch, number, steps)
        figures = {**found.parts, **found.stats}
        logged.append({n: float(torch.as_tensor(figure).detach()) for n, figure in figures.items()})
        assert all(np.isfinite(list(logged[-1].values())))
    return logged


def mean(logged: list[dict[str, float]], name: str) -> float:
    return float(np.mean([row[name] for row in logged]))


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"bn_mode": "vanilla", "bank": "shared"},
        {"normalize": False, "temperature": 1.0, "bank": "none"},
    ],
)
def test_the_loss_falls_with_every_switch(options: dict[str, Any]) -> None:
    logged = train(40, **options)
    start, end = logged[3:9], logged[-6:]  # the bank is full by then
    assert mean(end, "ccp") < 0.8 * mean(start, "ccp")


@pytest.mark.slow
def test_without_batch_norm_the_same_run_collapses_and_with_it_it_learns() -> None:
    alike = math.log(15 + 16)  # all vectors equal: nothing is told apart
    collapsed, learnt = train(60, bn_mode="none")[-6:], train(60)[-6:]
    assert mean(collapsed, "ccp") == pytest.approx(alike, abs=0.05)
    assert mean(collapsed, "z_std_ratio") < 0.2
    assert mean(learnt, "ccp") < 0.7 * alike
    assert mean(learnt, "z_std_ratio") > 0.5
    assert mean(learnt, "ccp_accuracy") > mean(collapsed, "ccp_accuracy") + 0.2

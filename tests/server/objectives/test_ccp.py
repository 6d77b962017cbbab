"""CCP as an objective: the toggle, the bank, the warm-up, and resuming to the bit."""

from __future__ import annotations

import copy
import io
import math
import random
from typing import Any

import numpy as np
import pytest
import torch

from pocketquery.sdk.errors import InvalidInputError
from pocketquery.server.corpus.groups import Group
from pocketquery.server.modeling import SentenceEncoder
from pocketquery.server.objectives import build_objective
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


def made(**options: Any) -> tuple[SentenceEncoder, Ccp]:
    encoder = bert_teacher(layers=1, width=32)
    torch.manual_seed(0)
    banked = {"bank": "language", "bank_size": 16, "bank_warmup": 0}
    settings: dict[str, Any] = {"mlm_probability": 0.0, "bn_warmup": 0, **banked} | options
    return encoder, Ccp(encoder, CcpConfig(**settings))


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
    for mode in ("vanilla", "vanilla_separate", "none"):
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


def test_the_rows_of_a_mixed_batch_read_the_banks_of_their_languages() -> None:
    encoder, objective = made(batch_language="mixed", bn_mode="none")
    assert not objective.by_language
    rng = random.Random(0)
    groups = [document(0, "en"), document(1, "fr"), document(2, "en"), document(3, "fr")]
    pairs = [pair for group in groups if (pair := objective.draw(group, rng)) is not None]
    mixed = objective.collate(pairs, np.random.default_rng(0))
    step(encoder, objective, mixed)
    assert objective.bank is not None
    assert [len(objective.bank.read(key).vectors) for key in ("en", "fr")] == [2, 2]
    bank, owner = objective._bank_rows(mixed)
    _, dropped = objective._masks(mixed, bank, owner)
    fresh = dropped[:, 8:]
    # English rows 0, 2, 4, 6 are kept from the last two columns, which are French.
    assert fresh[0::2, 2:].all()
    assert fresh[1::2, :2].all()
    # Row 0 sees the English sentence of the other document, and not its own.
    assert fresh[0].tolist() == [True, False, True, True]


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


def test_stored_by_running_statistics_whichever_side_had_its_turn() -> None:
    found = {}
    for option in ("as_trained", "running"):
        encoder, objective = made(bank_side=option)
        encoder.eval()
        step(encoder, objective, batch_of(objective, 40))  # contexts by running statistics
        batch = batch_of(objective, 0)
        objective.loss(encoder, batch)  # contexts by batch statistics
        pooled = encoder.pooled(batch["input_ids"], batch["attention_mask"])[6:]
        running = objective.head(pooled, batch_statistics=False)
        objective.after_step(encoder, batch, 0, 1)
        assert objective.bank is not None
        stored = objective.bank.read("en").vectors[6:12]
        found[option] = torch.allclose(stored, torch.nn.functional.normalize(running, dim=-1))
    assert found == {"as_trained": False, "running": True}


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
    encoder, objective = made(bn_warmup=60)
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


def test_padding_does_not_change_the_loss() -> None:
    encoder, objective = made()
    encoder.eval()
    batch = batch_of(objective, 0)
    padded = dict(batch)
    for name, filler in (("input_ids", encoder.tokenizer.pad_token_id), ("attention_mask", 0)):
        extra = torch.full((len(batch[name]), 7), filler)
        padded[name] = torch.cat([batch[name], extra], dim=1)
    assert value(encoder, objective, padded) == pytest.approx(
        value(encoder, objective, batch), abs=1e-5
    )


def test_the_order_of_the_pairs_does_not_matter() -> None:
    encoder, objective = made()
    encoder.eval()
    batch = batch_of(objective, 0)
    order = torch.tensor([3, 1, 5, 0, 2, 4])
    order = torch.cat([order, order + 6])
    mixed = {name: v[order] for name, v in batch.items() if isinstance(v, torch.Tensor)}
    mixed["languages"] = batch["languages"]
    loss = value(encoder, objective, batch)
    assert value(encoder, objective, mixed) == pytest.approx(loss, abs=1e-5)


def test_resuming_gives_the_next_losses_to_the_bit() -> None:
    def run(encoder: SentenceEncoder, objective: Ccp, optimizer: Any, steps: range) -> list[float]:
        losses = []
        for number in steps:
            torch.manual_seed(number)
            language = "en" if number % 3 else "fr"
            batch = batch_of(objective, 9 * number, language)
            loss = objective.loss(encoder, batch).total
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            optimizer.zero_grad()
            objective.after_step(encoder, batch, number, 12)
            losses.append(float(loss.detach()))
        return losses

    def begun() -> tuple[SentenceEncoder, Ccp, Any]:
        encoder, objective = made(bn_warmup=2, mlm_probability=0.3, bank_warmup=1)
        encoder.train()
        trained = [*encoder.parameters(), *objective.parameters()]
        return encoder, objective, torch.optim.AdamW(trained, lr=1e-3)

    encoder, objective, optimizer = begun()
    run(encoder, objective, optimizer, range(7))
    file = io.BytesIO()
    torch.save([part.state_dict() for part in (encoder, objective, optimizer)], file)
    straight = run(encoder, objective, optimizer, range(7, 12))
    again = begun()
    file.seek(0)
    for part, state in zip(again, torch.load(file, weights_only=True), strict=True):
        part.load_state_dict(state)
    assert run(*again, range(7, 12)) == straight
    assert len(set(straight)) == 5
    for name, tensor in objective.state_dict().items():
        other = again[1].state_dict()[name]
        torch.testing.assert_close(tensor, other, equal_nan=True, rtol=0, atol=0)


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


def test_staleness_is_one_where_the_weights_stay_and_falls_where_they_move() -> None:
    figures = {}
    for moved in (False, True):
        encoder, objective = made(bank_size=12)
        encoder.train()  # dropout alone is no staleness
        objective.batch_side.fill_(0)
        torch.manual_seed(0)
        for number in range(4):
            batch = batch_of(objective, 9 * number)
            objective.loss(encoder, batch)
            if objective.head.norm is not None:
                objective.head.norm.running_mean.zero_()
                objective.head.norm.running_var.fill_(1)
            if moved:
                with torch.no_grad():
                    for parameter in encoder.parameters():
                        parameter.add_(0.05 * torch.randn_like(parameter))
            objective.after_step(encoder, batch, number, 4)
        found = objective.loss(encoder, batch_of(objective, 90))
        figures[moved] = float(found.stats["staleness"])
        assert encoder.training
    assert figures[False] == pytest.approx(1, abs=1e-5)
    assert figures[True] < 0.95


def test_staleness_is_measured_when_a_stay_ends_and_then_of_other_texts() -> None:
    encoder, objective = made(bank_size=12)
    followed, known = [], []
    for number in range(5):  # six texts each: followed after 0, gone after 2
        step(encoder, objective, batch_of(objective, 9 * number))
        known.append(not bool(objective.staleness.cosine.isnan()))
        followed.append(objective.staleness.ids.clone())
    assert known == [False, False, True, True, True]
    assert torch.equal(followed[0], followed[1])
    assert not torch.equal(followed[2], followed[3])


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


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"denominator": "cross"},
        {"bn_mode": "vanilla"},
        {"bn_mode": "vanilla_separate", "bank": "shared"},
        {"normalize": False, "temperature": 1.0, "bank": "none"},
        {"bank": "none", "head_act": "none", "pooling": "cls", "dimension": 8},
        {"same_doc_negatives": True, "exclude_other_positives": False, "bank_side": "running"},
    ],
)
def test_the_loss_falls_with_every_switch(options: dict[str, Any]) -> None:
    logged = train(40, **options)
    start, end = logged[3:9], logged[-6:]  # the bank is full by then
    assert mean(end, "ccp") < 0.8 * mean(start, "ccp")


def test_without_batch_norm_the_same_run_collapses_and_with_it_it_learns() -> None:
    alike = math.log(15 + 16)  # all vectors equal: nothing is told apart
    collapsed, learnt = train(60, bn_mode="none")[-6:], train(60)[-6:]
    assert mean(collapsed, "ccp") == pytest.approx(alike, abs=0.05)
    assert mean(collapsed, "z_std_ratio") < 0.2
    assert mean(learnt, "ccp") < 0.7 * alike
    assert mean(learnt, "z_std_ratio") > 0.5
    assert mean(learnt, "ccp_accuracy") > mean(collapsed, "ccp_accuracy") + 0.2


def test_what_ships_is_the_encoder_alone() -> None:
    encoder, objective = made()
    assert objective.export(encoder) is encoder
    assert encoder.head is None


def test_options_arrive_from_text() -> None:
    objective = build_objective(
        "ccp", bert_teacher(layers=1, width=32), {"normalize": "false", "window_len": "3"}
    )
    assert isinstance(objective, Ccp)
    assert not objective.config.normalize
    assert objective.config.window_len == 3
    assert objective.by_language


@pytest.mark.parametrize(
    ("option", "wrong"),
    [
        ("window_len", 1),
        ("temperature", 0.0),
        ("temperature", float("nan")),
        ("denominator", "n"),
        ("bn_mode", "batch"),
        ("bank", "all"),
        ("bank_size", 0),
        ("bank_warmup", -1),
        ("head_act", "gelu"),
        ("mlm_probability", 1.0),
        ("bn_momentum", 1.5),
        ("batch_language", "two"),
        ("pooling", "max"),
    ],
)
def test_a_setting_that_cannot_be_is_refused_by_name(option: str, wrong: Any) -> None:
    with pytest.raises(InvalidInputError, match=option):
        CcpConfig(**{option: wrong})

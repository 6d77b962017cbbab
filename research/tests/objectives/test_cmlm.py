"""CMLM: the neighbour's vector before the sentence, its gradient, positions and padding."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from pocketquery.sdk.errors import InvalidInputError
from pocketquery.server.corpus.groups import Group
from pocketquery.server.modeling import SentenceEncoder
from pocketquery.server.objectives import Batch, build_objective
from pocketquery.server.objectives.shared.masking import IGNORED
from pocketquery_research.objectives.cmlm import Cmlm, prepend
from tests.tiny_models import WORDS, bert_teacher, electra_teacher, sentences, xlmr_teacher

TEACHER = bert_teacher(layers=1, width=32)
TEXTS = sentences(12)
PAIRS = [(TEXTS[i], TEXTS[i + 1]) for i in range(0, 12, 2)]


def objective(encoder: SentenceEncoder = TEACHER, **options: Any) -> Cmlm:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        built = build_objective("cmlm", encoder, {"projections": 3, **options})
    assert isinstance(built, Cmlm)
    return built


def batch_of(built: Cmlm, seed: int = 0) -> Batch:
    return built.collate(PAIRS, np.random.default_rng(seed))


def test_conditions_come_first_and_are_all_seen() -> None:
    conditions, embeddings = torch.ones(2, 3, 4), torch.zeros(2, 5, 4)
    mask = torch.tensor([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]])
    together, seen = prepend(conditions, embeddings, mask)
    assert together[:, :3].eq(1).all()
    assert together[:, 3:].eq(0).all()
    assert seen.tolist() == [[1] * 6 + [0] * 2, [1] * 8]


def test_the_loss_reaches_the_neighbours_embeddings() -> None:
    built, embedded = objective(), []
    table = TEACHER.backbone.get_input_embeddings()
    hook = table.register_forward_hook(lambda _, __, output: embedded.append(output))
    loss = built.loss(TEACHER, batch_of(built)).total
    hook.remove()
    neighbours, masked = embedded
    to_neighbours, to_masked = torch.autograd.grad(loss, (neighbours, masked))
    ordinary = batch_of(built)["first_mask"].bool()
    assert (to_neighbours[ordinary].abs().sum(dim=-1) > 0).all()
    assert float(to_neighbours[~ordinary].abs().sum()) == 0
    assert float(to_masked.abs().sum()) > 0


def test_the_states_behind_the_conditions_are_the_ones_that_predict() -> None:
    built, found = objective(), []
    hook = TEACHER.backbone.register_forward_hook(lambda _, __, output: found.append(output[0]))
    batch = batch_of(built)
    loss = built.loss(TEACHER, batch).total
    hook.remove()
    (gradient,) = torch.autograd.grad(loss, found[1])
    touched = gradient.abs().sum(dim=-1) > 0
    assert not touched[:, :3].any()
    assert torch.equal(touched[:, 3:], batch["labels"] != IGNORED)


def test_another_neighbour_changes_the_loss_and_another_order_does_not() -> None:
    built = objective()
    batch = batch_of(built)
    loss = built.loss(TEACHER, batch).total.detach()
    rolled = {key: value.roll(1, 0) for key, value in batch.items()}
    assert float(built.loss(TEACHER, rolled).total.detach()) == pytest.approx(float(loss), abs=1e-5)
    for key in ("first_ids", "first_mask"):
        rolled[key] = batch[key]
    assert abs(float(built.loss(TEACHER, rolled).total.detach()) - float(loss)) > 1e-3


def test_the_sentence_and_its_conditions_fit_the_positions(tmp_path: Path) -> None:
    # 64 positions each, of which XLM-R's tokens have all but the two up to its padding's.
    for encoder in (TEACHER, xlmr_teacher(tmp_path), electra_teacher()):
        built = objective(encoder, projections=15, max_length=64)
        assert built.second_length == 48
        built = objective(encoder, projections=40, max_length=64)
        assert built.second_length == 24
        text = " ".join(WORDS)
        batch = built.collate([(text, text)] * 2, np.random.default_rng(0))
        assert batch["input_ids"].shape == (2, 24)
        assert torch.isfinite(built.loss(encoder, batch).total)
        with pytest.raises(InvalidInputError, match="projections is 61"):
            objective(encoder, projections=61)


def test_neighbours_are_drawn_from_documents_and_sessions() -> None:
    built, rng = objective(), random.Random(0)
    assert built.draw(Group("d", ("a", "b")), rng) == ("a", "b")
    assert built.draw(Group("s", ("a", "b", "c"), ("u", "u", "agent")), rng) == ("a b", "c")
    assert built.draw(Group("d", ("alone", "")), rng) is None


def test_a_neighbour_that_tells_the_words_makes_them_predictable() -> None:
    """The second sentence repeats the first's word: without the vector it is a guess of 27."""
    encoder = bert_teacher(layers=1, width=32)
    built, rng = objective(encoder), random.Random(0)
    optimizer = torch.optim.AdamW([*encoder.parameters(), *built.parameters()], lr=3e-3)
    losses = []
    for step in range(150):
        words = [rng.choice(WORDS) for _ in range(32)]
        batch = built.collate([(word, word) for word in words], np.random.default_rng(step))
        loss = built.loss(encoder, batch).total
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        optimizer.zero_grad()
        losses.append(float(loss.detach()))
    # A guess costs ln 27 = 3.30 where the word is hidden, which is nine times of ten.
    assert np.mean(losses[-10:]) < 2

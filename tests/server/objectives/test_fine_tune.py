"""Fine-tuning on triples: the losses by hand, what counts as a negative, resuming, learning."""

from __future__ import annotations

import math
import random
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
import torch

from pocketquery.server.corpus.groups import Group
from pocketquery.server.modeling import SentenceEncoder
from pocketquery.server.objectives.fine_tune import (
    FineTune,
    FineTuneConfig,
    Triple,
    pairwise_loss,
    passage_cross_entropy,
)
from tests.tiny_models import WORDS, bert_teacher

SCORES = torch.tensor([[2.0, 1.0, 0.0, -1.0], [0.5, 0.0, 1.5, 3.0]])


def softplus(x: float) -> float:
    return math.log(1 + math.exp(x))


def test_the_pairwise_loss_by_hand() -> None:
    negatives = torch.tensor([[0, 1, 1, 0], [0, 0, 0, 1]], dtype=torch.bool)
    found = pairwise_loss(SCORES, torch.tensor([0, 2]), negatives)
    by_hand = (softplus(1 - 2) + softplus(0 - 2) + softplus(3 - 1.5)) / 3
    assert float(found) == pytest.approx(by_hand, abs=1e-6)


def test_without_negatives_the_pairwise_loss_is_zero() -> None:
    scores = SCORES.clone().requires_grad_()
    loss = pairwise_loss(scores, torch.tensor([0, 2]), torch.zeros(2, 4, dtype=torch.bool))
    loss.backward()  # type: ignore[no-untyped-call]
    assert float(loss.detach()) == 0
    assert scores.grad is not None


def test_the_cross_entropy_by_hand_leaves_out_other_answers_but_never_the_own() -> None:
    answers = torch.tensor([[1, 1, 0, 0], [0, 0, 1, 0]], dtype=torch.bool)
    found = passage_cross_entropy(SCORES, torch.tensor([0, 2]), answers)
    first = math.log(math.exp(2) + math.exp(0) + math.exp(-1)) - 2
    second = math.log(math.exp(0.5) + 1 + math.exp(1.5) + math.exp(3)) - 1.5
    assert float(found) == pytest.approx((first + second) / 2, abs=1e-6)
    everything = torch.ones(2, 4, dtype=torch.bool)
    assert float(passage_cross_entropy(SCORES, torch.tensor([0, 2]), everything)) == 0


def test_negatives_are_drawn_anew_and_never_the_positive() -> None:
    objective = FineTune(bert_teacher(), FineTuneConfig(negatives=3))
    group = Group("a", ("q", "p", *WORDS[:6], "p"))
    drawn = [objective.draw(group, random.Random(seed)) for seed in range(20)]
    assert len({triple.negatives for triple in drawn if triple}) > 10
    for triple in drawn:
        assert triple is not None
        assert (triple.query, triple.positive) == ("q", "p")
        assert len(set(triple.negatives)) == 3
        assert set(triple.negatives) <= set(WORDS[:6])
    assert objective.draw(group, random.Random(0)) == drawn[0]


def test_a_query_without_negatives_is_left_out_of_the_pairwise_loss_only() -> None:
    pairwise, contrast = (
        FineTune(bert_teacher(), FineTuneConfig(loss=loss)) for loss in ("ranknet", "info_nce")
    )
    for texts in (("q", "p"), ("q", "p", "p")):
        assert pairwise.draw(Group("a", texts), random.Random(0)) is None
        assert contrast.draw(Group("a", texts), random.Random(0)) == Triple("q", "p", ())
    assert contrast.draw(Group("a", ("q",)), random.Random(0)) is None
    assert (pairwise.least_texts, contrast.least_texts) == (3, 2)


EXAMPLES = [
    Triple("water", "the water", ("rock", "king")),
    Triple("sky", "the sky", ("the water",)),
    Triple("Water ", "the river", ("rock", "the water")),
]


def test_a_passage_is_encoded_once_and_an_answer_is_no_negative() -> None:
    objective = FineTune(bert_teacher())
    batch = objective.collate(EXAMPLES, np.random.default_rng(0))
    # Columns: the water, rock, king, the sky, the river.
    assert batch["passage_ids"].shape[0] == 5
    assert batch["positives"].tolist() == [0, 3, 4]
    assert batch["answers"].int().tolist() == [[1, 0, 0, 0, 1], [0, 0, 0, 1, 0], [1, 0, 0, 0, 1]]
    # The third query is the first one's, whose passage was mined as its negative.
    assert batch["negatives"].int().tolist() == [[0, 1, 1, 0, 0], [1, 0, 0, 0, 0], [0, 1, 0, 0, 0]]


@pytest.mark.parametrize("loss", ["ranknet", "info_nce"])
def test_the_loss_is_the_slow_twins(loss: Literal["ranknet", "info_nce"]) -> None:
    encoder = bert_teacher(prompts={"query": "the ", "document": "of "})
    objective = FineTune(encoder, FineTuneConfig(loss=loss, temperature=0.2))
    with torch.no_grad():
        batch = objective.collate(EXAMPLES, np.random.default_rng(0))
        found = objective.loss(encoder, batch)
    terms = []
    texts = list(dict.fromkeys(t for e in EXAMPLES for t in (e.positive, *e.negatives)))
    answers = {"water": {"the water", "the river"}, "sky": {"the sky"}}
    for example in EXAMPLES:
        (query,) = encoder.encode_query([example.query])
        scores = dict(zip(texts, encoder.encode_document(texts) @ query / 0.2, strict=True))
        own, right = scores[example.positive], answers[example.query.strip().lower()]
        if loss == "ranknet":
            terms += [softplus(scores[t] - own) for t in example.negatives if t not in right]
        else:
            rivals = [scores[t] for t in texts if t == example.positive or t not in right]
            terms.append(math.log(sum(map(math.exp, rivals))) - own)
    assert float(found.total) == pytest.approx(np.mean(terms), abs=1e-4)
    assert 0 <= float(found.stats["first"]) <= 1


def triples() -> list[Triple]:
    """A query shares a word with its passage; its negatives share the other words of it."""
    rows = []
    for i, word in enumerate(WORDS):
        rest = [WORDS[(i + k) % 27] for k in (3, 7, 11)]
        negatives = tuple(f"{WORDS[(i + k) % 27]} {' '.join(rest)}" for k in (1, 2, 5))
        rows.append(Triple(word, f"{word} {' '.join(rest)}", negatives))
    return rows


def train(
    encoder: SentenceEncoder, objective: FineTune, optimizer: Any, steps: range
) -> list[float]:
    losses = []
    encoder.train()
    for step in steps:
        torch.manual_seed(step)
        batch = objective.collate(
            random.Random(step).sample(triples(), 9), np.random.default_rng(step)
        )
        loss = objective.loss(encoder, batch).total
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        optimizer.zero_grad()
        losses.append(float(loss.detach()))
    return losses


def figures(encoder: SentenceEncoder, objective: FineTune) -> dict[str, float]:
    encoder.eval()
    with torch.no_grad():
        batch = objective.collate(triples(), np.random.default_rng(0))
        stats = objective.loss(encoder, batch).stats
    return {name: float(value) for name, value in stats.items()}


@pytest.mark.parametrize("loss", ["ranknet", "info_nce"])
def test_it_learns_and_a_resumed_run_is_the_same_to_the_bit(
    loss: Literal["ranknet", "info_nce"], tmp_path: Path
) -> None:
    encoder = bert_teacher(layers=1, width=32)
    objective = FineTune(encoder, FineTuneConfig(loss=loss))
    optimizer = torch.optim.AdamW(encoder.parameters(), lr=3e-3)
    start = figures(encoder, objective)
    losses = train(encoder, objective, optimizer, range(40))
    assert np.mean(losses[-5:]) < 0.5 * np.mean(losses[:5])
    trained = figures(encoder, objective)
    assert trained["first"] > start["first"] + 0.15
    assert trained["lead"] > start["lead"] + 0.1
    encoder.train()
    torch.save([encoder.state_dict(), optimizer.state_dict()], tmp_path / "state.pt")
    expected = train(encoder, objective, optimizer, range(40, 43))
    again = bert_teacher(layers=1, width=32, seed=1)
    resumed = torch.optim.AdamW(again.parameters(), lr=3e-3)
    weights, moments = torch.load(tmp_path / "state.pt", weights_only=True)
    again.load_state_dict(weights)
    resumed.load_state_dict(moments)
    assert train(again, FineTune(again, objective.config), resumed, range(40, 43)) == expected

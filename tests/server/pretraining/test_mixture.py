"""What a micro-batch of a mixture consists of: pure in its number, by weight or by turns."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch

from pocketquery.sdk.errors import InvalidInputError
from pocketquery.server.corpus import Passages
from pocketquery.server.corpus.groups import Group, Kind
from pocketquery.server.modeling import SentenceEncoder
from pocketquery.server.objectives import build_objective
from pocketquery.server.objectives.mlm import Mlm
from pocketquery.server.objectives.objective import Batch, LossParts, Objective
from pocketquery.server.pretraining import Part, PretrainingConfig, pretrain
from pocketquery.server.pretraining.mixture import MixtureStream, left_out_of, name_left_out
from pocketquery.server.training.log import append_line, read_log
from tests.server.pretraining.small_run import CONFIG, documents, losses, make_encoder, make_parts
from tests.tiny_models import wordpiece_tokenizer

TOKENIZER = wordpiece_tokenizer()


def stream(parts: Sequence[Part], a_step: int = 1, **changes: Any) -> MixtureStream:
    return MixtureStream(parts, replace(CONFIG, **changes), TOKENIZER, a_step)


def parts_of(**weights: float) -> list[Part]:
    return make_parts(make_encoder(), **weights)


def same(first: Batch | None, second: Batch | None) -> bool:
    assert first is not None
    assert second is not None
    return all(torch.equal(first[name], second[name]) for name in first)


def test_a_micro_batch_is_the_same_whatever_was_taken_before() -> None:
    parts = parts_of(mlm=1, simcse=1)
    one, other = stream(parts), stream(parts)
    for number in range(20):
        one[number]
    for number in (7, 0, 19):
        for first, second in zip(one[number], other[number], strict=True):
            assert same(first.batch, second.batch)


def test_a_sum_has_a_batch_of_every_part_of_its_own_groups() -> None:
    pieces = stream(parts_of(mlm=1, simcse=2))[3]
    assert [piece.part for piece in pieces] == [0, 1]
    assert [piece.examples for piece in pieces] == [8, 8]
    masks = [piece.batch["attention_mask"] for piece in pieces if piece.batch]
    assert [piece.tokens for piece in pieces] == [int(mask.sum()) for mask in masks]


def test_in_turns_every_step_has_one_part_as_often_as_its_weight_says() -> None:
    mixed = stream(parts_of(mlm=3, simcse=1), a_step=2, mixture="turns")
    taken = [[piece.part for piece in mixed[number]] for number in range(512)]
    assert all(len(parts) == 1 for parts in taken)
    assert taken[::2] == taken[1::2]  # both micro-batches of a step
    assert sum(parts == [0] for parts in taken) == 384


def test_in_turns_each_part_takes_all_its_groups_in_an_epoch() -> None:
    parts = parts_of(mlm=1, simcse=1)
    mixed = stream(parts, mixture="turns")
    plan = mixed.plans[1]
    rows = np.concatenate([plan.rows(number) for number in range(7)])
    assert len(set(rows.tolist())) == 56
    own = [piece for number in range(20) for piece in mixed[number] if piece.part == 1]
    alone = stream(parts)
    assert same(own[2].batch, alone[2][1].batch)


def test_the_loss_of_a_sum_is_the_weighted_sum() -> None:
    config = replace(CONFIG, steps=1)
    mlm = losses(config, weights={"mlm": 1})[0]
    both = losses(config, weights={"mlm": 1, "simcse": 1})[0]
    weighted = losses(config, weights={"mlm": 2, "simcse": 3})[0]
    simcse = both - mlm
    assert simcse > 0
    assert weighted == pytest.approx(2 * mlm + 3 * simcse, rel=1e-5)


def test_mixtures_resume_to_the_bit(tmp_path: Any) -> None:
    config = replace(CONFIG, mixture="turns", accumulate=2)
    weights = {"mlm": 2.0, "simcse": 1.0}
    whole = losses(config, weights=weights)
    losses(config, tmp_path, weights=weights, stop_after=7)
    assert losses(config, tmp_path, weights=weights) == whole[4:]


def test_a_token_budget_bounds_the_padded_batch() -> None:
    """The costs are estimates, so a batch may exceed it a little."""
    lengths = [1 + i * 7 % 25 for i in range(120)]
    groups = [Group(str(i), ("water " * n,)) for i, n in enumerate(lengths)]
    source = type(documents())(groups, "documents")
    part = Part(build_objective("mlm", make_encoder()), source)
    budgeted = stream([part], token_budget=120)
    sizes = [
        piece.batch["input_ids"].shape for n in range(15) for piece in budgeted[n] if piece.batch
    ]
    assert max(rows * length for rows, length in sizes) <= 150
    assert len({rows for rows, _ in sizes}) > 3


class _ByLanguage(Mlm):
    by_language = True
    least_examples = 2


def test_languages_left_out_are_named_by_objective_with_their_groups() -> None:
    groups = [Group(f"{lang}{i}", ("water",), lang=lang) for lang in ("de", "en") for i in range(9)]
    groups.append(Group("sw", ("water",), lang="sw"))
    source = type(documents())(groups, "documents")
    encoder = make_encoder()
    parts = [Part(_ByLanguage(encoder), source)]
    assert stream(parts).languages_left_out() == {"mlm": {"sw": 1}}
    assert stream([Part(Mlm(encoder), source)]).languages_left_out() == {}


class _Looking(Objective[str]):
    """Notes what it was given to draw from."""

    name: ClassVar[str] = "looking"
    kinds: ClassVar[tuple[Kind, ...]] = ("documents", "pairs")

    def __init__(self, encoder: SentenceEncoder, *, passages: bool) -> None:
        super().__init__()
        self.passages = passages
        self.sizes: set[int] = set()
        self.tokenizer = encoder.tokenizer

    def draw(self, group: Group, rng: random.Random) -> str | None:
        self.sizes.add(len(group.texts))
        return group.texts[0]

    def collate(self, examples: Sequence[str], rng: np.random.Generator) -> Batch:
        return {"count": len(examples)}

    def loss(self, encoder: SentenceEncoder, batch: Batch) -> LossParts:
        return LossParts(next(encoder.parameters()).sum() * 0, {})


@pytest.mark.parametrize("passages", [False, True])
def test_an_objective_of_passages_is_handed_pieces_of_documents(passages: bool) -> None:
    source = documents(8, texts=60)
    encoder = make_encoder()
    objective = _Looking(encoder, passages=passages)
    pretrain(encoder, [Part(objective, source)], PretrainingConfig(steps=40, batch_size=4))
    pieces = set(Passages(source).counts().tolist())
    assert objective.sizes == (pieces if passages else {60})
    assert max(pieces) < 60


class _Mute(Mlm):
    """Has an example in no group."""

    def draw(self, group: Group, rng: random.Random) -> str | None:
        return None


def test_a_part_that_never_has_a_batch_ends_the_run() -> None:
    encoder = make_encoder()
    parts = [*make_parts(encoder), Part(_Mute(encoder), documents())]
    with pytest.raises(InvalidInputError, match="100 batches of documents in a row gave mlm fewer"):
        pretrain(encoder, parts, replace(CONFIG, steps=200))


def test_languages_left_out_are_read_back_and_named(tmp_path: Path) -> None:
    left_out = {"ccp": {"sw": 1, "": 0}, "auto_mlm": {"ti": 2}}
    append_line(tmp_path / "log.jsonl", {"step": 0, "languages_left_out": left_out})
    append_line(tmp_path / "log.jsonl", {"step": 2, "loss": 1.0})
    assert left_out_of(read_log(tmp_path / "log.jsonl")) == left_out
    assert left_out_of([{"step": 2, "loss": 1.0}]) == {}
    assert name_left_out(left_out) == (
        "ccp: sw (1 usable group), texts without one (0 usable groups); "
        "auto_mlm: ti (2 usable groups)"
    )

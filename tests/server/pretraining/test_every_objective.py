"""Every objective through the loop: resumed to the bit, whatever it keeps beside the encoder."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest
import torch

from pocketquery.server.corpus.groups import Group, GroupList, Kind, Source
from pocketquery.server.modeling import SentenceEncoder
from pocketquery.server.objectives import OBJECTIVES, build_objective
from pocketquery.server.pretraining import Part, PretrainingConfig, pretrain
from pocketquery.server.pretraining.command_parts import make_parts
from tests.server.pretraining.small_run import losses
from tests.tiny_models import bert_teacher, sentences

CONFIG = PretrainingConfig(
    steps=8, batch_size=8, learning_rate=1e-3, checkpoint_every=3, log_every=3, accumulate=2
)
TEXTS = sentences(200)


def source(kind: Kind) -> GroupList:
    """Groups of a kind, in two languages where a batch may ask for one."""
    sizes = {"documents": 6, "sessions": 4, "pairs": 2, "triples": 10, "queries": 1}
    groups = []
    for number in range(40):
        texts = tuple(TEXTS[(number * 3 + i * 7) % 200] for i in range(sizes[kind]))
        roles = ("user", "agent", "user", "agent") if kind == "sessions" else ()
        lang = "en" if number % 2 else "fr"
        groups.append(Group(str(number), texts, roles, lang, title=kind == "documents"))
    return GroupList(groups, kind)


def made(name: str) -> tuple[SentenceEncoder, list[Part]]:
    encoder = bert_teacher(layers=2, width=32)
    torch.manual_seed(0)
    objective = build_objective(name, encoder)
    return encoder, [Part(objective, source(objective.kinds[0]))]


@pytest.mark.parametrize("name", OBJECTIVES)
def test_interrupted_it_goes_on_to_the_same_losses(name: str, tmp_path: Path) -> None:
    def make() -> tuple[SentenceEncoder, list[Part]]:
        return made(name)

    whole = losses(CONFIG, make=make)
    losses(CONFIG, tmp_path, make=make, stop_after=5)
    assert losses(CONFIG, tmp_path, make=make) == whole[3:]
    assert all(torch.isfinite(torch.tensor(whole)))


@pytest.mark.parametrize("name", OBJECTIVES)
def test_what_it_ships_is_an_encoder_that_can_be_saved(name: str, tmp_path: Path) -> None:
    encoder, parts = made(name)
    shipped = pretrain(encoder, parts, replace(CONFIG, steps=1))
    shipped.save(tmp_path / "model")
    again = SentenceEncoder.load(tmp_path / "model")
    found, expected = again.encode(TEXTS[:3]), shipped.encode(TEXTS[:3])
    assert abs(found - expected).max() < 1e-5
    assert again.dimension == shipped.dimension


@pytest.mark.parametrize("name", [name for name in OBJECTIVES if name != "gur"])
@pytest.mark.parametrize("gur_first", [True, False])
def test_it_learns_beside_gur_in_either_order(name: str, gur_first: bool) -> None:
    """GUR adds tokens to the vocabulary: after the other was built, where it comes second."""
    order = ["gur", name] if gur_first else [name, "gur"]
    sources: dict[Kind, Source] = {kind: source(kind) for kind in get_args(Kind)}
    kept: list[Part] = []

    def make() -> tuple[SentenceEncoder, list[Part]]:
        encoder = bert_teacher(layers=1, width=32)
        rows = encoder.backbone.get_input_embeddings().num_embeddings
        weights = dict.fromkeys(order, 1.0)
        options: dict[str, dict[str, str]] = {each: {} for each in order}
        parts, _ = make_parts(encoder, sources, weights, options, held_out=0, seed=0)
        assert encoder.backbone.get_input_embeddings().num_embeddings > rows
        kept[:] = parts
        return encoder, parts

    found = losses(replace(CONFIG, steps=2, accumulate=1), make=make)
    assert len(found) == 2
    assert torch.isfinite(torch.tensor(found)).all()
    assert [part.objective.name for part in kept] == order
    assert found == losses(replace(CONFIG, steps=2, accumulate=1), make=make)

"""Every objective through the loop: resumed to the bit, whatever it keeps beside the encoder."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from pocketquery.server.corpus.groups import Group, GroupList, Kind
from pocketquery.server.modeling import SentenceEncoder
from pocketquery.server.objectives import OBJECTIVES, build_objective
from pocketquery.server.pretraining import Part, PretrainingConfig, pretrain
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

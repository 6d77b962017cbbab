"""Filling blanks and writing titles with a model that has learnt a few sentences by heart."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from pocketquery.sdk.errors import ArtifactNotFoundError, InvalidInputError
from pocketquery.server.objectives.gur import Gur, GurConfig, GurExample
from pocketquery.server.objectives.shared.infilling import Infiller
from tests.tiny_models import bert_teacher

FACTS = (
    "the leaf of the plant light sugar",
    "the norman king of the castle battle",
    "the rock of the mountain geology water",
    "the blood of the heart cell oxygen",
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model overfitted to :data:`FACTS` and to their last words as titles."""
    path = tmp_path_factory.mktemp("gur") / "model"
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        encoder = bert_teacher(layers=1, width=48)
        config = GurConfig(vector_size=16, max_length=24, rate_jitter=True, dropout=0.0)
        gur = Gur(encoder, config)
        pairs = [GurExample(fact, fact, fact) for fact in FACTS]
        titles = [GurExample(fact, fact.split()[-1], fact, writes_title=True) for fact in FACTS]
        optimizer = torch.optim.AdamW([*encoder.parameters(), *gur.parameters()], lr=3e-3)
        for step in range(150):
            batch = gur.collate([*pairs, *titles], np.random.default_rng(step))
            loss = gur.loss(encoder, batch).parts["lm"]
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            optimizer.zero_grad()
    exported = gur.eval().export(encoder)
    exported.save(path)
    gur.save_beside(path, exported)
    return path


def test_a_blank_is_filled_with_what_was_there(folder: Path) -> None:
    infiller = Infiller.load(folder)
    [found] = infiller.fill("the Norman king of the ___ battle")
    assert found.fillings == ("castle",)
    assert found.text == "the Norman king of the castle battle"  # the rest as it was written
    assert -0.5 < found.log_probability <= 0
    [found] = infiller.fill("the ____ of the heart ___ oxygen")
    assert found.fillings[0] == "blood"
    assert found.text == "the {} of the heart {} oxygen".format(*found.fillings)


def test_samples_are_distinct_and_the_likeliest_comes_first(folder: Path) -> None:
    infiller = Infiller.load(folder)
    options = {"samples": 12, "temperature": 3.0}
    found = infiller.fill("the rock of the ___", **options)  # type: ignore[arg-type]
    assert len({one.text for one in found}) == len(found) > 2
    scores = [one.log_probability for one in found]
    assert scores == sorted(scores, reverse=True)
    assert infiller.fill("the rock of the ___", **options) == found  # type: ignore[arg-type]
    other = infiller.fill("the rock of the ___", seed=1, **options)  # type: ignore[arg-type]
    assert other != found


def test_no_blank_takes_more_tokens_than_asked_for(folder: Path) -> None:
    infiller = Infiller.load(folder)
    fillings = [
        [
            one.fillings[0]
            for one in infiller.fill("the ___", samples=20, temperature=9.0, most_tokens=most)
        ]
        for most in (1, 2)
    ]
    assert max(len(filling.split()) for filling in fillings[0]) == 1
    assert max(len(filling.split()) for filling in fillings[1]) == 2


def test_titles(folder: Path) -> None:
    infiller = Infiller.load(folder)
    assert [infiller.title(fact) for fact in FACTS] == [fact.split()[-1] for fact in FACTS]
    infiller.title(" ".join(FACTS * 9))  # longer than the encoder reads


def test_texts_that_cannot_be_filled_are_refused(folder: Path) -> None:
    infiller = Infiller.load(folder)
    with pytest.raises(InvalidInputError, match=r"has 0 blanks \(___\); expected 1 to"):
        infiller.fill("no blank __ here")
    with pytest.raises(InvalidInputError, match="has 40 blanks"):
        infiller.fill("a ___ " * 40)
    with pytest.raises(InvalidInputError, match="Shorten it"):
        infiller.fill("water " * 80 + "___")
    with pytest.raises(InvalidInputError, match="samples is 0"):
        infiller.fill("a ___", samples=0)


def test_a_model_without_a_decoder_cannot_fill(tmp_path: Path) -> None:
    bert_teacher(layers=1, width=32).save(tmp_path / "plain")
    with pytest.raises(ArtifactNotFoundError, match=r"holds no infilling\.safetensors"):
        Infiller.load(tmp_path / "plain")

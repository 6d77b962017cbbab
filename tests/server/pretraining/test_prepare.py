"""An objective that must know the corpus is told of it before the first step, and only then."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from pocketquery.server.corpus import Passages
from pocketquery.server.corpus.groups import Group, GroupList
from pocketquery.server.objectives.cpdae import Cpdae, CpdaeConfig
from pocketquery.server.pretraining import Part, PretrainingConfig, pretrain
from tests.tiny_models import bert_teacher, sentences


def documents() -> GroupList:
    texts = sentences(80)
    groups = [Group(str(i), tuple(texts[4 * i : 4 * i + 4])) for i in range(20)]
    return GroupList(groups, "documents")


def trained(run: Path | None, steps: int) -> Cpdae:
    encoder = bert_teacher(layers=1, width=32)
    torch.manual_seed(0)  # the heads are drawn
    objective = Cpdae(encoder, CpdaeConfig(max_length=32))
    config = PretrainingConfig(steps=steps, batch_size=8, checkpoint_every=1, warmup=0)
    pretrain(encoder, [Part(objective, documents())], config, run=run)
    return objective


def test_document_frequencies_are_those_of_the_passages_trained_on() -> None:
    objective = trained(None, steps=1)
    assert int(objective.texts) == len(Passages(documents()))
    assert int(objective.counts.sum()) > 0


def test_a_resumed_run_keeps_what_was_learnt_of_the_prior(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(Exception):
        pass

    def kill(self: Cpdae, *arguments: Any) -> None:
        if arguments[2] == 1:
            raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(Cpdae, "after_step", kill)
        with pytest.raises(Killed):
            trained(tmp_path / "run", steps=3)
    resumed, whole = trained(tmp_path / "run", steps=3), trained(None, steps=3)
    for name, value in whole.state_dict().items():
        assert torch.equal(value, resumed.state_dict()[name]), name

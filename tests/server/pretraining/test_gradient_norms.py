"""How hard each loss pulls: against a backward pass by hand, and in a run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from pocketquery.server.corpus.groups import Group, GroupList
from pocketquery.server.modeling import SentenceEncoder
from pocketquery.server.objectives import build_objective
from pocketquery.server.pretraining import Part
from pocketquery.server.pretraining.chunked_encoder import ChunkedEncoder
from pocketquery.server.pretraining.gradient_norms import gradient_norms, token_states
from pocketquery.server.training.log import read_log
from tests.server.pretraining.small_run import CONFIG, documents, losses, make_encoder
from tests.tiny_models import sentences


def tokens(encoder: SentenceEncoder) -> dict[str, torch.Tensor]:
    found: dict[str, torch.Tensor] = encoder.tokenize(sentences(6))
    return found


def test_the_norm_is_that_of_the_gradient_at_the_states() -> None:
    encoder = make_encoder()
    ids = tokens(encoder)
    with token_states(encoder) as states:
        found = encoder.states(ids["input_ids"], ids["attention_mask"])
        pooled = encoder.pooled(ids["input_ids"], ids["attention_mask"])
        with torch.no_grad():  # a target's: nothing comes back through it
            encoder.states(ids["input_ids"], ids["attention_mask"])
    encoder.states(ids["input_ids"], ids["attention_mask"])
    assert len(states) == 2
    weights = torch.randn(found.shape, generator=torch.Generator().manual_seed(0))
    losses = {
        "linear": (found * weights).sum(),
        "both": 2 * (found * weights).sum() + (states[1] * weights).sum(),
        "mean": pooled[:, 0].sum(),
        "constant": torch.tensor(3.0),
    }
    norms = gradient_norms(losses, states)
    norm = float(weights.norm())
    lengths = ids["attention_mask"].sum(dim=1)
    assert norms == pytest.approx(
        {
            "linear": norm,
            "both": norm * 5**0.5,
            "mean": float((1 / lengths).sum()) ** 0.5,
        },
        rel=1e-5,
    )
    sum(losses.values(), torch.zeros(())).backward()  # type: ignore[no-untyped-call]
    assert gradient_norms(losses, []) == {}


@pytest.mark.parametrize("twice", [False, True])
def test_chunks_and_repeated_passes_give_the_same_norm(twice: bool) -> None:
    encoder = make_encoder().eval()
    ids = tokens(encoder)
    found = []
    for learner in (encoder, ChunkedEncoder(encoder, 2, twice=twice)):
        with token_states(learner) as states:
            loss = learner.pooled(ids["input_ids"], ids["attention_mask"]).square().sum()
        given = len(states)
        found.append(gradient_norms({"loss": loss}, states)["loss"])
        assert len(states) == given
        loss.backward()  # type: ignore[no-untyped-call]
    assert found[1] == pytest.approx(found[0], rel=1e-4)


def pairs() -> GroupList:
    found = sentences(120)
    groups = [Group(str(i), tuple(found[2 * i : 2 * i + 2])) for i in range(60)]
    return GroupList(groups, "pairs")


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ("cpdae", {"cpdae/reconstruction", "cpdae/mlm", "cpdae/contrast"}),
        ("gur", {"gur/lm", "gur/cl"}),
        ("mlm simcse", {"mlm/mlm", "simcse/info_nce"}),
        ("mlm", set()),
    ],
)
def test_a_run_logs_them_where_there_are_several_and_changes_nothing(
    names: str, expected: set[str], tmp_path: Path
) -> None:
    def make() -> tuple[SentenceEncoder, list[Part]]:
        encoder = make_encoder()
        torch.manual_seed(0)
        parts = [
            Part(build_objective(name, encoder), documents() if name == "cpdae" else pairs())
            for name in names.split()
        ]
        return encoder, parts

    config = replace(CONFIG, steps=6, diagnose_every=3)
    looked = losses(config, run=tmp_path, make=make)
    assert looked == losses(replace(config, diagnose_every=0), make=make)
    rows = [row for row in read_log(tmp_path / "log.jsonl") if "gradient_norms" in row]
    assert [row["step"] for row in rows] == ([3, 6] if expected else [])
    cached = replace(config, cache_rows=4)
    losses(cached, run=tmp_path / "cached", make=make)
    assert not any("gradient_norms" in row for row in read_log(tmp_path / "cached/log.jsonl"))
    for row in rows:
        assert set(row["gradient_norms"]) == expected
        assert np.isfinite(list(row["gradient_norms"].values())).all()
        assert min(row["gradient_norms"].values()) > 0

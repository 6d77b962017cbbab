"""The loop: same seed same losses, killed and resumed the same losses, and what it refuses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from pocketquery.sdk.errors import ArtifactError, InvalidInputError
from pocketquery.server.corpus.groups import GroupList
from pocketquery.server.modeling import SentenceEncoder, weights_fingerprint
from pocketquery.server.objectives import build_objective
from pocketquery.server.objectives.mlm import Mlm
from pocketquery.server.objectives.objective import Batch, LossParts
from pocketquery.server.pretraining import Part, pretrain
from pocketquery.server.training.log import read_log
from tests.kills import killed_process
from tests.server.pretraining.small_run import (
    CONFIG,
    documents,
    losses,
    make_encoder,
    make_parts,
)

ROOT = Path(__file__).parents[3]


def test_the_same_seed_gives_the_same_losses_and_another_gives_others() -> None:
    assert losses() == losses()
    assert losses() != losses(replace(CONFIG, seed=1))


def test_dropout_follows_the_seed_and_the_step_not_the_generator_as_it_was_left() -> None:
    first = losses(replace(CONFIG, steps=3))
    torch.manual_seed(1234)
    torch.rand(17)
    assert losses(replace(CONFIG, steps=3)) == first


def test_the_loss_falls() -> None:
    found = losses(replace(CONFIG, steps=60, batch_size=16))
    assert np.mean(found[-10:]) < 0.8 * np.mean(found[:5])


@pytest.mark.parametrize("stop", [4, 6, 11])
def test_interrupted_and_called_again_it_gives_the_same_next_losses(
    tmp_path: Path, stop: int
) -> None:
    whole = losses(run=tmp_path / "whole")
    begun = losses(run=tmp_path / "cut", stop_after=stop)
    saved = stop // CONFIG.checkpoint_every * CONFIG.checkpoint_every
    assert begun == whole[:stop]
    assert losses(run=tmp_path / "cut") == whole[saved:]
    logs = [read_log(tmp_path / name / "log.jsonl") for name in ("whole", "cut")]
    assert [row["step"] for row in logs[1]] == [2, 4, 6, 8, 10, 12]
    assert [row["loss"] for row in logs[0]] == [row["loss"] for row in logs[1]]


@pytest.mark.slow
def test_a_killed_process_is_continued_to_the_same_weights(tmp_path: Path) -> None:
    whole = _train(tmp_path / "whole")
    script = (
        "import sys, torch; from pathlib import Path; torch.set_num_threads(int(sys.argv[2]))\n"
        "from tests.server.pretraining.test_loop import _train\n"
        "_train(Path(sys.argv[1]))\n"
    )
    run = tmp_path / "killed"
    killed_process(script, run, torch.get_num_threads(), until=run / "checkpoint.pt")
    assert _train(run) == whole


def _train(run: Path) -> str:
    encoder = make_encoder()
    config = replace(CONFIG, steps=80)
    pretrain(encoder, make_parts(encoder), config, run=run)
    return weights_fingerprint(encoder.state_dict())


def test_a_finished_run_trains_no_further(tmp_path: Path) -> None:
    losses(run=tmp_path)
    assert losses(run=tmp_path) == []


@pytest.mark.parametrize(
    ("change", "named"),
    [({"learning_rate": 1e-4}, "learning_rate"), ({"seed": 3}, "seed"), ({"steps": 13}, "steps")],
)
def test_another_runs_checkpoint_is_refused(
    tmp_path: Path, change: dict[str, Any], named: str
) -> None:
    losses(run=tmp_path, stop_after=4)
    with pytest.raises(ArtifactError, match=f"another run .*{named}"):
        losses(replace(CONFIG, **change), run=tmp_path)


def test_a_corpus_that_changed_between_kill_and_resume_is_refused(tmp_path: Path) -> None:
    losses(run=tmp_path, stop_after=4)

    def changed() -> tuple[SentenceEncoder, list[Part]]:
        encoder = make_encoder()
        torch.manual_seed(0)
        return encoder, [Part(build_objective("mlm", encoder), documents(59))]

    with pytest.raises(ArtifactError, match=r"another run .*source"):
        losses(run=tmp_path, make=changed)


def test_how_it_is_watched_and_fed_may_change_between_kill_and_resume(tmp_path: Path) -> None:
    whole = losses()
    losses(run=tmp_path, stop_after=4)
    other = replace(CONFIG, workers=1, log_every=3, checkpoint_every=5)
    assert losses(other, run=tmp_path) == whole[4:]


class _Poisoned(Mlm):
    """MLM whose loss is infinite from the sixth batch on."""

    def __init__(self, encoder: SentenceEncoder) -> None:
        super().__init__(encoder)
        self.batches = 0

    def loss(self, encoder: SentenceEncoder, batch: Batch) -> LossParts:
        self.batches += 1
        found = super().loss(encoder, batch)
        return LossParts(found.total * (torch.inf if self.batches > 5 else 1.0), found.parts)


def test_a_loss_that_is_no_number_ends_the_run_and_saves_the_batch(tmp_path: Path) -> None:
    def poisoned() -> tuple[SentenceEncoder, list[Part]]:
        encoder = make_encoder()
        return encoder, [Part(_Poisoned(encoder), documents())]

    with pytest.raises(ArtifactError, match="step 6 gave the loss inf"):
        losses(run=tmp_path, make=poisoned)
    saved = torch.load(tmp_path / "not_finite.0.pt", weights_only=True)
    assert saved["step"] == 5
    assert set(saved["batches"][0][1]) == {"input_ids", "attention_mask", "labels"}
    kept = torch.load(tmp_path / "checkpoint.pt", weights_only=True)["state"]
    assert kept["step"] == 4
    assert all(torch.isfinite(tensor).all() for tensor in kept["encoder"].values())


def test_what_ships_has_no_head_of_training_and_survives_saving(tmp_path: Path) -> None:
    encoder = make_encoder()
    encoder.space = {"space_id": "space-of-a-teacher"}
    before = encoder.space_id
    shipped = pretrain(encoder, make_parts(encoder), replace(CONFIG, steps=2))
    assert not any("dense" in n or "decoder" in n for n, _ in shipped.named_children())
    assert shipped.space_id != before
    shipped.save(tmp_path / "model")
    again = SentenceEncoder.load(tmp_path / "model")
    np.testing.assert_array_equal(again.encode(["water"]), shipped.encode(["water"]))


def test_the_loss_of_accumulated_batches_is_the_mean_of_theirs() -> None:
    singles = losses(replace(CONFIG, steps=3, learning_rate=1e-12))
    together = losses(replace(CONFIG, steps=1, accumulate=3))
    assert together[0] == pytest.approx(np.mean(singles), rel=1e-6)


def test_an_objective_refuses_groups_it_cannot_learn_from() -> None:
    encoder = make_encoder()
    triples = GroupList([], "triples")
    with pytest.raises(InvalidInputError, match="mlm cannot learn from triples; it takes documen"):
        Part(build_objective("mlm", encoder), triples)


@pytest.mark.parametrize("weight", [0.0, -1.0, float("nan"), float("inf")])
def test_a_weight_must_be_positive(weight: float) -> None:
    encoder = make_encoder()
    with pytest.raises(InvalidInputError, match=r"the weight of mlm is .*; expected above 0"):
        Part(build_objective("mlm", encoder), documents(), weight)


def test_nothing_to_train_with_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="at least one part"):
        pretrain(make_encoder(), [], CONFIG)


class _Shy(Mlm):
    """MLM that has an example in few groups: most batches have too few."""

    least_examples = 4

    def draw(self, group: object, rng: object) -> str | None:
        return "water of the rock" if int(group.id) % 3 == 0 else None  # type: ignore[attr-defined]

    def collate(self, examples: Sequence[str], rng: np.random.Generator) -> Batch:
        assert len(examples) >= self.least_examples
        return super().collate(examples, rng)


def test_batches_with_too_few_examples_are_skipped_and_counted(tmp_path: Path) -> None:
    def shy() -> tuple[SentenceEncoder, list[Part]]:
        encoder = make_encoder()
        return encoder, [Part(_Shy(encoder), documents())]

    found = losses(run=tmp_path, make=shy)
    skipped = sum(row["skipped_batches"] for row in read_log(tmp_path / "log.jsonl"))
    assert skipped == sum(loss == 0.0 for loss in found)
    assert 0 < skipped < len(found)

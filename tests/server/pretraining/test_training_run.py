"""To a model folder: what lies in it, that it is finished once, and what it leaves alone."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pocketquery.sdk.errors import InvalidInputError
from pocketquery.server.corpus.groups import Group, GroupList
from pocketquery.server.modeling import SentenceEncoder
from pocketquery.server.objectives.mlm import Mlm
from pocketquery.server.pretraining import HeldOut, Part
from pocketquery.server.pretraining.loop import pretrain
from pocketquery.server.pretraining.training_run import TrainingReport, pretrain_to_folder
from pocketquery.server.training.checkpoints import work_folder
from pocketquery.server.training.log import read_log
from tests.server.pretraining.small_run import CONFIG, Killed, losses, make_encoder, make_parts
from tests.tiny_models import sentences

WATCHED = replace(CONFIG, diagnose_every=4)


def run(output: Path, **changes: object) -> TrainingReport:
    encoder = make_encoder()
    config = replace(WATCHED, **changes)  # type: ignore[arg-type]
    return pretrain_to_folder(
        encoder, make_parts(encoder), config, output, held_out=HeldOut(sentences(30))
    )


def test_the_model_the_log_and_the_curves_lie_in_the_folder(tmp_path: Path) -> None:
    report = run(tmp_path / "model")
    folder = tmp_path / "model"
    assert report.path == folder
    assert (report.steps, report.dimension, report.resumed) == (12, 16, False)
    assert report.last["loss"] > 0
    assert report.space_id == SentenceEncoder.load(folder).space_id
    assert [r["step"] for r in read_log(folder / "pretraining.jsonl") if "geometry" in r] == [
        0,
        4,
        8,
        12,
    ]
    page = (folder / "pretraining.html").read_text()
    assert page.count("<svg") == 2
    assert "mlm/mlm_accuracy" in page
    assert "eff_rank" in page
    assert not any(word in page for word in ("<script", "src=", "@import"))
    assert not work_folder(folder).exists()


def test_it_ships_what_the_loop_trains(tmp_path: Path) -> None:
    run(tmp_path / "model")
    encoder = make_encoder()
    shipped = pretrain(encoder, make_parts(encoder), WATCHED)
    found = SentenceEncoder.load(tmp_path / "model").encode(sentences(5))
    np.testing.assert_allclose(found, shipped.encode(sentences(5)), atol=1e-6)


@pytest.mark.slow
def test_a_finished_run_returns_at_once_and_another_is_made_anew(tmp_path: Path) -> None:
    first = run(tmp_path / "model")
    stamp = (tmp_path / "model" / "model.safetensors").stat().st_mtime_ns
    again = run(tmp_path / "model")
    assert again.resumed
    assert replace(again, resumed=False) == first
    assert (tmp_path / "model" / "model.safetensors").stat().st_mtime_ns == stamp
    assert run(tmp_path / "model", seed=1).space_id != first.space_id


@pytest.mark.slow
def test_an_interrupted_run_ends_with_the_same_model(tmp_path: Path) -> None:
    whole = run(tmp_path / "whole")
    encoder = make_encoder()

    def stop(done: int, loss: float) -> None:
        if done == 6:
            raise Killed

    with pytest.raises(Killed):
        pretrain(
            encoder,
            make_parts(encoder),
            WATCHED,
            run=work_folder(tmp_path / "cut"),
            held_out=HeldOut(sentences(30)),
            on_step=stop,
        )
    resumed = run(tmp_path / "cut")
    assert resumed.resumed
    assert resumed.space_id == whole.space_id
    assert resumed.last["loss"] == whole.last["loss"]


def test_a_folder_that_holds_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.txt").write_text("mine")
    with pytest.raises(InvalidInputError, match="is left alone"):
        run(tmp_path / "notes")
    assert not work_folder(tmp_path / "notes").exists()


def test_what_it_was_trained_with_is_written_down(tmp_path: Path) -> None:
    run(tmp_path / "model")
    saved = json.loads((tmp_path / "model" / "pretraining.json").read_text())["identity"]
    assert saved["learning_rate"] == CONFIG.learning_rate
    assert saved["parts"][0]["objective"] == "mlm"
    assert saved["parts"][0]["config"]["mask_rate"] == 0.15


class _ByLanguage(Mlm):
    by_language = True
    least_examples = 2


def of_languages(*languages: str) -> tuple[SentenceEncoder, list[Part]]:
    """Documents of English, and one each of other languages."""
    groups = [Group(str(i), (text,), lang="en") for i, text in enumerate(sentences(30))]
    groups += [Group(lang, ("water",), lang=lang) for lang in languages]
    encoder = make_encoder()
    return encoder, [Part(_ByLanguage(encoder), GroupList(groups, "documents"))]


def test_languages_with_too_few_texts_are_told_in_the_log_the_reports_and_to_a_person(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = pretrain_to_folder(*of_languages("sw", "ti"), CONFIG, tmp_path / "model")
    left_out = {"mlm": {"sw": 1, "ti": 1}}
    assert report.languages_left_out == left_out
    folder = tmp_path / "model"
    assert read_log(folder / "pretraining.jsonl")[0] == {"step": 0, "languages_left_out": left_out}
    assert json.loads((folder / "pretraining.json").read_text())["languages_left_out"] == left_out
    assert "mlm: sw (1 usable group), ti (1 usable group)" in (
        folder / "pretraining.html"
    ).read_text("utf-8")
    said = [line for line in capsys.readouterr().err.splitlines() if "warning" in line]
    assert len(said) == 1
    assert said[0].startswith("pocketquery: warning: languages are left out of training: mlm: sw (")


def test_a_resumed_run_tells_it_again_and_logs_it_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    losses(run=tmp_path, stop_after=5, make=lambda: of_languages("sw"))
    losses(run=tmp_path, make=lambda: of_languages("sw"))
    rows = read_log(tmp_path / "log.jsonl")
    assert ["languages_left_out" in row for row in rows] == [True] + [False] * 6
    assert capsys.readouterr().err.count("pocketquery: warning") == 2


def test_where_no_language_is_left_out_nothing_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = pretrain_to_folder(*of_languages(), CONFIG, tmp_path / "model")
    assert report.languages_left_out == {}
    assert read_log(tmp_path / "model" / "pretraining.jsonl")[0]["step"] == 2
    assert "left out" not in (tmp_path / "model" / "pretraining.html").read_text("utf-8")
    assert capsys.readouterr().err == ""

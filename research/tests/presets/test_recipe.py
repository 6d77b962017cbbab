"""The recipe of the built-in encoders, whole: few texts, few steps, the real teacher."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pocketquery import sdk
from pocketquery.server.modeling import SentenceEncoder
from pocketquery_research.presets import recipe
from research.tests.presets.small_data import data_folder

SMALL = recipe.Budget(80, 20, 20, 1, None, 2, 8)
ARGUMENTS = ["--preset", "1mb", "--vocabulary", "400", "--budget", "second"]


def test_a_student_goes_on_from_another_budgets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    second = replace(
        SMALL, steps=3, typo_share=0.4, seed=27, texts_seed=5, start="first", feed_forward=544,
        interpolation=0.5,
    )  # fmt: skip
    monkeypatch.setattr(recipe, "BUDGETS", {"first": SMALL, "second": second})
    data, output = data_folder(tmp_path / "data"), tmp_path / "presets"
    places = ["--data", str(data), "--output", str(output)]
    assert recipe.main(["make", *ARGUMENTS, *places]) == 0
    made = output / "1mb"
    first, last = (SentenceEncoder.load(made / name) for name in ("student-first", "student"))
    assert last.space["distillation"]["start"] == first.content_id
    assert (last.space["distillation"]["steps"], last.space["distillation"]["seed"]) == (3, 27)
    assert first.tokenizer.get_vocab() == last.tokenizer.get_vocab()
    encoder = sdk.load(made / "bundle")
    assert encoder.name == "pocketquery-minilm-1mb"
    assert encoder.encode("who wrote it").shape == (384,)
    card = (made / "bundle" / "README.md").read_text()
    assert "2 steps of 8 texts, 30% of them mistyped, seed 26; then 3 steps of 8 texts, 40%" in card
    assert "seed 27, 544 wide within, 50% of the way |" in card
    assert "`1x128x544-linear-pq4`" in card
    assert last.space["distillation"]["texts"] != first.space["distillation"]["texts"]
    assert "{" not in card
    capsys.readouterr()
    before = last.content_id  # what is done is not done again
    assert recipe.main(["distil", *ARGUMENTS, *places]) == 0
    assert SentenceEncoder.load(made / "student").content_id == before
    assert "distil" not in capsys.readouterr().err
    on = ["--start", str(made / "bundle"), "--name", "on", "--budget", "third"]
    third = replace(SMALL, seed=28, start="second", feed_forward=576)
    monkeypatch.setitem(recipe.BUDGETS, "third", third)
    with_start = ["make", "--preset", "1mb", "--seed", "5", *places, *on]
    assert recipe.main([*with_start, "--vocabulary", "400"]) == 1
    assert "--vocabulary is given with --start" in capsys.readouterr().err
    assert recipe.main(with_start) == 0
    student = SentenceEncoder.load(output / "on" / "student")
    assert student.space["distillation"]["student"] == "1x128x576-linear-pq4"
    assert student.tokenizer.get_vocab() == last.tokenizer.get_vocab()
    assert not (output / "on" / "student-second").exists()
    card = (output / "on" / "bundle" / "README.md").read_text()
    assert "| from another student; then 2 steps of 8 texts, 30% of them mistyped, seed 5," in card
    assert "make --preset 1mb --budget third --seed 5 --start STUDENT`" in card
    assert f"`1x128x576-linear-pq4`, {len(last.tokenizer)} subword tokens" in card


@pytest.mark.parametrize("budget", [{"feed_forward": 512}, {"science_pieces": 9}])
def test_what_a_later_stage_lacks_is_said_before_the_first(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    budget: dict[str, int],
) -> None:
    stages = {"first": SMALL, "second": replace(SMALL, start="first", **budget)}
    monkeypatch.setattr(recipe, "BUDGETS", stages)
    data, output = data_folder(tmp_path / "data"), tmp_path / "presets"
    for folder in data.glob("science_pages"):
        folder.rename(tmp_path / "moved")
    assert recipe.main(["make", *ARGUMENTS, "--data", str(data), "--output", str(output)]) == 1
    said = capsys.readouterr().err
    assert "512 wide, and the budget" in said or "science_pages" in said
    assert not output.exists()


def test_a_folder_without_the_data_sets_is_said_without_a_traceback(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert recipe.main(["teacher", "--data", str(tmp_path), "--output", str(tmp_path)]) == 1
    assert capsys.readouterr().err.startswith(f"error: {tmp_path}")

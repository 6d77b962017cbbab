"""The example of classes named by their texts, run as a user runs it."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


def run_here(
    name: str,
    *arguments: str | Path,
    patch: pytest.MonkeyPatch,
    capture: pytest.CaptureFixture[str],
) -> list[str]:
    """In this process: starting another costs seconds."""
    patch.setattr(sys, "argv", [name, *map(str, arguments)])
    runpy.run_path(str(EXAMPLES / name), run_name="__main__")
    return capture.readouterr().out.splitlines()


def test_zero_shot_classification(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = ("wake me at seven", "put on some jazz", "will it rain")
    labels = ("set an alarm", "play music", "check the weather")
    arguments = (*texts, "--labels", *labels)
    lines = run_here("zero_shot_classification.py", *arguments, patch=monkeypatch, capture=capsys)
    assert lines == [f"{label:17}  {text}" for label, text in zip(labels, texts, strict=True)]


def test_few_shot_classification(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [("label", "text"), ("no", "cancel the flight"), ("no", "never do that again")]
    rows += [("yes", "please book the hotel"), ("yes", "reserve a table for us")]
    labelled = tmp_path / "labelled.tsv"
    labelled.write_text("".join(f"{label}\t{text}\n" for label, text in rows))
    arguments = ("reserve a room for me", "never cancel", "--examples", labelled)
    lines = run_here("zero_shot_classification.py", *arguments, patch=monkeypatch, capture=capsys)
    assert lines == ["yes  reserve a room for me", "no   never cancel"]

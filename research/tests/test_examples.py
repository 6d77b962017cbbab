"""The examples, run as a user runs them: classes named by their texts, and query expansion."""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path

import pytest

from tests.tiny_models import bert_teacher, sentences

EXAMPLES = Path(__file__).parents[1] / "examples"


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


def test_query_expansion(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It trains, saves, loads, writes and searches."""
    monkeypatch.chdir(tmp_path)
    bert_teacher(layers=1, width=32).save(tmp_path / "start")
    rows = [{"_id": str(i), "title": f"T{i}", "sentences": sentences(60)[i::20]} for i in range(20)]
    (tmp_path / "documents.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    queries = ("castle of the king", "sugar")
    options = ("--init", "./start", "--steps", "5")
    arguments = ("documents.jsonl", *queries, *options)
    lines = run_here("query_expansion.py", *arguments, patch=monkeypatch, capture=capsys)
    places = [lines.index(query) for query in queries]
    for block in (lines[places[0] : places[1]], lines[places[1] :]):
        assert 1 <= len([line for line in block if line.endswith(" a token)")]) <= 3
        assert block[-2].startswith("  as it is: T")
        assert block[-1].startswith("  expanded: T")
    assert (tmp_path / "my-gur" / "infilling.safetensors").is_file()

"""The examples run in the folder where a user runs them, with real bundles and indexes."""

from __future__ import annotations

import json
import runpy
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from pocketquery import sdk
from tests.sdk.tiny_bundle import write_tiny_bundle, write_tiny_index

EXAMPLES = Path(__file__).parents[2] / "examples"
DOCUMENTS = [
    {
        "_id": "leaf",
        "title": "Photosynthesis",
        "text": "Leaves turn light into sugar.",
        "year": 1779,
    },
    {"_id": "sea", "title": "Oceans", "text": "Most of the earth is covered by salt water."},
    {"_id": "rail", "title": "Railways", "text": "Steam engines pulled the first trains."},
]


Run = Callable[..., list[str]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs an example in ``tmp_path`` or another folder; the lines that it prints.

    In this process: another one would import torch first.
    """

    def run(name: str, *arguments: str | Path, folder: Path = tmp_path) -> list[str]:
        monkeypatch.chdir(folder)
        monkeypatch.setattr(sys, "argv", [name, *map(str, arguments)])
        runpy.run_path(str(EXAMPLES / name), run_name="__main__")
        return capsys.readouterr().out.splitlines()

    return run


def test_quickstart(run: Run, tmp_path: Path) -> None:
    bundle = write_tiny_bundle(tmp_path / "demo" / "bundle")
    index = write_tiny_index(tmp_path / "demo" / "index")
    lines = run("quickstart.py")
    assert lines[0].startswith("tiny: 16 numbers")
    assert lines[1].split("  ", 1)[1].startswith("Plants: Plants make sugar")
    assert [line[:5] for line in lines if line[:1].isdigit()] == ["0.216", "0.038", "0.001"]
    assert run("quickstart.py", bundle, index, folder=EXAMPLES) == lines


def test_bring_your_own_documents(run: Run, tmp_path: Path) -> None:
    bundle = sdk.bundles()["default"]  # of the demo teacher's space
    documents = tmp_path / "documents.jsonl"
    documents.write_text("".join(json.dumps(document) + "\n" for document in DOCUMENTS))
    lines = run(
        "bring_your_own_documents.py",
        documents,
        "locomotives of the 19th century",
        "how do plants feed themselves",
        "--bundle",
        bundle,
        "--index",
        tmp_path / "index",
    )
    blocks = [block.splitlines() for block in "\n".join(lines).split("\n\n")]
    assert blocks[0][0].startswith("3 documents")
    assert blocks[1][0] == "locomotives of the 19th century"
    assert "Railways: Steam engines" in blocks[1][1]
    assert "Photosynthesis: Leaves turn" in blocks[2][1]
    with sdk.open_index(tmp_path / "index", encoder=sdk.load(bundle)) as index:
        found = index.search("sugar", filter={"year": {"$lt": 1800}})
    assert [hit.id for hit in found] == ["leaf"]

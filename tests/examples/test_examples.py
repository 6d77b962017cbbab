"""The examples run as a user runs them: processes of their own, real bundles and indexes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from pocketquery import sdk
from pocketquery.export.bundle.bundling import export_bundle
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


def run(name: str, *arguments: str | Path, folder: Path) -> str:
    result = subprocess.run(
        [sys.executable, str(EXAMPLES / name), *map(str, arguments)],
        cwd=folder,
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_quickstart(tmp_path: Path) -> None:
    bundle = write_tiny_bundle(tmp_path / "demo" / "bundle")
    index = write_tiny_index(tmp_path / "demo" / "index")
    lines = run("quickstart.py", folder=tmp_path).splitlines()
    assert lines[0].startswith("tiny: 16 numbers")
    assert lines[1].split("  ", 1)[1].startswith("Plants: Plants make sugar")
    assert [line[:5] for line in lines if line[:1].isdigit()] == ["0.729", "0.500", "0.000"]
    assert run("quickstart.py", bundle, index, folder=EXAMPLES).splitlines() == lines


@pytest.fixture(scope="module")
def teachers_bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The teacher itself, in int8, as its own query encoder: no distillation, the real space."""
    path = tmp_path_factory.mktemp("teacher") / "bundle"
    texts = ["how do leaves make sugar", "who built the first train", "how deep is the ocean"]
    export_bundle("demo", path, calibration_texts=texts, name="teacher", license="Apache-2.0")
    return path


def test_bring_your_own_documents(teachers_bundle: Path, tmp_path: Path) -> None:
    documents = tmp_path / "documents.jsonl"
    documents.write_text("".join(json.dumps(document) + "\n" for document in DOCUMENTS))
    out = run(
        "bring_your_own_documents.py",
        documents,
        "locomotives of the 19th century",
        "how do plants feed themselves",
        "--bundle",
        teachers_bundle,
        "--index",
        tmp_path / "index",
        folder=tmp_path,
    )
    blocks = [block.splitlines() for block in out.split("\n\n")]
    assert blocks[0][0].startswith("3 documents")
    assert blocks[1][0] == "locomotives of the 19th century"
    assert "Railways: Steam engines" in blocks[1][1]
    assert "Photosynthesis: Leaves turn" in blocks[2][1]
    with sdk.open_index(tmp_path / "index", encoder=sdk.load(teachers_bundle)) as index:
        found = index.search("sugar", filter={"year": {"$lt": 1800}})
    assert [hit.id for hit in found] == ["leaf"]

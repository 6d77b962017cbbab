"""The extra "federation" alone runs rounds: no torch and no transformers come with it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import venv
from pathlib import Path

import pytest

from tests.server.federation.small_federation import QUICK, write_federation

ROOT = Path(__file__).parents[2]
TREE = ("sdk", "client", "server", "distill", "export", "pyproject.toml", "README.md", "LICENSE")
HEAVY = {"torch", "transformers", "tokenizers", "onnx", "numba", "safetensors", "matplotlib"}


@pytest.fixture(scope="module")
def commands(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a fresh environment's commands, with the package and this extra."""
    tree, place = tmp_path_factory.mktemp("tree"), tmp_path_factory.mktemp("environment")
    for name in TREE:
        if (ROOT / name).is_dir():
            ignored = shutil.ignore_patterns("__pycache__", "js")  # sdk/js is npm's
            shutil.copytree(ROOT / name, tree / name, ignore=ignored)
        else:
            shutil.copy(ROOT / name, tree / name)
    venv.create(place, with_pip=True)
    folder = place / ("Scripts" if os.name == "nt" else "bin")
    command = ["-m", "pip", "install", "--quiet", "--constraint", str(ROOT / "constraints.txt")]
    run(folder / "python", *command, f"{tree}[federation]")
    return folder


def run(program: Path, *arguments: str) -> str:
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [program, *arguments], capture_output=True, text=True, env=clean | {"OMP_NUM_THREADS": "1"}
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_two_rounds_run_where_neither_torch_nor_transformers_is(
    commands: Path, tmp_path: Path
) -> None:
    listed = json.loads(run(commands / "python", "-m", "pip", "list", "--format=json"))
    names = {one["name"].lower() for one in listed}
    assert {"flwr", "pocketquery"} <= names
    assert not names & HEAVY
    files = write_federation(tmp_path / "files")
    quick = [word for name, value in QUICK.items() for word in (f"--{name}", str(value))]
    users = ["--queries", str(files.queries), "--users", "12", "--queries-each", "6"]
    places = ["--bundle", str(files.bundle), "--index", str(files.index)]
    output = ["--output", str(tmp_path / "out"), "--any-offer", "--json"]
    found = json.loads(run(commands / "pocketquery", "simulate", *places, *users, *quick, *output))
    assert (found["rounds"], found["updates"], found["metric"]) == (2, 8, "ndcg@10")
    report = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert "pocketquery[demo]" in report  # in the plot's place: matplotlib is not there
    releases = ["releases", "list", "--registry", str(tmp_path / "out" / "releases")]
    assert "in force" in run(commands / "pocketquery", *releases)

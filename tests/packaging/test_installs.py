"""What an install brings is enough: the base for the device's tests, "federation" for rounds."""

from __future__ import annotations

import importlib.metadata
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.packaging.wheels import ROOT, build_wheel
from tests.server.federation.small_federation import QUICK, write_federation

HEAVY = {"torch", "transformers", "tokenizers", "onnx", "numba", "safetensors", "matplotlib"}
_COMMAND = "import sys; from pocketquery.sdk.cli import main; sys.exit(main())"
_BLOCKER = f"""
import sys

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {sorted(HEAVY)!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Blocker())
"""


def test_the_extra_brings_no_heavy_package() -> None:
    found = brought("pocketquery", {"federation"}, {})
    assert {"flwr", "onnxruntime", "numpy"} <= found.keys()
    assert not found.keys() & HEAVY
    assert {"torch", "transformers"} <= brought("pocketquery", {"server"}, {}).keys()


def brought(name: str, extras: set[str], seen: dict[str, set[str]]) -> dict[str, set[str]]:
    """Every package that ``name`` requires, and theirs, as far as they are installed here."""
    seen.setdefault(name, set()).update(extras)
    try:
        lines = importlib.metadata.requires(name) or []
    except importlib.metadata.PackageNotFoundError:  # for another system or Python
        return seen
    for requirement in map(Requirement, lines):
        marker = requirement.marker
        if marker and not any(marker.evaluate({"extra": extra}) for extra in ({""} | extras)):
            continue
        wanted = requirement.name.lower()
        if wanted not in seen or not requirement.extras <= seen[wanted]:
            brought(wanted, set(requirement.extras), seen)
    return seen


@pytest.mark.slow
def test_two_rounds_run_where_neither_torch_nor_transformers_is(tmp_path: Path) -> None:
    (tmp_path / "blocked").mkdir()
    (tmp_path / "blocked" / "sitecustomize.py").write_text(_BLOCKER)
    files = write_federation(tmp_path / "files")
    quick = [word for name, value in QUICK.items() for word in (f"--{name}", str(value))]
    users = ["--queries", str(files.queries), "--users", "12", "--queries-each", "6"]
    places = ["--bundle", str(files.bundle), "--index", str(files.index)]
    output = ["--output", str(tmp_path / "out"), "--any-offer", "--json"]
    found = json.loads(run(tmp_path, "simulate", *places, *users, *quick, *output))
    assert (found["rounds"], found["updates"], found["metric"]) == (2, 8, "ndcg@10")
    report = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert "pocketquery[demo]" in report  # in the plot's place: matplotlib is not there
    releases = ["releases", "list", "--registry", str(tmp_path / "out" / "releases")]
    assert "in force" in run(tmp_path, *releases)


def run(folder: Path, *arguments: str) -> str:
    path = os.pathsep.join([str(folder / "blocked"), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-c", _COMMAND, *arguments],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_the_device_runs_where_nothing_but_the_base_install_is(tmp_path: Path) -> None:
    """The wheel, what it requires, pytest and hypothesis: the device's tests pass there, and the
    commands that need no more work."""
    place = tmp_path / "site"
    place.mkdir()
    wanted = brought("pocketquery", set(), {})
    assert wanted.keys() == BASE
    for name in ("pytest", "pytest-timeout", "hypothesis"):
        brought(name, set(), wanted)
    for name in wanted.keys() - {"pocketquery"}:
        link(name, place)
    wheel = build_wheel(tmp_path)
    subprocess.run([sys.executable, "-m", "zipfile", "-e", str(wheel), str(place)], check=True)
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(place), "HOME": str(tmp_path)}

    def run(*arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, "-S", *arguments],  # without this environment's packages
            capture_output=True,
            text=True,
            env=environment,
            cwd=ROOT,
        )
        assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
        return done.stdout

    # The files' times differ from the cache's of the other environment.
    found = run(
        "-B", "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/sdk", "tests/conformance"
    )
    assert int(found.splitlines()[-1].split(" passed")[0].split()[-1]) > 1000, found[-500:]
    index = str(tmp_path / "index")
    run("-c", _COMMAND, "index", "--documents", "docs", "--output", index, "--symmetric")
    shown = run("-c", _COMMAND, "search", "--index", index, "what does a device accept", "-k", "3")
    assert "devices.md" in shown


BASE = {
    "pocketquery",
    "numpy",
    "onnxruntime",
    "sentencepiece",
    "simsimd",
    "snowballstemmer",
    "flatbuffers",
    "pathspec",
    "packaging",
    "protobuf",
}


def link(name: str, place: Path) -> None:
    """Put the installed distribution ``name`` into ``place``, as links."""
    distribution = importlib.metadata.distribution(name)
    tops = {
        file.parts[0]
        for file in distribution.files or ()
        if file.parts[0] not in ("..", "__pycache__")
    }
    for top in tops:
        if not (place / top).exists():
            (place / top).symlink_to(str(distribution.locate_file(top)))

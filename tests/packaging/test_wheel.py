"""What the wheel carries: every package, the types' mark, the demo's data, all commands."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
import zipfile
from configparser import ConfigParser
from email import message_from_bytes
from email.message import Message
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROOMS = ("sdk", "client", "server", "distill", "export")
# Copied rather than built in place: setuptools leaves a build folder in the tree it builds.
BUILT_FROM = (*ROOMS, "pyproject.toml", "README.md", "LICENSE")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    tree = tmp_path_factory.mktemp("tree")
    for name in BUILT_FROM:
        if (ROOT / name).is_dir():
            ignored = shutil.ignore_patterns("__pycache__", "js")  # sdk/js is npm's
            shutil.copytree(ROOT / name, tree / name, ignore=ignored)
        else:
            shutil.copy(ROOT / name, tree / name)
    output = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation"]
    command += ["--no-index", "--quiet", "--wheel-dir", str(output), str(tree)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=250)
    assert done.returncode == 0, done.stderr
    (path,) = output.glob("pocketquery-*.whl")
    return zipfile.ZipFile(path)


def read(wheel: zipfile.ZipFile, name: str) -> bytes:
    (path,) = [path for path in wheel.namelist() if path.endswith(f".dist-info/{name}")]
    return wheel.read(path)


def metadata(wheel: zipfile.ZipFile) -> Message:
    return message_from_bytes(read(wheel, "METADATA"))


def test_every_module_and_data_file_is_in_it_and_nothing_else(wheel: zipfile.ZipFile) -> None:
    on_disk = {
        "pocketquery/" + path.relative_to(ROOT).as_posix()
        for room in ROOMS
        for path in (ROOT / room).rglob("*")
        if path.suffix == ".py"
        or path.name == "py.typed"
        or path.parent.name in ("data", "default")
        if ROOT / "sdk" / "js" not in path.parents
    }
    packed = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert packed == on_disk
    assert "pocketquery/sdk/default/encoder.onnx" in packed
    for name in ("corpus.jsonl.gz", "queries.tsv.gz", "qrels.tsv.gz", "LICENSE.md"):
        assert f"pocketquery/export/demo/data/{name}" in packed
    assert {f"pocketquery/{room}/py.typed" for room in ROOMS} <= packed


def test_pocketquery_stays_a_namespace_without_a_root(wheel: zipfile.ZipFile) -> None:
    assert "pocketquery/__init__.py" not in wheel.namelist()


def test_the_base_install_is_the_device(wheel: zipfile.ZipFile) -> None:
    required = metadata(wheel).get_all("Requires-Dist") or []
    base = {line.split(";")[0].strip() for line in required if "extra ==" not in line}
    names = {line.split(">")[0].split("=")[0].split("<")[0].strip() for line in base}
    assert names == {"numpy", "onnxruntime", "sentencepiece"}
    extras = set(metadata(wheel).get_all("Provides-Extra") or [])
    assert {"client", "federation", "server", "export", "demo", "sign", "dev"} <= extras


def test_all_commands_are_found_and_their_modules_are_there(wheel: zipfile.ZipFile) -> None:
    points = ConfigParser(delimiters=("=",))
    points.optionxform = str  # type: ignore[assignment,method-assign]
    points.read_string(read(wheel, "entry_points.txt").decode())
    commands = dict(points["pocketquery.commands"])
    written = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert commands == written["entry-points"]["pocketquery.commands"]
    issued = {"distill", "export", "index", "encode", "search", "evaluate", "verify", "demo"}
    assert issued <= commands.keys()
    assert dict(points["console_scripts"]) == {"pocketquery": "pocketquery.sdk.cli:main"}
    for target in [*commands.values(), points["console_scripts"]["pocketquery"]]:
        assert target.split(":")[0].replace(".", "/") + ".py" in wheel.namelist()


def test_the_licences_travel_with_it(wheel: zipfile.ZipFile) -> None:
    assert metadata(wheel)["License-Expression"] == "Apache-2.0"
    assert b"Apache License" in read(wheel, "licenses/LICENSE")

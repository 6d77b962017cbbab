"""What the wheel carries: every package, the types' mark, all commands."""

from __future__ import annotations

import json
import shutil
import tomllib
import zipfile
from configparser import ConfigParser
from email import message_from_bytes
from email.message import Message
from pathlib import Path

import pytest

from pocketquery.sdk.serving.site import PACKAGE, PAGES, imported
from tests.examples.web_scripts import built
from tests.packaging.wheels import PACKAGES, ROOT, build_wheel, wheel_of


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    return zipfile.ZipFile(build_wheel(tmp_path_factory.mktemp("wheel")))


def read(wheel: zipfile.ZipFile, name: str) -> bytes:
    (path,) = [path for path in wheel.namelist() if path.endswith(f".dist-info/{name}")]
    return wheel.read(path)


def metadata(wheel: zipfile.ZipFile) -> Message:
    return message_from_bytes(read(wheel, "METADATA"))


def test_every_module_and_data_file_is_in_it_and_nothing_else(wheel: zipfile.ZipFile) -> None:
    on_disk = {
        "pocketquery/" + path.relative_to(ROOT).as_posix()
        for package in PACKAGES
        for path in (ROOT / package).rglob("*")
        if path.suffix == ".py" or path.name == "py.typed" or path.parent.name in ("default", "web")
        if ROOT / "sdk" / "js" not in path.parents
    }
    packed = {
        name
        for name in wheel.namelist()
        if ".dist-info/" not in name and not name.startswith("pocketquery/sdk/js/dist/")
    }
    assert packed == on_disk
    assert "pocketquery/sdk/default/encoder.onnx" in packed
    assert {f"pocketquery/{package}/py.typed" for package in PACKAGES} <= packed


@built
def test_the_search_page_and_all_that_it_imports_are_in_it(wheel: zipfile.ZipFile) -> None:
    dist = PACKAGE / "dist"
    imports = {path.relative_to(dist).as_posix() for path in imported(dist)}
    needed = {f"js/dist/{name}" for name in imports} | {f"serving/web/{name}" for name in PAGES}
    packed = {
        name.removeprefix("pocketquery/sdk/")
        for name in wheel.namelist()
        if name.startswith(("pocketquery/sdk/js/", "pocketquery/sdk/serving/web/"))
    }
    assert needed <= packed
    assert "js/dist/words/stemmers/LICENSE" in packed
    others = packed - needed - {"serving/web/service_worker.js"}
    assert len(others) < 20
    assert not [name for name in others if name.endswith((".ts", ".min.js", ".wasm", ".json"))]


def test_pocketquery_stays_a_namespace_without_a_root(wheel: zipfile.ZipFile) -> None:
    assert "pocketquery/__init__.py" not in wheel.namelist()


def test_the_base_install_is_the_device(wheel: zipfile.ZipFile) -> None:
    required = metadata(wheel).get_all("Requires-Dist") or []
    base = {line.split(";")[0].strip() for line in required if "extra ==" not in line}
    names = {line.split(">")[0].split("=")[0].split("<")[0].strip() for line in base}
    assert names == {
        "numpy",
        "onnxruntime",
        "pathspec",
        "sentencepiece",
        "simsimd",
        "snowballstemmer",
    }
    extras = set(metadata(wheel).get_all("Provides-Extra") or [])
    assert {"client", "federation", "server", "export", "demo", "sign", "dev"} <= extras


def test_all_commands_are_found_and_their_modules_are_there(wheel: zipfile.ZipFile) -> None:
    points = ConfigParser(delimiters=("=",))
    points.optionxform = str  # type: ignore[assignment,method-assign]
    points.read_string(read(wheel, "entry_points.txt").decode())
    commands = dict(points["pocketquery.commands"])
    written = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert commands == written["entry-points"]["pocketquery.commands"]
    issued = {"distill", "export", "index", "encode", "search", "evaluate", "verify"}
    assert issued <= commands.keys()
    assert dict(points["console_scripts"]) == {"pocketquery": "pocketquery.sdk.cli:main"}
    for target in [*commands.values(), points["console_scripts"]["pocketquery"]]:
        assert target.split(":")[0].replace(".", "/") + ".py" in wheel.namelist()


def test_the_licences_travel_with_it(wheel: zipfile.ZipFile) -> None:
    assert metadata(wheel)["License-Expression"] == "Apache-2.0"
    assert b"Apache License" in read(wheel, "licenses/LICENSE")


def test_the_version_is_written_once_and_javascript_has_the_same(wheel: zipfile.ZipFile) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    version = project["version"]
    assert metadata(wheel)["Version"] == version
    package = json.loads((ROOT / "sdk" / "js" / "package.json").read_text("utf-8"))
    assert package["version"] == version
    assert f"## {version}" in (ROOT / "CHANGELOG.md").read_text("utf-8")
    for folder in PACKAGES:  # they ask importlib.metadata
        for path in (ROOT / folder).rglob("*.py"):
            assert f'"{version}"' not in path.read_text("utf-8"), path


@pytest.mark.parametrize(
    ("name", "group", "points"),
    [
        ("pocketquery-attestation", "attestation", {"app-attest", "play-integrity"}),
        ("pocketquery-corpus", "commands", {"encode-corpus"}),
        ("pocketquery-corpus", "corpora", {"shards", "mining"}),
        ("pocketquery-demo", "commands", {"demo"}),
        ("pocketquery-gateway", "commands", {"gateway"}),
        ("pocketquery-gateway", "round_nodes", {"gateways"}),
        ("pocketquery-join", "commands", {"join"}),
        ("pocketquery-mobile", "text_graphs", {"text_graph"}),
        ("pocketquery-privacy", "commands", {"privacy"}),
        ("pocketquery-simulation", "commands", {"simulate"}),
        ("pocketquery-stores", "commands", {"vectors"}),
        ("pocketquery-stores", "vector_stores", {"http", "https", "postgres", "postgresql"}),
    ],
)
def test_a_package_brings_its_modules_and_plug_ins(
    tmp_path: Path, name: str, group: str, points: set[str]
) -> None:
    """All that lies in its folder, and the same version as the rest."""
    shutil.copytree(
        ROOT / "packages" / name, tmp_path / name, ignore=shutil.ignore_patterns("*.egg-info")
    )
    wheel = zipfile.ZipFile(wheel_of(tmp_path / name, tmp_path))
    packed = {path for path in wheel.namelist() if ".dist-info/" not in path}
    files = (tmp_path / name / name.replace("-", "_")).rglob("*.*")
    assert packed == {
        file.relative_to(tmp_path / name).as_posix()
        for file in files
        if file.suffix in (".py", ".typed", ".json", ".html", ".gz", ".md")
    }
    assert f"{name.replace('-', '_')}/py.typed" in packed
    written = ConfigParser(delimiters=("=",))
    written.read_string(read(wheel, "entry_points.txt").decode())
    assert set(written[f"pocketquery.{group}"]) == points
    for target in written[f"pocketquery.{group}"].values():
        module = target.split(":")[0].replace(".", "/")
        assert {f"{module}.py", f"{module}/__init__.py"} & packed
    ours = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    assert metadata(wheel)["Version"] == ours


@pytest.mark.slow
def test_the_same_tree_gives_the_same_wheel_to_the_byte(tmp_path: Path) -> None:
    """Built twice, in another folder, zone and language, files newer; make dist fixes the umask."""
    fixed = {"SOURCE_DATE_EPOCH": "1700000000"}
    (tmp_path / "one").mkdir()
    (tmp_path / "another_place").mkdir()
    first = build_wheel(tmp_path / "one", fixed | {"LC_ALL": "C", "TZ": "UTC"})
    other = {"LC_ALL": "C.UTF-8", "TZ": "Asia/Tokyo", "PYTHONHASHSEED": "7"}
    second = build_wheel(tmp_path / "another_place", fixed | other)
    assert first.read_bytes() == second.read_bytes()
    assert {one.date_time[0] for one in zipfile.ZipFile(first).infolist()} == {2023}

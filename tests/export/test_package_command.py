from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from pocketquery.export.package_command import write_package
from pocketquery.sdk.bundle.bundle import Bundle
from pocketquery.sdk.cli import main
from pocketquery.sdk.errors import InvalidInputError
from tests.sdk.tiny_bundle import write_tiny_bundle


def test_a_package_that_pip_installs_and_the_name_opens(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bundle = write_tiny_bundle(tmp_path / "bundle")
    project, place = tmp_path / "project", tmp_path / "place"
    arguments = ["package", "--bundle", str(bundle), "--name", "acme-search", "--json"]
    assert main([*arguments, "--output", str(project)]) == 0
    assert main([*arguments, "--output", str(project), "--version", "1.1"]) == 0  # replaced
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["module"] == "acme_search"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation"]
    done = subprocess.run(
        [*pip, "--no-index", "--target", str(place), str(project)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    code = "from pocketquery import sdk; print(sdk.load('acme-search').dimension)"
    path = os.pathsep.join(filter(None, [str(place), os.environ.get("PYTHONPATH", "")]))
    found = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert found.stdout == "16\n", found.stderr
    assert (project / "acme_search" / "bundle" / "manifest.json").read_bytes() == Bundle.open(
        bundle
    ).manifest_bytes


def test_the_project_says_what_it_carries(tmp_path: Path) -> None:
    from pocketquery.export import write_package

    bundle = Bundle.open(write_tiny_bundle(tmp_path / "bundle"))
    bundle.manifest = bundle.manifest._replace(name="Suche \U0001f50d")
    write_package(bundle, tmp_path / "project", name="a-b", version="2.0rc1")
    project = tomllib.loads((tmp_path / "project" / "pyproject.toml").read_text())["project"]
    assert (project["name"], project["version"]) == ("a-b", "2.0rc1")
    assert project["description"].endswith("Suche \U0001f50d")
    assert project["entry-points"]["pocketquery.bundles"] == {"a-b": "a_b:bundle"}
    page = (tmp_path / "project" / "README.md").read_text()
    assert bundle.manifest.space.id in page
    (tmp_path / "bundle" / "README.md").write_text("# Suche\n\nLearnt from letters.\n")
    write_package(bundle, tmp_path / "project", name="a-b")
    card = "\n## Suche\n\nLearnt from letters.\n"
    assert (tmp_path / "project" / "README.md").read_text() == page + card


@pytest.mark.parametrize(
    ("license", "written"),
    [("MIT", "MIT"), ("LicenseRef-acme", "LicenseRef-acme"), ("Proprietary", None)],
)
def test_a_licence_that_no_build_takes_is_left_to_the_page(
    tmp_path: Path, license: str, written: str | None
) -> None:
    from pocketquery.export import write_package

    bundle = Bundle.open(write_tiny_bundle(tmp_path / "bundle"))
    bundle.manifest = bundle.manifest._replace(license=license)
    write_package(bundle, tmp_path / "project", name="acme")
    project = tomllib.loads((tmp_path / "project" / "pyproject.toml").read_text())["project"]
    assert project.get("license") == written
    assert f"licence {license}" in (tmp_path / "project" / "README.md").read_text()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"--name": "Acme"}, "expected lower-case words joined by hyphens"),
        ({"--name": "default"}, "expected lower-case words joined by hyphens"),
        ({"--name": "pocketquery"}, "expected lower-case words joined by hyphens"),
        ({"--version": "one"}, "expected one such as 1.0"),
        ({"--output": "taken"}, "is left alone"),
        ({"--output": "taken/mine.txt"}, "is left alone"),
        ({"--bundle": "absent"}, "absent: found nothing there"),
    ],
)
def test_what_cannot_be_packed_says_why(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], change: dict[str, str], message: str
) -> None:
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "mine.txt").write_text("mine")
    values = {
        "--bundle": str(write_tiny_bundle(tmp_path / "bundle")),
        "--name": "acme",
        "--version": "1.0",
        "--output": str(tmp_path / "project"),
    } | change
    if change.get("--output"):
        values["--output"] = str(tmp_path / change["--output"])
    assert main(["package", *[word for pair in values.items() for word in pair]]) == 2
    assert message in capsys.readouterr().err
    assert (tmp_path / "taken" / "mine.txt").read_text() == "mine"


@pytest.mark.parametrize(
    "place", ["CHANGES.md", "acme_search/helper.py", "acme_search/bundle/a.txt"]
)
def test_what_was_added_to_a_package_is_not_replaced(tmp_path: Path, place: str) -> None:
    bundle = Bundle.open(write_tiny_bundle(tmp_path / "bundle"))
    write_package(bundle, tmp_path / "project", name="acme-search")
    (tmp_path / "project" / "build" / "lib").mkdir(parents=True)  # a build's, not a person's
    write_package(bundle, tmp_path / "project", name="acme-search", version="1.1")
    (tmp_path / "project" / place).write_text("mine")
    with pytest.raises(InvalidInputError, match=r"is not of .* and would be gone"):
        write_package(bundle, tmp_path / "project", name="acme-search", version="1.2")
    assert (tmp_path / "project" / place).read_text() == "mine"


def test_a_project_of_somebody_elses_is_not_replaced(tmp_path: Path) -> None:
    bundle = Bundle.open(write_tiny_bundle(tmp_path / "bundle"))
    write_package(bundle, tmp_path / "project", name="acme")
    theirs = tmp_path / "project" / "pyproject.toml"
    theirs.write_text('[project]\nname = "acme"\n')
    with pytest.raises(InvalidInputError, match="is not the package acme; it is left alone"):
        write_package(bundle, tmp_path / "project", name="acme")
    assert theirs.read_text() == '[project]\nname = "acme"\n'

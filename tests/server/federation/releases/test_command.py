from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from pocketquery.sdk.bundle.adapter import read_adapter
from pocketquery.sdk.bundle.bundle import Bundle
from pocketquery.sdk.errors import ArtifactNotFoundError, InvalidInputError
from pocketquery.server.federation.releases.command import releases
from pocketquery.server.federation.releases.registry import Registry
from tests.commands import run_command
from tests.sdk.tiny_bundle import default_adapter, trained_adapter, write_tiny_bundle
from tests.server.federation.reports import ACCEPTED, REJECTED


@pytest.fixture
def registry(tmp_path: Path) -> Registry:
    path = write_tiny_bundle(tmp_path / "bundle", adapter=default_adapter())
    bundle = Bundle.open(path)
    registry = Registry.of_bundle(tmp_path / "releases", bundle)
    for seed, report in ((2, ACCEPTED), (3, REJECTED)):
        parent = registry.current().version
        registry.publish(trained_adapter(seed), report, manifest=bundle.manifest, parent=parent)
    return registry


def run(*arguments: str) -> int:
    return run_command(releases, "releases", *arguments)


def test_list_shows_every_candidate(registry: Registry, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("list", "--registry", str(registry.folder)) == 0
    head, first, second, third = capsys.readouterr().out.splitlines()
    assert head.split() == ["version", "parent", "status", "recorded", "after", "interval", "gate"]
    assert re.fullmatch(r" +1 +accepted +\d{4}-\d\d-\d\d \d\d:\d\d +not judged", first)
    assert re.search(r"^ +2 +1 +in force .* 0\.7100 +\[\+0\.0020, \+0\.0180\] +accepted$", second)
    assert re.search(r"^ +3 +2 +rejected .* 0\.6800 +\[-0\.0300, -0\.0100\] +mean_fell$", third)
    run("list", "--registry", str(registry.folder), "--json")
    found = json.loads(capsys.readouterr().out)["releases"]
    assert found == [release.to_dict() for release in registry.history()]
    assert [one["status"] for one in found] == ["accepted", "in force", "rejected"]


def test_show_prints_the_gates_report_and_writes_the_file(
    registry: Registry, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    run("show", "3", "--registry", str(registry.folder))
    text = capsys.readouterr().out
    assert text.startswith("release 3: rejected\n")
    assert "mean_fell: the mean difference" in text
    assert "0.7000 before, 0.6800 after, 0.6900 shipped" in text
    path = tmp_path / "adapter.safetensors"
    run("show", "--registry", str(registry.folder), "--output", str(path), "--json")
    assert json.loads(capsys.readouterr().out) == registry.current().to_dict()
    manifest = Bundle.open(tmp_path / "bundle").manifest
    assert read_adapter(path, manifest=manifest).version == "2"
    with pytest.raises(InvalidInputError, match="was rejected"):
        run("show", "3", "--registry", str(registry.folder), "--output", str(path))
    run("show", "1", "--registry", str(registry.folder), "--output", str(path))
    assert read_adapter(path, manifest=manifest).version == "1"  # a release takes one's place
    with pytest.raises(InvalidInputError, match=r"manifest\.json exists and is not an adapter"):
        run(
            "show",
            "--registry",
            str(registry.folder),
            "--output",
            str(tmp_path / "bundle" / "manifest.json"),
        )
    assert Bundle.open(tmp_path / "bundle").manifest == manifest
    capsys.readouterr()
    run("show", "1", "--registry", str(registry.folder))
    assert "not judged" in capsys.readouterr().out


def test_rollback_says_what_is_in_force(
    registry: Registry, capsys: pytest.CaptureFixture[str]
) -> None:
    run("rollback", "--registry", str(registry.folder), "--json")
    assert json.loads(capsys.readouterr().out)["version"] == "1"
    assert registry.current().version == "1"
    run("rollback", "2", "--registry", str(registry.folder))
    assert capsys.readouterr().out.startswith("release 2: in force\n")
    with pytest.raises(InvalidInputError, match="known are 1"):
        run("rollback", "9", "--registry", str(registry.folder))


def test_a_place_without_a_registry_is_an_error(tmp_path: Path) -> None:
    for action in ("list", "show", "rollback"):
        with pytest.raises(ArtifactNotFoundError, match="found no registry"):
            run(action, "--registry", str(tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_help_has_examples(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        run("--help")
    assert "examples:\n  pocketquery releases list" in capsys.readouterr().out
    with pytest.raises(SystemExit) as exit_info:
        run()
    assert exit_info.value.code == 2


def test_listing_needs_neither_torch_nor_flower() -> None:
    code = (
        "import sys; import pocketquery.server.federation.releases.registry, "
        "pocketquery.server.federation.releases.command\n"
        "print({'torch', 'flwr', 'onnxruntime', 'ir_measures'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "set()\n", done.stderr

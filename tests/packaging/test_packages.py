"""The encoders in packages/: what `pocketquery package` writes, with every file as described."""

from __future__ import annotations

from pathlib import Path

import pytest

from pocketquery import sdk
from pocketquery.export import write_package
from pocketquery.sdk.bundle.bundle import Bundle
from tests.packaging.wheels import ROOT

PROJECTS = sorted(bundle.parents[1] for bundle in (ROOT / "packages").glob("*/*/bundle"))


@pytest.mark.parametrize("project", PROJECTS, ids=lambda project: project.name)
def test_a_package_is_what_the_command_writes(project: Path, tmp_path: Path) -> None:
    module = project.name.replace("-", "_")
    bundle = Bundle.open(project / module / "bundle")
    write_package(bundle, tmp_path / "written", name=project.name)
    for written in (tmp_path / "written").rglob("*"):
        place = project / written.relative_to(tmp_path / "written")
        if written.is_file():
            found, wanted = place.read_bytes(), written.read_bytes()
            assert found == wanted or (written.name == "README.md" and found.startswith(wanted))


@pytest.mark.parametrize("project", PROJECTS, ids=lambda project: project.name)
def test_its_encoder_passes_its_golden_vectors(project: Path) -> None:
    place = project / project.name.replace("-", "_") / "bundle"
    sdk.verify(place)
    encoder = sdk.load(place)
    is_built_ins = encoder.space_id == sdk.load("default").space_id
    assert encoder.languages
    assert is_built_ins == (encoder.languages == ("en",))  # an index of the built-in stays valid

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from pocketquery.sdk.cli import main, whole_parser
from pocketquery.sdk.commands import SUMMARIES

ROOT = Path(__file__).parents[2]


def test_every_command_of_the_tour_exists() -> None:
    tour = (ROOT / "docs" / "tour.md").read_text(encoding="utf-8")
    named = set(re.findall(r"^(?:\S*/)?pocketquery ([a-z]+) ", tour, re.MULTILINE))
    assert {"distill", "export", "index", "encode", "search", "evaluate", "verify"} <= named
    assert named <= set(SUMMARIES)


def test_commands_are_listed_before_they_are_loaded(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    assert capsys.readouterr().out == whole_parser().format_help()


def pages() -> list[Path]:
    """Every Markdown page that the repository keeps."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    found = [ROOT / name for name in listed.stdout.splitlines()]
    return found or [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]  # not from git


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as a forge makes them."""
    text = site_links().FENCE.sub("", page.read_text(encoding="utf-8"))
    found: dict[str, int] = {}
    for heading in re.findall(r"^#+ +(.*?) *$", text, re.MULTILINE):
        plain = re.sub(r"\[(.*?)\]\(.*?\)|[`*]", r"\1", heading).lower()
        slug = re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")
        found[slug] = found.get(slug, 0) + 1
    return set(found)


def site_links() -> Any:
    """docs/site/repository_links.py, which is mkdocs' and in no package."""
    path = ROOT / "docs" / "site" / "repository_links.py"
    spec = importlib.util.spec_from_file_location("repository_links", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["repository_links"] = module
    spec.loader.exec_module(module)
    return module


def test_links_of_the_documents_lead_somewhere() -> None:
    for page in pages():
        text = page.read_text(encoding="utf-8")
        within = re.findall(r"\]\((#[^)\s]+)\)", site_links().FENCE.sub("", text))
        own = [(page, anchor) for anchor in within]
        for target, anchor in [*site_links().links(page, text), *own]:
            assert target.exists(), f"{page.relative_to(ROOT)} links to {target}"
            if anchor and target.suffix == ".md":
                assert anchor[1:] in anchors(target), f"{page.relative_to(ROOT)}: {target}{anchor}"


def test_the_workflow_runs_what_is_there() -> None:
    """Its commands exist, and it runs every Python that the package says it was run with."""
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    targets = re.findall(
        r"^(?:.*run: |if .* then )?make ([a-z0-9-]+)", f"{workflow}\n{script}", re.MULTILINE
    )
    assert {
        "check",
        "test-slow",
        "test-packages",
        "test-research",
        "docs",
        "dist",
        "test-device",
    } <= set(targets)
    assert all(re.search(rf"^{target}:", makefile, re.MULTILINE) for target in targets)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    said = {one.rpartition(" ")[2] for one in project["classifiers"] if "Python :: 3." in one}
    (matrix,) = re.findall(r"python: (\[.*\])$", workflow, re.MULTILINE)
    assert said <= set(json.loads(matrix))

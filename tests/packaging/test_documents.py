from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
ROOMS = ("sdk", "client", "server", "distill", "export", "benchmarks", "examples")


def test_architecture_maps_every_file_and_no_other() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    mapped = set(re.findall(r"^- `([\w/]+\.py)`:", text, re.MULTILINE))
    there = {
        path.relative_to(ROOT).as_posix()
        for room in ROOMS
        for path in (ROOT / room).rglob("*.py")
        if path.name != "__init__.py"
    }
    assert mapped == there


def test_every_command_of_the_readme_exists() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    named = set(re.findall(r"^(?:\S*/)?pocketquery ([a-z]+) ", readme, re.MULTILINE))
    command = [sys.executable, "-m", "pocketquery.sdk", "--help"]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert {"distill", "export", "index", "encode", "search", "evaluate", "verify"} <= named
    assert all(re.search(rf"^\s+{name}\s", shown, re.MULTILINE) for name in named)


def test_links_of_the_documents_lead_somewhere() -> None:
    for page in ROOT.glob("*.md"):
        for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text(encoding="utf-8")):
            assert (ROOT / target).exists(), f"{page.name} links to {target}"

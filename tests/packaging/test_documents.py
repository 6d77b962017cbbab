from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_architecture_lists_every_file_by_its_first_line() -> None:
    command = [sys.executable, "docs/list_files.py", "--check"]
    result = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert result.returncode == 0, result.stdout
    page = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    bare = [line for line in page.splitlines() if line.startswith("- `") and line.endswith("`: ")]
    assert not bare, f"modules without a docstring: {bare}"


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


def test_the_pretraining_page_has_the_lines_that_are_measured() -> None:
    """What improvements.py runs, word by word, with the page's own shorthands put in."""
    code = (
        "import json, improvements as i; lines = {n: l.arguments if n == 'mlm' else "
        "l.command(n + '-encoder') for n, l in i.LINES.items()}; "
        "print(json.dumps([[*i.PREPARATIONS.values(), *lines.values()], i.WORD2VEC]))"
    )
    folder = ROOT / "benchmarks" / "claims"
    shown = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=folder
    )
    commands, python = json.loads(shown.stdout)
    page = (ROOT / "docs" / "pretraining.md").read_text(encoding="utf-8")
    for name, value in re.findall(r'^([A-Z]+)="(.*)"$', page, re.MULTILINE):
        page = page.replace(f"${name}", value)
    there = {" ".join(line.split()) for line in page.splitlines()}
    assert {f"pocketquery {command}" for command in commands} <= there
    assert f"```python\n{python}```" in page

"""The pages of research/ have the lines and the verdicts that were measured, word by word."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


def test_the_pretraining_page_has_the_lines_that_are_measured(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What improvements.py runs, with the page's own shorthands put in."""
    monkeypatch.setattr(sys, "path", [str(ROOT / "research" / "claims"), *sys.path])
    from improvements import LINES, PREPARATIONS, WORD2VEC

    lines = [
        one.arguments if name == "mlm" else one.command(f"{name}-encoder")
        for name, one in LINES.items()
    ]
    page = (ROOT / "research" / "pretraining.md").read_text(encoding="utf-8")
    for name, value in re.findall(r'^([A-Z]+)="(.*)"$', page, re.MULTILINE):
        page = page.replace(f"${name}", value)
    there = {" ".join(line.split()) for line in page.splitlines()}
    assert {f"pocketquery {command}" for command in [*PREPARATIONS.values(), *lines]} <= there
    assert f"```python\n{WORD2VEC}```" in page


def test_the_table_of_the_claims_is_what_the_stored_scores_say(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Every verdict, effect and interval is decided again; so is what is left to be run."""
    monkeypatch.setattr(sys, "path", [str(ROOT / "research" / "claims"), *sys.path])
    from stored import decisions
    from table_page import PAGE, with_table

    page = PAGE.read_text(encoding="utf-8")
    assert with_table(page, decisions()) == page, (
        "make it anew: python research/claims/table_page.py"
    )
    assert [row.split(" |")[0] for row in page.splitlines() if row.startswith("| O")] == [
        f"| O{number}" for number in range(1, 26)
    ]

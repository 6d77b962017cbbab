"""Markdown pages and their blocks: those that run, each a process, and those that cannot.

A ``python`` or ``sh`` block that a ``text`` block follows runs, in the page's order, and prints
that text. Any other stands under a comment that says why not: ``<!-- not run: reason -->``
for the next block, ``<!-- from here not run: reason -->`` for all that follow without a text.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
ADAPTERS = ROOT / "examples" / "integrations"
_OTHERS = ("README.md", "CONTRIBUTING.md", "examples/web/README.md")
PAGES = [*sorted(DOCS.rglob("*.md")), *(ROOT / name for name in _OTHERS)]

_PARTS = re.compile(
    r"^(?P<comment><!-- (?P<rest>from here )?not run: (?P<reason>.*?) -->)$"
    r"|^## (?P<heading>[^\n]*)$"
    r"|^(?P<indent> *)```(?P<language>\w*)\n(?P<code>.*?)^(?P=indent)```$"
    r"(?P<printed>\n\n```text\n(?P<text>.*?)^```$)?",
    re.MULTILINE | re.DOTALL,
)


class Block(NamedTuple):
    """A block of a page: the heading above it, what it prints where it runs, or why it does not."""

    heading: str
    language: str
    code: str
    printed: str | None
    reason: str


def all_blocks(page: Path) -> list[Block]:
    """Every fenced block of a page, but those that say what another one prints."""
    found, heading, rest, following = [], "the beginning", "", ""
    for match in _PARTS.finditer(page.read_text("utf-8")):
        if match["heading"]:
            heading = match["heading"]
        elif match["comment"]:
            following = match["reason"]
            rest = following if match["rest"] else rest
        else:
            runs = match["language"] in ("python", "sh") and match["printed"]
            if not runs and match["printed"]:
                found.append(Block(heading, "text", match["text"], None, ""))
            printed = match["text"] if runs else None
            reason = "" if runs else following or rest
            found.append(Block(heading, match["language"], match["code"], printed, reason))
            following = ""
    return found


def blocks(name: str) -> list[Block]:
    """The blocks of docs/``name`` that run; each says what it prints."""
    return [block for block in all_blocks(DOCS / name) if block.printed is not None]


def run(block: Block, folder: Path) -> str:
    """What the block prints, run in ``folder`` as where the adapters were copied to."""
    path = os.pathsep.join([str(ADAPTERS), str(ROOT), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path, "HF_HUB_OFFLINE": "1", "HOME": str(folder)}
    for name in ("POCKETQUERY_BUNDLE", "POCKETQUERY_PUBLIC_KEY"):
        environment.pop(name, None)
    command = [sys.executable, "-c", block.code]
    if block.language == "sh":
        python = shlex.quote(sys.executable)
        ours = f'python() {{ {python} "$@"; }}\n'
        ours += 'pocketquery() { python -m pocketquery.sdk "$@"; }\n'
        command = ["bash", "-e", "-c", ours + block.code]
    result = subprocess.run(command, capture_output=True, text=True, cwd=folder, env=environment)
    assert result.returncode == 0, result.stderr
    return result.stdout

"""Markdown pages and their blocks: those that run, each a process, and those that cannot.

A ``python`` or ``sh`` block runs, in the page's order; a ``text`` block right below it is what it
prints. Under ``<!-- slow: reason -->`` it runs with the very slow tests; one that cannot run stands
under ``<!-- not run: reason -->``. Both are for the next block; ``<!-- from here slow: reason -->``
and ``<!-- from here not run: reason -->`` are for all that follow, up to the next of these.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
ADAPTERS = ROOT / "examples" / "integrations"
_OTHERS = ("README.md", "CONTRIBUTING.md", "examples/web/README.md")
PAGES = [*sorted(DOCS.rglob("*.md")), *(ROOT / name for name in _OTHERS)]

_PARTS = re.compile(
    r"^(?P<comment><!-- (?P<rest>from here )?(?P<way>not run|slow): (?P<reason>.*?) -->)$"
    r"|^## (?P<heading>[^\n]*)$"
    r"|^(?P<indent> *)```(?P<language>\w*)\n(?P<code>.*?)^(?P=indent)```$"
    r"(?P<printed>\n\n```text\n(?P<text>.*?)^```$)?",
    re.MULTILINE | re.DOTALL,
)

_REFUSED = "refused: nothing was written\n"

_PROGRAMS = """\
python() { PYTHON "$@"; }
pocketquery() { python -m pocketquery.sdk "$@"; }
pip() {
    local offline="--quiet --no-index --no-build-isolation"
    case "$2" in
        ./*) python -m pip "$@" $offline --no-deps --target "$HOME/installed" ;;
        *) python -m pip "$@" $offline --dry-run ;;
    esac
}
"""


class Block(NamedTuple):
    """A block of a page: the heading above it, what it prints, how it runs and why it does so."""

    heading: str
    language: str
    code: str
    printed: str | None
    way: str = ""  # else "slow" or "not run"
    reason: str = ""

    @property
    def runs(self) -> bool:
        """Whether a test runs it."""
        return self.language in ("python", "sh") and self.way != "not run"


def all_blocks(page: Path) -> list[Block]:
    """Every fenced block of a page, but those that say what another one prints."""
    found, heading, rest, following = [], "the beginning", ("", ""), ("", "")
    for match in _PARTS.finditer(page.read_text("utf-8")):
        if match["heading"]:
            heading = match["heading"]
        elif match["comment"]:
            following = (match["way"], match["reason"])
            rest = following if match["rest"] else rest
        elif match["language"] in ("python", "sh"):
            way, reason = following if following[0] else rest
            code = textwrap.dedent(match["code"])
            found.append(Block(heading, match["language"], code, match["text"], way, reason))
            following = ("", "")
        else:
            found.append(Block(heading, match["language"], match["code"], None))
            if match["printed"]:
                found.append(Block(heading, "text", match["text"], None))
    return found


def name_of(page: Path) -> str:
    """A page's name in the tests: its path in docs/, else in the checkout."""
    return page.relative_to(DOCS if page.is_relative_to(DOCS) else ROOT).as_posix()


def blocks(name: str, *, slow: bool = False) -> list[Block]:
    """The blocks of the page ``name`` that run; with ``slow``, those that are marked so, too."""
    page = next(page for page in PAGES if name_of(page) == name)
    return [block for block in all_blocks(page) if block.runs and (slow or not block.way)]


_CHOICES = ("POCKETQUERY_BUNDLE", "POCKETQUERY_INDEX", "POCKETQUERY_PUBLIC_KEY")  # the reader's own


def run(block: Block, folder: Path, more: Mapping[str, str] | None = None) -> str:
    """What the block prints, run in ``folder`` as where the adapters were copied to.

    ``more`` is set in its environment. What ``pip`` is to install must be installed already, which
    pip itself finds out; a folder of the page's own it installs beside the page.

    An adaptation that was refused is an answer, after which the rest of its block is left out: what
    is learnt differs between machines, and whether it is enough is for benchmarks to say.
    """
    path = [str(folder / "installed"), str(ADAPTERS), str(ROOT), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "HOME": str(folder)}
    programs = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    environment |= {"PATH": programs, "PYTHONPATH": os.pathsep.join(path), **(more or {})}
    for name in (*_CHOICES, "XDG_DATA_HOME"):
        environment.pop(name, None)
    command = [sys.executable, "-c", block.code]
    if block.language == "sh":
        shell = _PROGRAMS.replace("PYTHON", shlex.quote(sys.executable))
        command = ["bash", "-e", "-c", shell + block.code]
    result = subprocess.run(command, capture_output=True, text=True, cwd=folder, env=environment)
    refused = result.returncode == 1 and result.stdout.endswith(_REFUSED)
    assert result.returncode == 0 or refused, result.stdout[-2000:] + result.stderr[-4000:]
    return result.stdout

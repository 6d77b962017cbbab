"""The list of files in ARCHITECTURE.md, made from the modules' first lines.

python docs/list_files.py           writes it anew, between the two marks
python docs/list_files.py --check   exits 1 where it is stale
"""

from __future__ import annotations

import ast
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "ARCHITECTURE.md"
BEGIN, END = "<!-- files: made by docs/list_files.py -->\n", "<!-- end of files -->\n"
PACKAGES = ("sdk", "client", "server", "distill", "export", "benchmarks", "examples", "docs")
JAVASCRIPT = ROOT / "sdk" / "js"  # a package of its own, with a README of its own
WIDTH = 118


def first_line(path: Path) -> str:
    """The first sentence or line of a module's docstring, without its full stop."""
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    first = text.split("\n\n")[0].replace("\n", " ").strip()
    return first.removesuffix(".").replace("``", "`")


def lines() -> Iterator[str]:
    """The list, folder by folder."""
    for package in PACKAGES:
        found = (ROOT / package).rglob("*.py")
        folders = sorted({path.parent for path in found if JAVASCRIPT not in path.parents})
        for folder in folders:
            modules = sorted(p for p in folder.glob("*.py") if p.name != "__init__.py")
            init = folder / "__init__.py"
            if not modules:
                continue
            place = folder.relative_to(ROOT).as_posix()
            yield f"### {place}/\n"
            if init.is_file() and first_line(init):
                yield f"{first_line(init)}.\n"
            for module in modules:
                name = module.relative_to(ROOT).as_posix()
                yield from textwrap.wrap(
                    f"- `{name}`: {first_line(module)}",
                    WIDTH,
                    subsequent_indent="  ",
                    break_long_words=False,
                    break_on_hyphens=False,
                )
            yield ""


def page() -> str:
    """ARCHITECTURE.md with a fresh list."""
    text = PAGE.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    return before + BEGIN + "\n" + "\n".join(lines()) + "\n" + END + rest.split(END)[1]


def main() -> int:
    """The command line of the docstring."""
    fresh = page()
    stale = fresh != PAGE.read_text(encoding="utf-8")
    if "--check" in sys.argv:
        if stale:
            print("the list of files in ARCHITECTURE.md is stale; run: make architecture")
        return int(stale)
    PAGE.write_text(fresh, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Three real documentations as folders of text, in the data folder.

    python benchmarks/finding_parts/documentation.py [--data FOLDER] [--clones URL]

Takes each from its repository at one commit, with git. ``--clones`` is where the repositories are,
as ``URL/OWNER/NAME``: GitHub, or a folder of clones. What is there already stays.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import NamedTuple

__all__ = ["DOCUMENTATIONS", "Documentation", "descriptions", "without_descriptions"]


class Documentation(NamedTuple):
    """A folder in the data folder, and where it comes from."""

    repository: str
    commit: str
    paths: tuple[str, ...]
    licence: str


DOCUMENTATIONS = {
    "flask_docs": Documentation(
        "pallets/flask",
        "2ac89889f4cc330eabd50f295dcef02828522c69",
        ("docs", "CHANGES.rst", "LICENSE.txt"),
        "BSD-3-Clause",
    ),
    "jupyter_server_docs": Documentation(
        "jupyter-server/jupyter_server",
        "9a4d6eea2b16815a493b11fffe0b51b1fe55a81b",
        ("docs/source", "LICENSE"),
        "BSD-3-Clause",
    ),
    "obsidian_help": Documentation(
        "obsidianmd/obsidian-help",
        "fa179e91e86eaff5859226cc045c81000d64e3cd",
        ("en", "Release notes"),
        "none stated",
    ),
}
_TEXTS = (".md", ".rst", ".txt", "")
_DESCRIPTION = re.compile(r"^description:[ \t]*(.*)\n(?:[ \t]+\S.*\n)*", re.MULTILINE)


def descriptions(folder: Path) -> dict[str, str]:
    """Path of a page -> the description in its front matter, for each page with one."""
    by_path = {}
    for path in sorted(folder.rglob("*.md")):
        if value := _description(path.read_text("utf-8")):
            by_path[path.relative_to(folder).as_posix()] = value
    return by_path


def without_descriptions(folder: Path, copy: Path) -> Path:
    """A copy of the folder in which no page has a description: they are asked, not read."""
    shutil.copytree(folder, copy)
    for path in copy.rglob("*.md"):
        text = path.read_text("utf-8")
        if _description(text):
            path.write_text(_DESCRIPTION.sub("", text, count=1), "utf-8")
    return copy


def _description(text: str) -> str:
    """That of the front matter, on one line and without its quotes; empty: it has none."""
    front, closing, _ = text.removeprefix("---\n").partition("\n---")
    if not text.startswith("---\n") or not closing:
        return ""
    if not (match := _DESCRIPTION.search(f"{front}\n")):
        return ""
    words = " ".join(match[0].removeprefix("description:").split())
    return re.sub(r"^([\"'])(.*)\1$", r"\2", words.removeprefix(">-").removeprefix(">").strip())


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--data", help="default: POCKETQUERY_DATA, else data")
    parser.add_argument("--clones", default="https://github.com", metavar="URL")
    options = parser.parse_args()
    beside = Path(__file__).resolve().parents[2] / "data"
    data = Path(options.data or os.environ.get("POCKETQUERY_DATA") or beside)
    data.mkdir(parents=True, exist_ok=True)
    for name, documentation in DOCUMENTATIONS.items():
        if not (data / name).is_dir():
            _take(documentation, f"{options.clones}/{documentation.repository}", data / name)
        print(f"{data / name}: {documentation.licence}")
    return 0


def _take(documentation: Documentation, url: str, target: Path) -> None:
    with tempfile.TemporaryDirectory(dir=target.parent) as place:
        git = ["git", "-C", place]
        subprocess.run([*git, "init", "--quiet"], check=True)
        subprocess.run([*git, "remote", "add", "origin", url], check=True)
        small = ["--depth", "1", "--filter=blob:limit=1m"]  # texts, not films
        fetch = ["fetch", "--quiet", *small, "origin", documentation.commit]
        subprocess.run([*git, *fetch], check=True)
        listed = subprocess.run(
            [*git, "ls-tree", "-rz", "--name-only", "FETCH_HEAD", *documentation.paths],
            check=True, capture_output=True, text=True,
        ).stdout  # fmt: skip
        names = [name for name in listed.split("\0") if name and Path(name).suffix in _TEXTS]
        archive = Path(place, "texts.tar")
        writing = [*git, "archive", "-o", str(archive), "FETCH_HEAD", "--", *names]
        subprocess.run(writing, check=True)
        with tarfile.open(archive) as packed:
            packed.extractall(Path(place, "texts"), filter="data")
        Path(place, "texts").rename(target)


if __name__ == "__main__":
    sys.exit(main())

"""Repositories made on the spot, for what reads clones."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

__all__ = ["commit", "git", "new_clone"]


def git(clone: Path, *command: str) -> None:
    """Run it in ``clone``, under a name of its own."""
    named = ("-c", "user.name=x", "-c", "user.email=x@example.org", "-c", "commit.gpgsign=false")
    subprocess.run(["git", "-C", str(clone), *named, *command], check=True, capture_output=True)


def new_clone(clone: Path) -> Path:
    """``clone``, a repository without a commit."""
    clone.mkdir(parents=True)
    git(clone, "init", "--quiet")
    return clone


def commit(clone: Path, files: Mapping[str, bytes]) -> None:
    """A commit that writes ``files``, by name."""
    for name, content in files.items():
        (clone / name).parent.mkdir(parents=True, exist_ok=True)
        (clone / name).write_bytes(content)
    git(clone, "add", ".")
    git(clone, "commit", "--quiet", "--message", "a version")

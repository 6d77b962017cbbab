"""Pages of text out of clones of repositories, and the file that they are written to."""

from __future__ import annotations

import json
import lzma
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pocketquery.sdk.errors import InvalidInputError
from pocketquery.sdk.files import make_folder, write_atomic

__all__ = ["FILE", "git", "write_pages"]

FILE = "pages.jsonl.xz"


def git(clone: Path, *command: str) -> bytes:
    """What ``git`` prints in ``clone``, which may be bare.

    Raises:
        InvalidInputError: it fails.
    """
    done = subprocess.run(["git", "-C", str(clone), *command], capture_output=True, check=False)
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip()
        raise InvalidInputError(f"{clone} is no clone that can be read: {said}")
    return done.stdout


def write_pages(folder: Path, pages: Iterable[dict[str, Any]]) -> None:
    """Write :data:`FILE` into ``folder``: a JSON object a page, in the layout of ``enwiki_pages``,
    which is a title and paragraphs of a section and a text."""
    lines = "".join(json.dumps(page, ensure_ascii=False) + "\n" for page in pages)
    make_folder(folder)
    write_atomic(folder / FILE, lzma.compress(lines.encode()))

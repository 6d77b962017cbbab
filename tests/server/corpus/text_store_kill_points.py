"""Writes a text store over an older one many times, each time killed (SIGKILL) at another line.

    python -m tests.server.corpus.text_store_kill_points STORE POINTS

Every point is a forked process. After each, this process checks that what is left is the old store
or the new one, whole, and that writing can be done again. Prints how many were old and new.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections import Counter
from pathlib import Path

from pocketquery.server.corpus import Group, TextStore, write_text_store
from tests.killed_lines import lines_of

OLD = [Group(f"old-{i}", (f"text {i}", "and another")) for i in range(3)]
NEW = [Group(f"new-{i}", (f"text {i}",), lang="en") for i in range(5)]
_MODULES = ("/corpus/store_writer.py", "/sdk/files.py")
_LAST_LINES = 40  # the renames are at the end, where old and new change places


def main(path: Path, points: int) -> None:
    """Kill at ``points`` lines, half of them among the last."""
    lines = lines_of(lambda: write_text_store(path, NEW, "documents"), _MODULES)
    half = points // 2
    chosen = {1 + lines * i // half for i in range(half)}
    chosen |= {lines - _LAST_LINES * i // half for i in range(half)}
    seen: Counter[str] = Counter()
    for line in sorted(chosen):
        shutil.rmtree(path.parent)
        write_text_store(path, OLD, "documents")
        killed_at(line, path)
        store = TextStore.open(path)
        found = [store[row] for row in range(len(store))]
        assert found in (OLD, NEW), found
        seen["old" if found == OLD else "new"] += 1
        assert len(write_text_store(path, NEW, "documents")) == len(NEW)
    print(dict(seen))


def killed_at(line: int, path: Path) -> None:
    """Write the new store in a forked process that is killed at ``line``, counted from 1."""
    child = os.fork()
    if child == 0:
        lines_of(lambda: write_text_store(path, NEW, "documents"), _MODULES, line)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status), f"line {line} was not reached"


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))

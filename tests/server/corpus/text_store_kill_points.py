"""Writes a text store over an older one many times, each time killed (SIGKILL) at another line.

    python -m tests.server.corpus.text_store_kill_points STORE POINTS

Every point is a forked process. After each, this process checks that what is left is the old store
or the new one, whole, and that writing can be done again. Prints how many were old and new.
"""

from __future__ import annotations

import shutil
import sys
from collections import Counter
from pathlib import Path

from pocketquery.server.corpus import Group, TextStore, write_text_store
from tests.kills import killed, lines_of, spread

OLD = [Group(f"old-{i}", (f"text {i}", "and another")) for i in range(3)]
NEW = [Group(f"new-{i}", (f"text {i}",), lang="en") for i in range(5)]
_MODULES = ("/corpus/store_writer.py", "/sdk/files.py", "/sdk/folders.py")
_LAST_LINES = 40  # the renames are at the end, where old and new change places


def main(path: Path, points: int) -> None:
    """Kill at ``points`` lines, half of them among the last."""

    def write() -> None:
        write_text_store(path, NEW, "documents")

    write_text_store(path, OLD, "documents")  # as before each kill: what is replaced is looked at
    lines = lines_of(write, _MODULES)
    seen: Counter[str] = Counter()
    for line in spread(lines, points, last=_LAST_LINES):
        shutil.rmtree(path.parent)
        write_text_store(path, OLD, "documents")
        killed(lambda: lines_of(write, _MODULES, line))  # noqa: B023
        store = TextStore.open(path)
        found = [store[row] for row in range(len(store))]
        assert found in (OLD, NEW), found
        seen["old" if found == OLD else "new"] += 1
        assert len(write_text_store(path, NEW, "documents")) == len(NEW)
    print(dict(seen))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))

"""Writes and reads a text store of which memory, limited by the kernel, holds a small part.

    python -m tests.server.corpus.large_text_store STORE MEGABYTES ROOM

The limit (RLIMIT_DATA) is what the process has before plus ROOM megabytes; it counts all private
memory and not the mapped files. Prints "done", and then, holding the groups in a list instead,
"MemoryError".
"""

from __future__ import annotations

import re
import resource
import sys
from collections.abc import Iterator
from pathlib import Path

from pocketquery.server.corpus import Group, Passages, write_text_store

_TEXTS = 8  # a group
_LETTERS = 2000  # a text


def groups(megabytes: int) -> Iterator[Group]:
    """Groups of so many megabytes, no two texts alike."""
    for number in range(megabytes * 1_000_000 // (_TEXTS * _LETTERS)):
        texts = (f"{number} {place} ".ljust(_LETTERS, "x") for place in range(_TEXTS))
        yield Group(str(number), tuple(texts))


def main(path: Path, megabytes: int, room: int) -> None:
    """Write, read forwards and as passages, then fill memory."""
    status = Path("/proc/self/status").read_text()
    held = re.search(r"VmData:\s+(\d+) kB", status)
    assert held is not None
    limit = int(held[1]) * 1024 + room * 1_000_000
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    store = write_text_store(path, groups(megabytes), "documents")
    assert sum(len(text) for row in range(len(store)) for text in store[row].texts) == (
        len(store) * _TEXTS * _LETTERS
    )
    passages = Passages(store, most_bytes=3 * _LETTERS)
    assert passages[len(passages) - 1].texts == store[len(store) - 1].texts[6:]
    print("done")
    try:
        list(groups(megabytes))
    except MemoryError:
        print("MemoryError")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))

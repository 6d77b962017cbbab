"""Mines pairs over an older store many times, each time killed (SIGKILL) at another line.

    python -m tests.server.corpus.mine_kill_points FOLDER POINTS

After each kill the store is the old one or the new one, whole; mining again gives the new one, and
what the dead process left beside it does no harm. Prints how often which was met.
"""

from __future__ import annotations

import shutil
import sys
from collections import Counter
from pathlib import Path

from pocketquery.sdk.folders import present_folder
from pocketquery.server.corpus import Group, TextStore, write_text_store
from pocketquery.server.corpus.mining.lcs_pairs import mine_pairs
from pocketquery.server.corpus.mining.shuffled_groups import unique_groups
from tests.kills import killed, lines_of, spread

MODULES = (
    "mining/external_sort.py",
    "mining/shuffled_groups.py",
    "mining/lcs_pairs.py",
    "corpus/store_writer.py",
    "sdk/files.py",
    "sdk/folders.py",
)


def documents(count: int) -> list[Group]:
    """Documents with a few pairs each."""
    return [
        Group(f"d{n}", tuple(f"government {n} {part}" for part in ("north", "river", "law")))
        for n in range(count)
    ]


def mine(path: Path, count: int) -> None:
    """The pairs of ``count`` documents, sorted on disk in several runs."""
    pairs = mine_pairs(documents(count))
    write_text_store(path, unique_groups(pairs, 0, path, memory=800), "pairs")


def main() -> None:
    folder, points = Path(sys.argv[1]), int(sys.argv[2])
    mine(folder / "old", 3)
    mine(folder / "new", 6)
    known = {TextStore.open(folder / name).fingerprint: name for name in ("old", "new")}
    shutil.copytree(folder / "old", folder / "once")  # as before each kill: it is looked at
    lines = lines_of(lambda: mine(folder / "once", 6), MODULES)
    seen: Counter[str] = Counter()
    for line in spread(lines, points):
        path = folder / "work" / "pairs"
        path.parent.mkdir()
        shutil.copytree(folder / "old", path)
        killed(lambda: lines_of(lambda: mine(path, 6), MODULES, line))  # noqa: B023
        store = TextStore.open(present_folder(path))
        assert len([store[row] for row in range(len(store))]) == len(store)
        seen[known[store.fingerprint]] += 1
        mine(path, 6)
        assert known[TextStore.open(path).fingerprint] == "new"
        left = [place.name for place in path.parent.iterdir() if place != path]
        assert all(name.startswith(".pairs.") for name in left), left
        shutil.rmtree(path.parent)
    print(dict(seen))


if __name__ == "__main__":
    main()

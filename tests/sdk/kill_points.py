"""Runs an operation on an index many times, each time killed (SIGKILL) at another line.

    python -m tests.sdk.kill_points OPERATION FOLDER POINTS

Every point is a forked process: a trace counts the lines executed in the index's modules and kills
at the chosen one. After each, this process opens what is left and checks that it is the old index
or the new one, whole, and that the operation can be done again. Prints how many were old and new.
"""

from __future__ import annotations

import shutil
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np

from pocketquery.sdk.index.database import get_meta
from pocketquery.sdk.index.documents import content
from pocketquery.sdk.index.index import open_index, verify_index
from pocketquery.sdk.index.updates import change_index
from pocketquery.sdk.indexing.building import build_index
from pocketquery.sdk.slices.delta_file import Delta
from pocketquery.sdk.slices.deltas import apply_delta, make_delta
from pocketquery.sdk.slices.slicing import slice_index
from pocketquery.sdk.words import AUTO
from tests.kills import killed, lines_of, spread
from tests.sdk.small_index import (
    DIMENSION,
    SPACE,
    WordEncoder,
    make_documents,
    make_index,
    vectors_of,
)

OLD = 30
NEW = 45


def add(path: Path) -> None:
    """Old to new: 15 more documents."""
    more = make_documents(NEW - OLD, first=OLD)
    with open_index(path, writable=True) as index:
        if index.get(more[0].id) is None:
            index.add(more, vectors_of(more))


def first(path: Path) -> None:
    """An index without documents gets its first, and with them its language."""
    with open_index(path, writable=True) as index:
        if not len(index):
            documents = make_documents(OLD)
            index.add(documents, vectors_of(documents))


def change(path: Path) -> None:
    """The first five removed and 15 more added, in one step."""
    with open_index(path, writable=True) as index:
        change_index(
            index,
            make_documents(NEW - 10, first=10),
            vectors_of,
            remove=[f"doc-{number}" for number in range(5)],
        )


def delete(path: Path) -> None:
    """Old to none of the first five."""
    with open_index(path, writable=True) as index:
        index.delete([f"doc-{number}" for number in range(5)])


def compact(path: Path) -> None:
    """The first five deleted, then compacted."""
    delete(path)
    with open_index(path, writable=True) as index:
        index.compact()


def build(path: Path) -> None:
    """Another index takes the old one's place."""
    build_index(
        make_documents(NEW), WordEncoder().encode, path, space_id=SPACE, dimension=DIMENSION
    )


def cut(path: Path) -> None:
    """A slice takes the old index's place."""
    slice_index(path.parent / "all", {"year": {"$lt": 1900 + NEW}}, path)


def apply(path: Path) -> None:
    """A delta is applied."""
    apply_delta(path.parent / "delta", path)


OPERATIONS: dict[str, tuple[Callable[[Path], None], set[int]]] = {
    "add": (add, {OLD, NEW}),
    "first": (first, {0, OLD}),
    "change": (change, {OLD, NEW - 5}),
    "delete": (delete, {OLD, OLD - 5}),
    "compact": (compact, {OLD, OLD - 5}),
    "build": (build, {OLD, NEW}),
    "slice": (cut, {OLD, NEW}),
    "delta": (apply, {OLD, NEW}),
}


def check(path: Path, sizes: set[int]) -> int:
    """Whether every part of the index is of one and the same state; its number of documents."""
    verify_index(path)
    with open_index(path, writable=True) as index:
        count = len(index)
        assert count in sizes, count
        hits = {hit.id for hit in index.search("number", 1000, mode="lexical")}
        assert len(hits) == count, (len(hits), count)
        with index._database.reading() as connection:
            snapshot = index._current(connection)
            assert get_meta(connection, "language") == ("english" if count else AUTO)
            rows = dict(connection.execute("SELECT id, row FROM documents"))
        for document in make_documents(NEW):
            assert (index.get(document.id) is not None) == (document.id in hits)
            if document.id in hits:
                assert index.get(document.id) == document, content(document)
                found = snapshot.vectors.floats(np.array([rows[document.id]]))
                np.testing.assert_allclose(found, vectors_of([document]), atol=0.01)
    return count


def main() -> None:
    name, folder, points = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    operation, sizes = OPERATIONS[name]
    before = 0 if operation is first else OLD
    make_index(folder / "old", before)
    make_index(folder / "all", NEW + 15)
    slice_index(folder / "all", {"year": {"$lt": 1900 + NEW}}, folder / "new")
    if operation is apply:
        make_delta(folder / "old", folder / "new", folder / "delta")
        Delta(folder / "delta").check()  # what it imports is no line to be killed at
    kept = {one.name for one in folder.iterdir()} | {"once", "index"}
    shutil.copytree(folder / "old", folder / "once")
    lines = lines_of(lambda: operation(folder / "once"), ["/sdk/"])
    seen: Counter[int] = Counter()
    for line in spread(lines, points):
        path = folder / "index"
        shutil.copytree(folder / "old", path)
        killed(lambda: lines_of(lambda: operation(path), ["/sdk/"], line))  # noqa: B023
        if not path.exists():  # between the two renames of a publication: the writer puts it back
            path = folder / ".index.old"
        seen[check(path, sizes)] += 1
        operation(folder / "index")
        check(folder / "index", sizes - {before})
        left = [one.name for one in folder.iterdir() if one.name not in kept]
        assert not left, left
        shutil.rmtree(folder / "index")
    print(dict(seen))


if __name__ == "__main__":
    main()

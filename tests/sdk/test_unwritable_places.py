"""Indexes and deltas on a read-only medium, and on a full one: read as ever, and errors of ours."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

_SCRIPT = """
import subprocess, sys
from pathlib import Path
import numpy as np
from pocketquery import sdk
from tests.sdk.small_index import DIMENSION, WordEncoder, make_documents, make_index, vectors_of

here, state = Path(sys.argv[1]), sys.argv[2]
place = here / "place"
place.mkdir()
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", place], check=True)
make_index(here / "old", 50)
make_index(here / "new", 60)
sdk.make_delta(here / "old", here / "new", here / "delta")
for name in ("index", "old"):
    make_index(place / name, 50)
if state == "read-only":
    subprocess.run(["mount", "-o", "remount,ro", place], check=True)
else:
    try:
        with (place / "filler").open("wb", buffering=0) as file:
            while file.write(bytes(4096)):
                pass
    except OSError:
        pass

def changed(change):
    with sdk.open_index(place / "index", writable=True) as index:
        change(index)

def built(path):
    documents = make_documents(5)
    with sdk.create_index(path, space_id=WordEncoder.space_id, dimension=DIMENSION) as builder:
        builder.add(documents, vectors_of(documents))

more = make_documents(70, 50)
for name, write in {
    "add": lambda: changed(lambda index: index.add(more, vectors_of(more))),
    "delete": lambda: changed(lambda index: index.delete(["doc-1"])),
    "compact": lambda: changed(lambda index: index.compact()),
    "create": lambda: built(place / "another"),
    "create anew": lambda: built(place / "index"),
    "create below": lambda: built(place / "a" / "b"),
    "slice": lambda: sdk.slice_index(here / "new", {"year": {"$gt": 1940}}, place / "slice"),
    "make delta": lambda: sdk.make_delta(here / "old", here / "new", place / "delta"),
    "apply delta": lambda: sdk.apply_delta(here / "delta", place / "old"),
}.items():
    try:
        write()
    except sdk.WriteError as error:
        expected = "read-only medium" if state == "read-only" else "the disk is full"
        assert expected in str(error) and str(place) in str(error), (name, error)
        assert isinstance(error, sdk.ArtifactError) and isinstance(error, OSError)
    else:
        raise AssertionError(f"{name} did not fail")
    for index in ("index", "old"):
        with sdk.open_index(place / index, encoder=WordEncoder()) as opened:
            assert len(opened) == 50 and opened.search("bridge")
            opened.verify()
print("all told")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="mounts a file system of its own")
@pytest.mark.parametrize("state", ["read-only", "full"])
def test_what_cannot_be_written_is_told_and_left_as_it_was(tmp_path: Path, state: str) -> None:
    own = ["unshare", "--user", "--map-root-user", "--mount"]
    allowed = subprocess.run([*own, "true"], capture_output=True, check=False)
    if allowed.returncode:
        pytest.skip("this user may not have mounts of their own")
    done = subprocess.run(
        [*own, sys.executable, "-c", _SCRIPT, tmp_path, state],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "all told\n", done.stderr

"""A process killed (SIGKILL) at one of its writes, and another that goes on.

Server and devices run in a forked process whose calls into C are watched: statements of SQLite,
writes, fsyncs, renames and removals of files, made directories. At the chosen one, before it is
made, the process is gone. Another one goes on with what is on the disk.
"""

from __future__ import annotations

import io
import json
import os
import signal
import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, TypeAlias

from pocketquery.server.federation.releases.registry import Registry

__all__ = ["Left", "left_by", "same_rounds", "writes_of"]

Left: TypeAlias = tuple[list[tuple[str, bytes]], bytes]
"""Releases by version, and the file of the rounds' rows."""

_CALLS = {"fsync", "replace", "rename", "unlink", "remove", "mkdir", "rmdir", "truncate"}
_FILES = (io.FileIO, io.BufferedWriter, io.BufferedRandom)
_DATABASES = (sqlite3.Connection, sqlite3.Cursor)
_STATEMENTS = {"execute", "executemany", "executescript", "commit"}


def writes_of(action: Callable[[], object], kill_at: int | None = None) -> int:
    """Run ``action`` and count what it writes; before write ``kill_at``, counted from 1, this
    process ends by SIGKILL.
    """
    count = 0

    def watch(frame: FrameType, event: str, called: Any) -> None:
        nonlocal count
        if event == "c_call" and _is_write(called):
            count += 1
            if count == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.setprofile(watch)
    try:
        action()
    finally:
        sys.setprofile(None)
    return count


def left_by(folder: Path) -> Left:
    """What rounds in ``folder`` left."""
    registry = Registry.open(folder / "releases")
    releases = [(one.version, registry.read(one.version)) for one in registry.history()]
    return releases, (folder / "rounds.json").read_bytes()


def same_rounds(found: Left, wanted: Left, *, secure: bool) -> bool:
    """Whether rounds that went on after a kill left what those left that were not killed, to the
    bit; but for copies that were under way in a private round.

    A copy of a reply that is still under way when the server is killed is lost with the process:
    who has answered is not asked again. So a count of copies says what reached the server, not what
    the round is, and after a kill it may be smaller. In plain rounds a reply and its copy come
    again.
    """
    if not secure:
        return found == wanted
    (releases, rows), (wanted_releases, wanted_rows) = found, wanted
    copies, wanted_copies = _without_copies(rows), _without_copies(wanted_rows)
    fewer = all(one <= other for one, other in zip(copies[1], wanted_copies[1], strict=True))
    return releases == wanted_releases and copies[0] == wanted_copies[0] and fewer


def _is_write(called: Any) -> bool:
    name, owner = called.__name__, getattr(called, "__self__", None)
    if isinstance(owner, _DATABASES):
        return name in _STATEMENTS
    if isinstance(owner, _FILES):
        return bool(name == "write")
    return name in _CALLS and called.__module__ == os.name


def _without_copies(rows: bytes) -> tuple[dict[str, Any], list[int]]:
    """The file of rows without its counts of copies; those, by round."""
    content = json.loads(rows)
    return content, [one["quarantined"].pop("duplicate", 0) for one in content["rounds"]]

"""Runs what writes releases many times, each time killed (SIGKILL) at another change on disk.

    python -m tests.server.federation.release_kill_points FOLDER

The operation runs in a forked process that is stopped at every system call (ptrace). At each stop
the folder is compared with what it was; at the n-th difference the process is killed, for every n
until it ends by itself: so each state that the operation ever leaves on disk, in the middle of
SQLite's commit too, is one that a kill left. After each, this process checks that the registry is
the old one or the new one, whole, and that the operation can be done again. Prints what it saw.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import shutil
import signal
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from pocketquery.sdk.bundle.adapter import parse_adapter, write_adapter
from pocketquery.sdk.bundle.bundle import Bundle
from pocketquery.sdk.errors import ArtifactNotFoundError
from pocketquery.server.federation.releases.registry import Registry
from tests.sdk.tiny_bundle import default_adapter, trained_adapter, write_tiny_bundle
from tests.server.federation.reports import REJECTED

_TRACE_ME, _TO_NEXT_CALL = 0, 24  # PTRACE_TRACEME, PTRACE_SYSCALL

Operation = Callable[[Path], object]
State = list[tuple[str, str, int | None]]

_libc = ctypes.CDLL(None, use_errno=True)
_libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
_libc.ptrace.restype = ctypes.c_long


def operations(bundle: Bundle) -> dict[str, tuple[Operation, Operation]]:
    """By name: what makes the registry before, and what is killed."""
    manifest = bundle.manifest

    def nothing(folder: Path) -> None:
        folder.mkdir()

    def first(folder: Path) -> None:
        Registry.of_bundle(folder, bundle)

    def accept(folder: Path) -> None:
        Registry.open(folder).publish(trained_adapter(2), None, manifest=manifest, parent="1")

    def second(folder: Path) -> None:
        first(folder)
        accept(folder)

    def reject(folder: Path) -> None:
        Registry.open(folder).publish(trained_adapter(3), REJECTED, manifest=manifest, parent="2")

    def roll_back(folder: Path) -> None:
        Registry.open(folder).rollback("1")

    def write_file(folder: Path) -> None:
        write_adapter(folder / "a", trained_adapter(2), manifest=manifest, version="2")

    def first_and_file(folder: Path) -> None:
        first(folder)
        write_adapter(folder / "a", trained_adapter(1), manifest=manifest, version="1")

    return {
        "first": (nothing, first),
        "accept": (first, accept),
        "reject": (second, reject),
        "roll back": (second, roll_back),
        "file": (first_and_file, write_file),
    }


def state_of(folder: Path) -> State | None:
    """What is recorded, every file checked; None where there is no registry."""
    try:
        registry = Registry.open(folder)
    except ArtifactNotFoundError:
        return None
    registry.check()
    found: State = [(one.version, one.status, one.bytes) for one in registry.history()]
    if (folder / "a").exists():
        found.append((parse_adapter((folder / "a").read_bytes()).version, "file", None))
    return found


def killed_at(change: int, operation: Operation, folder: Path) -> bool:
    """Run ``operation`` and kill it at its ``change``-th change of ``folder``; False where it ends
    before."""
    child = os.fork()
    if child == 0:
        _libc.ptrace(_TRACE_ME, 0, None, None)
        os.kill(os.getpid(), signal.SIGSTOP)
        operation(folder)
        os._exit(0)
    os.waitpid(child, 0)
    before, changes = _fingerprint(folder), 0
    while True:
        _libc.ptrace(_TO_NEXT_CALL, child, None, None)
        _, status = os.waitpid(child, 0)
        if os.WIFEXITED(status):
            assert os.WEXITSTATUS(status) == 0, status
            return False
        after = _fingerprint(folder)
        changes += after != before
        before = after
        if changes == change:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return True


def _fingerprint(folder: Path) -> dict[str, str]:
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in folder.iterdir()}


def walk(prepare: Operation, operation: Operation, folder: Path) -> Counter[str]:
    """Kill ``operation`` at each of its changes; how often the old and the new state was left."""
    prepare(folder / "old")
    old = state_of(folder / "old")
    shutil.copytree(folder / "old", folder / "new")
    operation(folder / "new")
    new = state_of(folder / "new")
    assert old != new
    seen: Counter[str] = Counter()
    change = 1
    while True:
        path = folder / "killed"
        shutil.rmtree(path, ignore_errors=True)
        shutil.copytree(folder / "old", path)
        if not killed_at(change, operation, path):
            assert state_of(path) == new
            return seen
        found = state_of(path)
        assert found in (old, new), (change, found)
        seen["new" if found == new else "old"] += 1
        operation(path)
        assert state_of(path) == new, change
        change += 1


def main(folder: Path) -> None:
    """Walk every operation."""
    bundle = Bundle.open(write_tiny_bundle(folder / "bundle", adapter=default_adapter()))
    for name, (prepare, operation) in operations(bundle).items():
        place = folder / name
        place.mkdir()
        print({"operation": name, **walk(prepare, operation, place)})


if __name__ == "__main__":
    main(Path(sys.argv[1]))

"""Processes killed (SIGKILL) at a chosen moment: a line, a statement, a change on disk, a time.

Moments of an action are counted first and then chosen: ``lines_of`` and ``statements_of`` count
them and, in a forked process (``killed``), end it at one. What writes is thus killed where its own
code is; the tests of ``server/federation/chaos`` kill at calls into C, see ``writes_of`` there.
The scripts that walk many moments are modules of their own, run by :func:`printed` in a process
without the threads of the test's.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest

__all__ = [
    "by_fork",
    "in_a_fork",
    "in_memory",
    "killed",
    "killed_at_change",
    "killed_process",
    "lines_of",
    "printed",
    "spread",
    "statements_of",
]

ROOT = Path(__file__).parents[1]
by_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="kills forked processes")
_TRACE_ME, _TO_NEXT_CALL = 0, 24  # PTRACE_TRACEME, PTRACE_SYSCALL


def lines_of(
    action: Callable[[], object], modules: Sequence[str], kill_at: int | None = None
) -> int:
    """Run ``action`` and count its lines in files with one of ``modules`` in their path, each of
    which is there.

    At line ``kill_at``, counted from 1, the process ends by SIGKILL.
    """
    count = 0
    watched: dict[str, bool] = {}

    def enter(frame: FrameType, event: str, _: Any) -> Any:
        """At every call there is, so it only looks the file up."""
        file = frame.f_code.co_filename
        if file not in watched:
            watched[file] = any(part in file for part in modules)
        return count_line if watched[file] else None

    def count_line(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal count
        if event == "line":
            count += 1
            if count == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)
        return count_line

    sys.settrace(enter)
    try:
        action()
    finally:
        sys.settrace(None)
    loaded = [str(getattr(one, "__file__", None)) for one in list(sys.modules.values())]
    for part in modules:
        assert any(part in file for file in loaded), f"no file {part} was loaded: is it elsewhere?"
    return count


def statements_of(action: Callable[[], object], kill_at: int | None = None) -> int:
    """Run ``action`` and count the statements that SQLite begins, BEGIN and COMMIT too, on
    connections that it opens.

    At statement ``kill_at``, counted from 1, the process ends by SIGKILL.
    """
    count = 0
    plain = sqlite3.connect

    def trace(_: str) -> None:
        nonlocal count
        count += 1
        if count == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)

    def connect(*args: Any, **named: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = plain(*args, **named)
        connection.set_trace_callback(trace)
        return connection

    sqlite3.connect = connect  # type: ignore[assignment]
    try:
        action()
    finally:
        sqlite3.connect = plain
    return count


def in_a_fork(action: Callable[[], int | None]) -> int | None:
    """Run ``action`` in a process of its own; the number it returns (0 for None), or None where
    the process was killed.

    Raises:
        RuntimeError: it raised; what, is on the standard error stream.
    """
    read, write = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of threads, which the child needs not
        child = os.fork()
    if child == 0:
        try:
            os.write(write, str(action() or 0).encode())
            os._exit(0)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1)
    os.close(write)
    with os.fdopen(read) as answer:
        found = answer.read()
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return None
    if status:
        raise RuntimeError(f"the process failed with status {os.waitstatus_to_exitcode(status)}")
    return int(found)


def killed(action: Callable[[], int | None]) -> None:
    """Run ``action``, which kills its process, in a forked one."""
    assert in_a_fork(action) is None, "it ended by itself"


def spread(count: int, points: int, *, last: int = 0) -> list[int]:
    """About ``points`` of the moments 1 to ``count``, evenly; where ``last`` is given, half of them
    among so many at the end, where renames let old and new change places.
    """
    if not last:
        return [int(one) for one in np.unique(np.linspace(1, count, points).astype(int))]
    half = range(points // 2)
    chosen = {1 + count * point // len(half) for point in half}
    return sorted(chosen | {count - last * point // len(half) for point in half})


def killed_at_change(action: Callable[[Path], object], folder: Path, change: int) -> bool:
    """Run ``action`` on ``folder`` in a process that is stopped at every system call, and kill it
    at its ``change``-th change of the files there, counted from 1; False where it ends before.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    libc.ptrace.restype = ctypes.c_long
    child = os.fork()
    if child == 0:
        libc.ptrace(_TRACE_ME, 0, None, None)
        os.kill(os.getpid(), signal.SIGSTOP)
        action(folder)
        os._exit(0)
    os.waitpid(child, 0)
    before, changes = _fingerprint(folder), 0
    while True:
        libc.ptrace(_TO_NEXT_CALL, child, None, None)
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


def killed_process(
    script: str, *args: object, lines: int = 0, until: Path | None = None, delay: float = 0.0
) -> list[str]:
    """Run the Python ``script`` with ``args``; kill it ``delay`` seconds after it has printed so
    many ``lines`` and the file ``until`` is there. The lines.
    """
    command = [sys.executable, "-c", script, *map(str, args)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        found = [process.stdout.readline() for _ in range(lines)]
        while until is not None and not until.exists():
            assert process.poll() is None, "it ended before it was killed"
            time.sleep(0.002)
        time.sleep(delay)
        process.send_signal(signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL, "it ended by itself"
    return found


def printed(module: str, *args: object, timeout: float = 250) -> list[str]:
    """The lines that ``python -m module`` prints; what a killed process leaves in the folder for
    temporaries goes with its own.

    Args:
        timeout: seconds, which only a hang reaches.
    """
    paths = {"PYTHONPATH": os.pathsep.join(sys.path)}  # a package's tests add theirs
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-m", module, *map(str, args)],
            cwd=ROOT,
            env={**os.environ, **paths, "OMP_NUM_THREADS": "1", "TMPDIR": folder},
            capture_output=True,
            text=True,
            timeout=timeout,
        )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@contextmanager
def in_memory(otherwise: Path) -> Iterator[Path]:
    """A folder on a disk in memory, or ``otherwise``.

    A killed process leaves its writes to the system, so where they go does not matter, and this
    spares thousands of waits.
    """
    folder = tempfile.mkdtemp(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else otherwise)
    try:
        yield Path(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _fingerprint(folder: Path) -> dict[str, str]:
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in folder.iterdir()}

"""Processes that are started together and stopped together, each by its id.

Flower's SuperLink and SuperNodes start processes of their own, in sessions of their own. Those end
by themselves when their parent is gone; what has not after a while is killed by its id.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType

__all__ = ["Processes"]

_GRACE = 10.0  # seconds between asking a process to end and killing it


class Processes:
    """A context: whatever was started inside has ended when it is left, however it is left."""

    def __init__(self, logs: Path) -> None:
        self._logs = logs
        self._started: dict[str, subprocess.Popen[bytes]] = {}
        logs.mkdir(parents=True, exist_ok=True)

    def __enter__(self) -> Processes:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def start(
        self, name: str, command: Sequence[str | Path], environment: Mapping[str, str]
    ) -> subprocess.Popen[bytes]:
        """Start ``command``; what it prints goes to the log ``name``."""
        with self.log(name).open("wb") as output:
            process = subprocess.Popen(
                list(map(str, command)),
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        self._started[name] = process
        return process

    def log(self, name: str) -> Path:
        """The log of the process ``name``."""
        return self._logs / f"{name}.log"

    def wait_for(self, ready: Callable[[], bool], what: str, seconds: float) -> None:
        """Return as soon as ``ready()``.

        Raises:
            TimeoutError: it did not come about in time.
            ChildProcessError: a process that was started has ended meanwhile.
        """
        end = time.monotonic() + seconds
        while not ready():
            for name, process in self._started.items():
                if process.poll() is not None:
                    raise ChildProcessError(
                        f"{name} ended with code {process.returncode} while waiting for {what}; "
                        f"its last words:\n{_tail(self.log(name))}"
                    )
            if time.monotonic() > end:
                raise TimeoutError(
                    f"{what} did not come about in {seconds:.0f} s; see {self._logs}"
                )
            time.sleep(0.2)

    def kill(self, name: str) -> None:
        """Kill the process ``name``, and by their ids those that it started; nothing is cleared up,
        as where a machine loses its power.
        """
        process = self._started.pop(name)
        descendants = _descendants(process.pid)
        process.kill()
        process.wait()
        for id_, birth in descendants:
            _end_descendant(id_, birth, end=0.0)

    def stop(self) -> None:
        """Ask every process to end, in reverse order; kill, by its id, what does not."""
        started = list(reversed(self._started.values()))
        descendants = {id_ for process in started for id_ in _descendants(process.pid)}
        for process in started:
            if process.poll() is None:
                process.terminate()
        end = time.monotonic() + _GRACE
        for process in started:
            try:
                process.wait(timeout=max(0.1, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        for id_, birth in descendants:
            _end_descendant(id_, birth, end)
        self._started.clear()


def _end_descendant(id_: int, birth: str, end: float) -> None:
    while _birth(id_) == birth:  # an id may meanwhile be another process's
        if time.monotonic() > end:
            os.kill(id_, signal.SIGKILL)
            return
        time.sleep(0.1)


def _descendants(parent: int) -> set[tuple[int, str]]:
    """Ids and start times of the processes below ``parent`` (Linux; elsewhere none)."""
    found: set[tuple[int, str]] = set()
    for children in Path(f"/proc/{parent}/task").glob("*/children"):
        for child in map(int, children.read_text().split()):
            found |= {(child, _birth(child) or "")} | _descendants(child)
    return found


def _birth(id_: int) -> str | None:
    """When the process started, in the kernel's ticks; None where it has ended."""
    try:
        fields = Path(f"/proc/{id_}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] == "Z" else fields[19]


def _tail(path: Path, lines: int = 15) -> str:
    return "\n".join(path.read_text(errors="replace").splitlines()[-lines:])

"""Runs rounds many times, each time killed (SIGKILL) at another line, and resumes them.

    python -m tests.server.federation.simulation_kill_points FOLDER POINTS [secure]

With "secure" the rounds are private ones. Every run is a forked process: a trace counts the lines
executed in the server's and the device's code of a round and kills at the chosen one; another
process then goes on. Releases and rows must be what a run that was not killed leaves, to the bit;
in private rounds but for the count of copies, see :func:`_same`. Prints how many points were tried.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

from pocketquery.server.federation.releases.registry import Registry
from pocketquery.server.federation.rounds.clock import VirtualClock
from pocketquery.server.federation.rounds.federation import run_rounds
from pocketquery.server.federation.simulation.enrolment import simulated_environment
from pocketquery.server.federation.simulation.local_grid import Fault, LocalGrid
from tests.killed_lines import lines_of
from tests.server.federation.small_federation import opened, write_federation

_MODULES = (
    "/rounds/driver.py",
    "/rounds/exchange.py",
    "/rounds/federation.py",
    "/rounds/journal.py",
    "/rounds/journal_tables.py",
    "/releases/publishing.py",
    "/releases/registry.py",
    "/releases/release_rows.py",
    "/client/device.py",
    "/client/round_memory.py",
    "/sdk/files.py",
)
_OPTIONS: dict[str, Any] = {"rounds": 3, "optimizer": "fedadam", "client-init": "ema", "steps": 1}
_SECURE_MODULES = (
    *_MODULES,
    "/secure/driver.py",
    "/secure/secure_round.py",
    "/secure/tables.py",
    "/secure/unmasking.py",
    "/secure/participant.py",
    "/secure/state_file.py",
    "/secure/ledger.py",
)
_SECURE: dict[str, Any] = {
    "secure": "on", "secure-least": 3, "clients-per-round": 7, "rest": 1, "rounds": 2, "steps": 1,
}  # fmt: skip

Left: TypeAlias = tuple[list[tuple[str, bytes]], bytes]
"""Releases by version, and the file of the rounds' rows."""


def main(folder: Path, points: int, *, secure: bool = False) -> None:
    """Kill at ``points`` lines, spread evenly over the run."""
    files = write_federation(folder / "files")
    options, modules = (_SECURE, _SECURE_MODULES) if secure else (_OPTIONS, _MODULES)

    def run(work: Path) -> None:
        with opened(files, work, **options) as parts:
            run_rounds(
                work,
                parts.publisher,
                parts.first,
                parts.options,
                LocalGrid(parts.devices, _faults),
                VirtualClock(),
                environment=simulated_environment(parts.options.seed),
            )

    lines = _in_child(lambda: lines_of(lambda: run(folder / "whole"), modules))
    wanted = _left(folder / "whole")
    for point in range(points):
        work = folder / f"killed-{point}"
        line = 1 + lines * point // points
        _in_child(lambda: lines_of(lambda: run(work), modules, line), killed=True)  # noqa: B023
        _in_child(lambda: run(work))  # noqa: B023
        same = _same(_left(work), wanted, secure=secure)
        assert same, f"killed at line {line} of {lines}, the rounds differ"
    print(points)


def _same(found: Left, wanted: Left, *, secure: bool) -> bool:
    """Whether both are alike to the bit, but for copies that were under way in a private round.

    A copy of a reply that is still under way when the server is killed is lost with the process:
    who has answered is not asked again. So a count of copies says what reached the server, not what
    the round is, and after a kill it may be smaller. In plain rounds a reply and its copy are taken
    in one transaction here, in private ones each is one of its own.
    """
    if not secure:
        return found == wanted
    (releases, rows), (wanted_releases, wanted_rows) = found, wanted
    copies, wanted_copies = _without_copies(rows), _without_copies(wanted_rows)
    fewer = all(one <= other for one, other in zip(copies[1], wanted_copies[1], strict=True))
    return releases == wanted_releases and copies[0] == wanted_copies[0] and fewer


def _without_copies(rows: bytes) -> tuple[dict[str, Any], list[int]]:
    """The file of rows without its counts of copies; those, by round."""
    content = json.loads(rows)
    return content, [one["quarantined"].pop("duplicate", 0) for one in content["rounds"]]


def _faults(node: int, group: str) -> Fault:
    """One device of the second round dies, in a private one before it masks; one replies twice."""
    if node == 5 and group[0] == "1":
        return Fault.TWICE
    return Fault.DIES if node == 3 and group in ("1", "1.3") else Fault.NONE


def _left(work: Path) -> Left:
    registry = Registry.open(work / "releases")
    releases = [(one.version, registry.read(one.version)) for one in registry.history()]
    return releases, (work / "rounds.json").read_bytes()


def _in_child(action: Callable[[], int | None], *, killed: bool = False) -> int:
    """Run ``action`` in a process of its own; the number it returns."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(write, str(action() or 0).encode())
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as answer:
        found = answer.read()
    _, status = os.waitpid(child, 0)
    ended = os.WIFSIGNALED(status) if killed else status == 0
    assert ended, f"status {status}, answer {found!r}"
    return int(found or 0)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), secure="secure" in sys.argv[3:])

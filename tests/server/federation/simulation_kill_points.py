"""Runs rounds many times, each time killed (SIGKILL) at another line, and resumes them.

    python -m tests.server.federation.simulation_kill_points FOLDER POINTS [secure|buffered]

With "secure" the rounds are private ones, with "buffered" buffered ones. Every run is a forked
process: a trace counts the lines executed in the server's and the device's code of a round and
kills at the chosen one; another process then goes on. Releases and rows must be what a run that was
not killed leaves, to the bit; in private rounds but for the count of copies, see ``same_rounds``.
In buffered rounds who was training is lost with the server, so that other devices fill the buffer:
there as many updates as there were must be in every release. Prints how many points were tried.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from pocketquery.server.federation.orchestration.federation import finished_rounds
from pocketquery_simulation.local_grid import Fault
from tests.kills import in_a_fork, killed, lines_of
from tests.server.federation.chaos.kills import left_by, same_rounds
from tests.server.federation.small_federation import opened, write_federation

MODULES = (
    "/orchestration/buffer.py",
    "/orchestration/device_collector.py",
    "/orchestration/replies.py",
    "/rounds/federated_round.py",
    "/orchestration/exchange.py",
    "/orchestration/federation.py",
    "/orchestration/journal.py",
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
    *MODULES,
    "/private/stages.py",
    "/orchestration/private_collector.py",
    "/private/secure_round.py",
    "/private/tables.py",
    "/private/unmasking.py",
    "/private/participant.py",
    "/private/state_file.py",
    "/private/ledger.py",
)
_SECURE: dict[str, Any] = {
    "secure": "on", "secure-least": 3, "clients-per-round": 7, "rest": 1, "rounds": 2, "steps": 1,
}  # fmt: skip


_BUFFERED: dict[str, Any] = {
    "mode": "buffered", "clients-per-round": 3, "in-flight": 4, "rounds": 3, "steps": 1,
}  # fmt: skip


def main(folder: Path, points: int, kind: str = "") -> None:
    """Kill at ``points`` lines, spread evenly over the run."""
    secure = kind == "secure"
    files = write_federation(folder / "files")
    options = {"": _OPTIONS, "secure": _SECURE, "buffered": _BUFFERED}[kind]
    modules = _SECURE_MODULES if secure else MODULES

    def run(work: Path) -> None:
        with opened(files, work, **options) as parts:
            parts.run(_faults)

    lines = in_a_fork(lambda: lines_of(lambda: run(folder / "whole"), modules))
    assert lines is not None
    wanted = left_by(folder / "whole")
    for point in range(points):
        work = folder / f"killed-{point}"
        line = 1 + lines * point // points
        killed(lambda: lines_of(lambda: run(work), modules, line))  # noqa: B023
        in_a_fork(lambda: run(work))  # noqa: B023
        if kind == "buffered":
            found = [(row.round, row.accepted, row.outcome) for row in finished_rounds(work)]
            assert found == [(n, 3, f"release {n + 2}") for n in range(3)], (line, found)
            continue
        same = same_rounds(left_by(work), wanted, secure=secure)
        assert same, f"killed at line {line} of {lines}, the rounds differ"
    print(points)


def _faults(node: int, group: str) -> Fault:
    """One device of the second round dies, in a private one before it masks; one replies twice."""
    if node == 5 and group[0] == "1":
        return Fault.TWICE
    return Fault.DIES if node == 3 and group in ("1", "1.3") else Fault.NONE


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:])

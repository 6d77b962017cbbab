"""Runs rounds over a journal many times, each time killed (SIGKILL) at another SQLite statement.

    python -m tests.server.federation.kill_points FOLDER

Every point is a forked process that counts the statements SQLite begins (BEGIN and COMMIT too) and
kills itself at one of them. After each, this process opens what is left and goes on: it sends again
what was not acknowledged, as devices do. The states and the adapters of all rounds must be those of
a run that nobody killed, to the bit. A second pass cuts the write-ahead log of a killed process at
many lengths, as a kill in the middle of a write would. Prints what it saw.
"""

from __future__ import annotations

import dataclasses
import os
import signal
import sqlite3
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from pocketquery.server.federation.rounds.journal import Journal
from pocketquery.server.federation.rounds.server_optimizers import FedAdam
from pocketquery.server.federation.rounds.state import FederationState
from tests.server.federation.replies import SETTINGS, reply, small_state

_SETTINGS = dataclasses.replace(
    SETTINGS, aggregation="trimmed_mean", shards=3, optimizer=FedAdam(), remembered_rounds=2
)
_ROUNDS = 3
_CUTS = 40


def updates_of(state: FederationState) -> list[bytes]:
    """The replies to the round of ``state``, the same for the same state; one of them is bad."""
    first = 20 * state.round
    return [*(reply(first + number, state) for number in range(6)), b"noise"]


class Promises:
    """What a server told others it has, in a file beside the journal; it may not be lost."""

    def __init__(self, path: Path) -> None:
        self.path = path.with_suffix(".promises")

    def add(self, rounds: int, accepted: int) -> None:
        """So many rounds are closed, and so many replies of the next are in."""
        with self.path.open("a") as file:
            file.write(f"{rounds} {accepted}\n")

    def check(self, journal: Journal) -> None:
        """Whether ``journal`` has what was promised."""
        newest = journal.candidate or journal.state
        accepted = journal.open_round.accepted if journal.open_round else 0
        found = (newest.round if newest else 0, accepted)
        lines = self.path.read_text().splitlines() if self.path.exists() else []
        for line in lines:
            rounds, count = map(int, line.split())
            assert found >= (rounds, count), f"promised {line}, found {found}"


def serve(path: Path) -> bytes:
    """All rounds that are still to be run; the bytes of the last state.

    Every reply is sent again to a server that was killed: which were in before, it knows better
    than the devices do. In round 1 the gate refuses.
    """
    promises = Promises(path)
    with Journal.open(path) as journal:
        while True:
            if journal.candidate is not None:
                settle(journal)
            state = journal.state or small_state()
            if state.round == _ROUNDS:
                assert [report.version for report in journal.reports()] == ["v1", "v1", "v3"]
                return state.to_bytes()
            accepted = (journal.open_round or journal.begin(state, _SETTINGS, now=0.0)).accepted
            updates = updates_of(state)
            for together in (updates[:1], updates[1:2], updates[2:]):
                receipts = journal.receive_all(together, 0.0)
                accepted += sum(receipt.accepted for receipt in receipts)
                promises.add(state.round, accepted)
            journal.close()
            promises.add(state.round + 1, 0)


def settle(journal: Journal) -> None:
    """The gate's decision."""
    assert journal.candidate is not None
    assert journal.state is not None
    if journal.candidate.round == 2:
        journal.settle(journal.state.rejected(journal.candidate))
    else:
        journal.settle(journal.candidate.released(f"v{journal.candidate.round}"))


class Killer:
    """A connection's trace: counts statements, and kills at one of them."""

    def __init__(self, kill_at: int | None) -> None:
        self.statements = 0
        self._kill_at = kill_at

    def __call__(self, _: str) -> None:
        self.statements += 1
        if self.statements == self._kill_at:
            os.kill(os.getpid(), signal.SIGKILL)


def traced(killer: Killer) -> None:
    """Have every connection made from now on report to ``killer``, its first statement too."""
    plain = sqlite3.connect

    def connect(*args: object, **named: object) -> sqlite3.Connection:
        connection: sqlite3.Connection = plain(*args, **named)  # type: ignore[call-overload]
        connection.set_trace_callback(killer)
        return connection

    sqlite3.connect = connect  # type: ignore[assignment]


def in_a_fork(work: Callable[[], None]) -> int:
    """Run ``work`` in a forked process; how that ended."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    return os.waitpid(child, 0)[1]


def count(path: Path, folder: Path) -> int:
    """How many statements all rounds take."""

    def work() -> None:
        killer = Killer(None)
        traced(killer)
        serve(path)
        (folder / "count").write_text(str(killer.statements))

    assert in_a_fork(work) == 0
    return int((folder / "count").read_text())


def killed_at(path: Path, statement: int) -> None:
    """Run until ``statement`` begins."""

    def work() -> None:
        traced(Killer(statement))
        serve(path)

    assert os.WTERMSIG(in_a_fork(work)) == signal.SIGKILL, f"statement {statement}"


def walk_statements(folder: Path, wanted: bytes) -> Counter[str]:
    """Killed at every statement, once each; what was found after it."""
    seen: Counter[str] = Counter()
    for statement in range(1, count(folder / "counted", folder) + 1):
        path = folder / f"at-{statement}.sqlite"
        killed_at(path, statement)
        with Journal.open(path) as journal:
            Promises(path).check(journal)
            phase = "candidate" if journal.candidate else "open" if journal.open_round else "idle"
            seen[phase] += 1
        assert serve(path) == wanted, f"killed at statement {statement}"
        for file in folder.glob(f"at-{statement}.*"):
            file.unlink()
    return seen


def walk_cuts(folder: Path, wanted: bytes) -> int:
    """The log of a process killed at its end, cut at many lengths; how many were tried."""
    path = folder / "cut.sqlite"
    killed_at(path, count(folder / "counted-again", folder))
    log = path.with_name("cut.sqlite-wal")
    whole, frames = path.read_bytes(), log.read_bytes()
    assert len(frames) > 100_000, "the log was copied into the file before the kill"
    for cut in range(_CUTS):
        path.write_bytes(whole)
        log.write_bytes(frames[: len(frames) * cut // _CUTS + cut % 7])
        assert serve(path) == wanted, f"log cut after {len(frames) * cut // _CUTS} bytes"
    return _CUTS


def main(folder: Path) -> None:
    """Walk everything."""
    wanted = serve(folder / "whole.sqlite")
    seen = walk_statements(folder, wanted)
    print({**seen, "cuts": walk_cuts(folder, wanted)})


if __name__ == "__main__":
    main(Path(sys.argv[1]))

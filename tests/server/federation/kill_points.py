"""Runs rounds over a journal many times, each time killed (SIGKILL) at another SQLite statement.

    python -m tests.server.federation.kill_points FOLDER [buffered]

With "buffered" the rounds are, and some of the replies began from an older release.
Every point is a forked process that counts the statements SQLite begins (BEGIN and COMMIT too) and
kills itself at one of them. After each, this process opens what is left and goes on: it sends again
what was not acknowledged, as devices do. The states and the adapters of all rounds must be those of
a run that nobody killed, to the bit. A second pass cuts the write-ahead log of a killed process at
many lengths, as a kill in the middle of a write would. Prints what it saw.
"""

from __future__ import annotations

import dataclasses
import sys
from collections import Counter
from pathlib import Path

from pocketquery.server.federation.orchestration.journal import Journal
from pocketquery.server.federation.rounds.server_optimizers import FedAdam
from pocketquery.server.federation.rounds.settings import RoundSettings
from pocketquery.server.federation.rounds.state import FederationState
from tests.kills import killed, statements_of
from tests.server.federation.replies import SETTINGS, reply, small_state

_SETTINGS = dataclasses.replace(
    SETTINGS, aggregation="trimmed_mean", shards=3, optimizer=FedAdam(), remembered_rounds=2
)
_BUFFERED = dataclasses.replace(_SETTINGS, mode="buffered", clients_per_round=6, most_staleness=2)
_ROUNDS = 3
_CUTS = 40


def updates_of(state: FederationState, settings: RoundSettings) -> list[bytes]:
    """The replies to the round of ``state``, the same for the same state; one of them is bad."""
    first = 20 * state.round
    began = [state] * 6
    if settings.is_buffered and state.round:
        began[3:] = [small_state()] * 3
    return [*(reply(first + number, one) for number, one in enumerate(began)), b"noise"]


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


def serve(path: Path, settings: RoundSettings = _SETTINGS) -> bytes:
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
            accepted = (journal.open_round or journal.begin(state, settings, now=0.0)).accepted
            updates = updates_of(state, settings)
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


def walk_statements(
    folder: Path, settings: RoundSettings, wanted: bytes, step: int
) -> Counter[str]:
    """Killed at every ``step``-th statement; how often the journal was in which phase after it."""
    seen: Counter[str] = Counter()
    statements = statements_of(lambda: serve(folder / "counted", settings))
    for statement in range(1, statements + 1, step):
        path = folder / f"at-{statement}.sqlite"
        killed(lambda: statements_of(lambda: serve(path, settings), statement))  # noqa: B023
        with Journal.open(path) as journal:
            Promises(path).check(journal)
            phase = "candidate" if journal.candidate else "open" if journal.open_round else "idle"
            seen[phase] += 1
        assert serve(path, settings) == wanted, f"killed at statement {statement}"
        for file in folder.glob(f"at-{statement}.*"):
            file.unlink()
    return seen


def walk_cuts(folder: Path, settings: RoundSettings, wanted: bytes, step: int) -> int:
    """The log of a process killed at its end, cut at many lengths; how many were tried."""
    path = folder / "cut.sqlite"
    statements = statements_of(lambda: serve(folder / "counted-again", settings))
    killed(lambda: statements_of(lambda: serve(path, settings), statements))
    log = path.with_name("cut.sqlite-wal")
    whole, frames = path.read_bytes(), log.read_bytes()
    assert len(frames) > 100_000, "the log was copied into the file before the kill"
    for cut in range(0, _CUTS, step):
        path.write_bytes(whole)
        log.write_bytes(frames[: len(frames) * cut // _CUTS + cut % 7])
        assert serve(path, settings) == wanted, f"log cut after {len(frames) * cut // _CUTS} bytes"
    return len(range(0, _CUTS, step))


def main(folder: Path, step: int, *, buffered: bool = False) -> None:
    """Walk every ``step``-th point."""
    settings = _BUFFERED if buffered else _SETTINGS
    wanted = serve(folder / "whole.sqlite", settings)
    assert FederationState.from_bytes(wanted).bases.keys() == ({1, 2} if buffered else set())
    seen = walk_statements(folder, settings, wanted, step)
    print({**seen, "cuts": walk_cuts(folder, settings, wanted, step)})


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), buffered="buffered" in sys.argv[3:])

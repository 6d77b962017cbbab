"""Charges rounds and "sends" them, killed (SIGKILL) at lines: nothing goes uncharged.

    python -m tests.server.private.ledger_kill_points server|device FOLDER EVERY

EVERY is 1 for every line, 5 for every fifth.

Prints how many points were tried, and at how many a round was charged and not yet sent.
"""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from pocketquery.client.private.ledger import Ledger, cost_of
from pocketquery.server.private.budget import (
    Season,
    charge,
    create,
    rows,
    set_state,
)
from tests.kills import in_a_fork, killed, lines_of
from tests.server.private.bindings import noisy_binding

_SEASON = Season("2026", rounds=4)
_FEDERATION = bytes(range(16))


class Side(Protocol):
    """A ledger, and who charges it.

    Attributes:
        rounds: how many there are.
        modules: where it is killed.
    """

    rounds: int
    modules: Sequence[str]

    def serve(self, folder: Path) -> None:
        """Charge and send the rounds that are left."""

    def charged(self, folder: Path) -> int:
        """How many rounds the ledger knows."""


class Server:
    """Rounds are charged in a transaction of the journal, and sent after it."""

    rounds = 2
    modules: Sequence[str] = ("/private/budget.py", "/ledger_kill_points.py")

    def serve(self, folder: Path) -> None:
        """The rounds that are left."""
        with sqlite3.connect(folder / "journal.sqlite", isolation_level=None) as connection:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("BEGIN IMMEDIATE")
            tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master")]
            if "privacy_ledger" not in tables:
                create(connection)
            connection.execute("COMMIT")
            for number in range(sent(folder), self.rounds):
                connection.execute("BEGIN IMMEDIATE")
                charge(connection, _SEASON.charge(number))
                connection.execute("COMMIT")
                send(folder, number)
                connection.execute("BEGIN IMMEDIATE")
                set_state(connection, number, "released")
                connection.execute("COMMIT")
        connection.close()

    def charged(self, folder: Path) -> int:
        """How many rounds the ledger knows; none before there is one."""
        connection = sqlite3.connect(folder / "journal.sqlite")
        try:
            return len(rows(connection))
        except sqlite3.OperationalError:  # killed before the table was there
            return 0
        finally:
            connection.close()


class Device:
    """Rounds are charged in a file of the device, and sent after it was replaced."""

    rounds = 1
    modules: Sequence[str] = ("/private/ledger.py", "/sdk/files.py", "/ledger_kill_points.py")

    def serve(self, folder: Path) -> None:
        """The rounds that are left."""
        for number in range(sent(folder), self.rounds):
            Ledger(folder / "privacy.json").charge(noisy_binding(_FEDERATION, number))
            send(folder, number)

    def charged(self, folder: Path) -> int:
        """How many rounds the ledger knows, what they cost included."""
        account = Ledger(folder / "privacy.json").account(_FEDERATION)
        one = noisy_binding(_FEDERATION, 0)
        assert account.spent == account.participations * cost_of(one.privacy, one.encoding)
        return account.participations


def send(folder: Path, number: int) -> None:
    """Let the masked change of a round leave."""
    with (folder / "sent").open("a") as file:
        file.write(f"{number}\n")


def sent(folder: Path) -> int:
    """How many rounds' masked changes have left."""
    path = folder / "sent"
    return len(path.read_text().split()) if path.exists() else 0


def main(kind: str, folder: Path, every: int) -> None:
    """Kill at every so many lines, check, go on, and check again."""
    side: Side = Server() if kind == "server" else Device()
    whole = folder / "whole"
    whole.mkdir()
    lines = lines_of(lambda: side.serve(whole), side.modules)
    waiting = 0
    for point in range(1, lines + 1, every):
        work = folder / f"killed-{point}"
        work.mkdir()
        killed(lambda: lines_of(lambda: side.serve(work), side.modules, point))  # noqa: B023
        assert sent(work) <= side.charged(work), f"line {point}: sent and not charged"
        waiting += side.charged(work) > sent(work)
        in_a_fork(lambda: side.serve(work))  # noqa: B023
        assert side.charged(work) == sent(work) == side.rounds, f"line {point}"
    print((lines, waiting))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))

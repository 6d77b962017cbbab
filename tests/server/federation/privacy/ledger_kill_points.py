"""Charges rounds and "sends" them, killed (SIGKILL) at every line: nothing goes uncharged.

    python -m tests.server.federation.privacy.ledger_kill_points FOLDER

Prints how many points were tried, and at how many a round was charged and not yet sent.
"""

from __future__ import annotations

import os
import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path

from pocketquery.server.federation.privacy.budget import Season, charge, create, rows, set_state
from tests.killed_lines import lines_of

_MODULES = ("/privacy/budget.py", "/privacy/ledger_kill_points.py")
_SEASON = Season("2026", "devices", rounds=4)
_ROUNDS = 2


def serve(folder: Path) -> None:
    """Rounds that are left: each is charged in a transaction, and sent after it."""
    with sqlite3.connect(folder / "journal.sqlite", isolation_level=None) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("BEGIN IMMEDIATE")
        tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master")]
        if "privacy_ledger" not in tables:
            create(connection)
        connection.execute("COMMIT")
        for number in range(len(sent(folder)), _ROUNDS):
            connection.execute("BEGIN IMMEDIATE")
            charge(connection, _SEASON.charge(number))
            connection.execute("COMMIT")
            with (folder / "sent").open("a") as file:
                file.write(f"{number}\n")
            connection.execute("BEGIN IMMEDIATE")
            set_state(connection, number, "released")
            connection.execute("COMMIT")
    connection.close()


def sent(folder: Path) -> list[int]:
    """The rounds that devices have sent masked changes for."""
    path = folder / "sent"
    return [int(line) for line in path.read_text().split()] if path.exists() else []


def charged(folder: Path) -> list[int]:
    """The rounds in the ledger; none before there is one."""
    connection = sqlite3.connect(folder / "journal.sqlite")
    try:
        return [one.round for one in rows(connection)]
    except sqlite3.OperationalError:  # killed before the table was there
        return []
    finally:
        connection.close()


def main(folder: Path) -> None:
    """Kill at every line, check, go on, and check again."""
    whole = folder / "whole"
    whole.mkdir()
    lines = lines_of(lambda: serve(whole), _MODULES)
    waiting = 0
    for point in range(1, lines + 1):
        work = folder / f"killed-{point}"
        work.mkdir()
        _in_child(lambda: lines_of(lambda: serve(work), _MODULES, point), killed=True)  # noqa: B023
        assert set(sent(work)) <= set(charged(work)), f"line {point}: sent and not charged"
        waiting += len(charged(work)) > len(sent(work))
        _in_child(lambda: serve(work), killed=False)  # noqa: B023
        assert charged(work) == sent(work) == list(range(_ROUNDS)), f"line {point}"
    print((lines, waiting))


def _in_child(action: Callable[[], object], *, killed: bool) -> None:
    child = os.fork()
    if child == 0:
        action()
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) if killed else status == 0, status


if __name__ == "__main__":
    main(Path(sys.argv[1]))

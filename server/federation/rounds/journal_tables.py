"""The journal's tables, and an open round as their rows.

    states      the state in force, and the candidate of a closed round until it is decided on
    open_round  settings, counts and elapsed time of the open round, one JSON object
    shards      one running sum a row
    nonces      of the updates accepted in the open round
    reports     one JSON object a closed round

Private rounds have tables of their own (server/private/tables.py), and the privacy ledger is one
more (server/private/budget.py).

An update is in none of them: once received it is a share of a sum.
"""

from __future__ import annotations

import dataclasses
import json
import sqlite3
from pathlib import Path
from typing import Any

import numpy as np

from pocketquery.sdk.errors import CorruptArtifactError, InvalidInputError
from pocketquery.sdk.sqlite_file import SqliteKind
from pocketquery.server.federation.rounds.nonces import NonceSet
from pocketquery.server.federation.rounds.open_round import OpenRound, open_round
from pocketquery.server.federation.rounds.round_report import RoundReport
from pocketquery.server.federation.rounds.running_sum import RunningSum
from pocketquery.server.federation.rounds.settings import RoundSettings
from pocketquery.server.federation.rounds.state import FederationState
from pocketquery.server.private import budget
from pocketquery.server.private import tables as secure
from pocketquery.server.private.secure_round import SecureRound

__all__ = [
    "KIND",
    "ROUND_TABLES",
    "clear_plain_round",
    "clear_round",
    "create_tables",
    "read_reports",
    "read_round",
    "read_state",
    "write_counts",
    "write_reply",
    "write_report",
    "write_states",
]

KIND = SqliteKind(
    name="a journal of federated rounds",
    application_id=0x50514A4E,  # "PQJN"
    version=4,
    mend="restore it from a backup, or name a new file to begin anew from the last release",
    elsewhere="name another file",
    busy="stop that server, or name another file",
)
ROUND_TABLES = (
    "CREATE TABLE states (kind TEXT PRIMARY KEY, body BLOB NOT NULL) WITHOUT ROWID",
    "CREATE TABLE open_round (id INTEGER PRIMARY KEY CHECK (id = 0), body TEXT NOT NULL)",
    "CREATE TABLE shards (number INTEGER PRIMARY KEY, weight TEXT NOT NULL, count INTEGER NOT NULL,"
    " reach TEXT NOT NULL, totals BLOB NOT NULL)",
    "CREATE TABLE nonces (nonce BLOB PRIMARY KEY) WITHOUT ROWID",
)
"""The tables of a state and an open plain round."""

_REPORTS = "CREATE TABLE reports (round INTEGER PRIMARY KEY, body TEXT NOT NULL)"
_TABLES = (*ROUND_TABLES, _REPORTS, *secure.TABLES, budget.TABLE)
_COUNTS = ("asked", "quarantined", "clipped", "norms", "elapsed")


def create_tables(connection: sqlite3.Connection, path: Path) -> None:
    """Make a new file a journal, or check that an old one is; to be called in a transaction.

    Raises:
        CorruptArtifactError: a database of something else.
        UnsupportedVersionError: a journal of another release.
    """
    KIND.prepare(connection, path, _TABLES)


def read_state(connection: sqlite3.Connection, kind: str) -> FederationState | None:
    """The state in force ("state") or the one that waits for a decision ("candidate")."""
    query = "SELECT body FROM states WHERE kind = ?"
    row = connection.execute(query, (kind,)).fetchone()
    return None if row is None else FederationState.from_bytes(row[0])


def write_states(
    connection: sqlite3.Connection,
    state: FederationState | None,
    candidate: FederationState | None,
) -> None:
    """Write both in the place of what was there."""
    connection.execute("DELETE FROM states")
    for kind, one in (("state", state), ("candidate", candidate)):
        if one is not None:
            connection.execute("INSERT INTO states VALUES (?, ?)", (kind, one.to_bytes()))


def write_counts(connection: sqlite3.Connection, opened: OpenRound) -> None:
    """Write what changes with every reply, good or bad."""
    body: dict[str, Any] = {name: getattr(opened, name) for name in _COUNTS}
    body |= {"settings": opened.settings.to_dict(), "quarantined": dict(opened.quarantined)}
    if opened.staleness:
        body["staleness"] = opened.staleness
    if opened.secure is not None:
        body["secure"] = opened.secure.to_dict()
    connection.execute("INSERT OR REPLACE INTO open_round VALUES (0, ?)", (json.dumps(body),))


def write_reply(
    connection: sqlite3.Connection, shards: dict[int, RunningSum], nonces: list[str]
) -> None:
    """Write the sums that changed, by number, and the nonces that came."""
    rows = [
        (
            number,
            str(one.weight),
            one.count,
            str(one.reach),
            one.totals.astype("<i8", copy=False).data,
        )
        for number, one in sorted(shards.items())
    ]
    connection.executemany("INSERT OR REPLACE INTO shards VALUES (?, ?, ?, ?, ?)", rows)
    raw = [(bytes.fromhex(nonce),) for nonce in nonces]
    connection.executemany("INSERT INTO nonces VALUES (?)", raw)


def clear_round(connection: sqlite3.Connection) -> None:
    """Remove the open round."""
    clear_plain_round(connection)
    secure.clear(connection)


def clear_plain_round(connection: sqlite3.Connection) -> None:
    """Remove the open round where only :data:`ROUND_TABLES` are there."""
    for table in ("open_round", "shards", "nonces"):
        connection.execute(f"DELETE FROM {table}")


def write_report(connection: sqlite3.Connection, report: RoundReport) -> None:
    """Write a closed round's report in the place of what was known of it."""
    row = (report.round, json.dumps(report.to_dict()))
    connection.execute("INSERT OR REPLACE INTO reports VALUES (?, ?)", row)


def read_reports(connection: sqlite3.Connection) -> list[RoundReport]:
    """The reports of all closed rounds, in order.

    Raises:
        CorruptArtifactError: one cannot be read.
    """
    rows = connection.execute("SELECT body FROM reports ORDER BY round").fetchall()
    try:
        return [RoundReport.from_dict(json.loads(body)) for (body,) in rows]
    except (ValueError, TypeError, AttributeError) as error:
        raise CorruptArtifactError(
            f"the report of a round cannot be read ({error}); restore the file from a backup"
        ) from error


def read_round(connection: sqlite3.Connection, state: FederationState) -> OpenRound | None:
    """The open round on ``state``; None where none is open.

    Raises:
        CorruptArtifactError: the rows do not make a round.
    """
    stored = connection.execute("SELECT body FROM open_round").fetchone()
    if stored is None:
        return None
    try:
        body = json.loads(stored[0])
        opened = open_round(
            state, RoundSettings.from_dict(body.pop("settings")), asked=body.pop("asked")
        )
        shards = list(opened.shards)
        for number, *row in connection.execute("SELECT * FROM shards"):
            shards[number] = _sum(row, opened.shards[number])
        nonces = NonceSet.of(nonce for (nonce,) in connection.execute("SELECT nonce FROM nonces"))
        if (values := body.pop("secure", None)) is not None:
            body["secure"] = secure.read_secure(connection, SecureRound.from_dict(values))
        return dataclasses.replace(opened, shards=tuple(shards), nonces=nonces, **body)
    except (ValueError, KeyError, TypeError, IndexError, InvalidInputError) as error:
        raise CorruptArtifactError(
            f"its open round cannot be read ({error}); restore the file from a backup"
        ) from error


def _sum(row: list[Any], empty: RunningSum) -> RunningSum:
    weight, count, reach, totals = row
    values = np.frombuffer(totals, "<i8").astype(np.int64)
    if values.shape != empty.totals.shape:
        raise ValueError(f"a sum has {values.size} values, expected {empty.totals.size}")
    return RunningSum(values, int(weight), count, int(reach), empty.bits)

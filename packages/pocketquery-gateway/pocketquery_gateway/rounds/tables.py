"""The tables of a gateway's journal: who is registered, the round's cohort, what is in force.

    devices    a registered key, the day it came, and how many uploads it made on its last day,
               but for those of this round
    removed    what a removed key had uploaded that day (removed_devices.py)
    verdicts   of this round: what became of each device's update (verdicts.py)
    cohort     the server's offer, and what is counted beside the sums
    answer     the cohort's sum, or who is ready, once nothing more is taken
    force      the release in force and its lineage
    agreement  the private half of the key that the gateway announces to its devices, which prove
               with it that they hold their own
    health     a number that is written to see whether anything can be

and those of an open round (federation/rounds/journal_tables.py; its nonces are in the verdicts),
and of a private one (relay.py). An update is in none of them.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from pocketquery.client.private.keys import KEY_BYTES, AgreementKey
from pocketquery.sdk.sqlite_file import SqliteKind
from pocketquery.server.federation.rounds.journal_tables import ROUND_TABLES
from pocketquery_gateway.cohorts.cohort_offer import CohortOffer
from pocketquery_gateway.rounds.errors import QuotaError
from pocketquery_gateway.rounds.relay import RELAY_TABLES
from pocketquery_gateway.rounds.removed_devices import REMOVED_TABLE
from pocketquery_gateway.rounds.verdicts import VERDICTS_TABLE

__all__ = [
    "KIND",
    "TABLES",
    "Cohort",
    "DeviceRow",
    "InForce",
    "create_tables",
    "read_agreement_key",
    "read_answer",
    "read_cohort",
    "read_device",
    "read_force",
    "check_quota",
    "take_upload",
    "write_answer",
    "write_cohort",
    "write_cohort_counts",
    "write_device",
    "write_force",
]

KIND = SqliteKind(
    name="a gateway's journal",
    application_id=0x50514757,  # "PQGW"
    version=6,
    mend="restore it from a backup, or give another folder: devices then register again",
    elsewhere="give another folder",
    busy="stop that gateway, or give another folder",
)
TABLES = (
    *ROUND_TABLES,
    "CREATE TABLE devices (key BLOB PRIMARY KEY, since INTEGER NOT NULL, day INTEGER NOT NULL,"
    " used INTEGER NOT NULL) WITHOUT ROWID",
    REMOVED_TABLE,
    "CREATE TABLE health (id INTEGER PRIMARY KEY CHECK (id = 0), writes INTEGER NOT NULL)",
    "CREATE TABLE agreement (id INTEGER PRIMARY KEY CHECK (id = 0), private BLOB NOT NULL)",
    VERDICTS_TABLE,
    "CREATE TABLE cohort (id INTEGER PRIMARY KEY CHECK (id = 0), offer BLOB NOT NULL,"
    " nonce TEXT NOT NULL, declined INTEGER NOT NULL, figures TEXT NOT NULL)",
    "CREATE TABLE answer (id INTEGER PRIMARY KEY CHECK (id = 0), sum BLOB NOT NULL)",
    "CREATE TABLE force (id INTEGER PRIMARY KEY CHECK (id = 0), version TEXT NOT NULL,"
    " sha256 TEXT NOT NULL, size INTEGER NOT NULL, lineage BLOB NOT NULL)",
    *RELAY_TABLES,
)


@dataclass(frozen=True)
class DeviceRow:
    """A registered device.

    Attributes:
        since: the day it registered, in days since 1970.
        day: of its last upload.
        used: uploads on that day.
    """

    since: int
    day: int = 0
    used: int = 0


@dataclass(frozen=True)
class Cohort:
    """What a gateway knows of the round besides its sums.

    Attributes:
        asked: by the server.
        nonce: of the answer, 32 hexadecimal digits.
        declined: devices that said so.
        figures: sum and number of each figure.
    """

    asked: CohortOffer
    nonce: str
    declined: int = 0
    figures: dict[str, tuple[float, int]] = field(default_factory=dict)

    def with_figures(self, more: Mapping[str, float]) -> Cohort:
        """This after one more accepted update."""
        sums = dict(self.figures)
        for name, value in more.items():
            before, count = sums.get(name, (0.0, 0))
            sums[name] = (before + value, count + 1)
        return replace(self, figures=sums)

    @property
    def means(self) -> dict[str, float]:
        """Each figure's mean."""
        return {name: total / count for name, (total, count) in self.figures.items()}


@dataclass(frozen=True)
class InForce:
    """The release that devices are to have."""

    version: str
    sha256: str
    size: int
    lineage: bytes


def create_tables(connection: sqlite3.Connection, path: Path) -> None:
    """Make a new file a journal, or see that it is one; in a transaction.

    Raises:
        CorruptArtifactError: another program's.
        UnsupportedVersionError: of another release.
    """
    KIND.prepare(connection, path, TABLES)
    query = "INSERT OR IGNORE INTO agreement VALUES (0, ?)"
    connection.execute(query, (os.urandom(KEY_BYTES),))


def read_agreement_key(connection: sqlite3.Connection) -> AgreementKey:
    """The gateway's own key, the same for as long as the journal lives.

    Raises:
        InvalidInputError: it is none.
    """
    (private,) = connection.execute("SELECT private FROM agreement").fetchone()
    return AgreementKey(private)


def read_device(connection: sqlite3.Connection, key: bytes) -> DeviceRow | None:
    """The row of a registered key."""
    query = "SELECT since, day, used FROM devices WHERE key = ?"
    row = connection.execute(query, (key,)).fetchone()
    return None if row is None else DeviceRow(*row)


def write_device(connection: sqlite3.Connection, key: bytes, row: DeviceRow) -> None:
    """Write the row of a key."""
    values = (key, row.since, row.day, row.used)
    connection.execute("INSERT OR REPLACE INTO devices VALUES (?, ?, ?, ?)", values)


def write_health(connection: sqlite3.Connection) -> None:
    """Write a number, which is another each time."""
    query = "INSERT INTO health VALUES (0, 1) ON CONFLICT (id) DO UPDATE SET writes = writes + 1"
    connection.execute(query)


def take_upload(connection: sqlite3.Connection, key: bytes, today: int, most: int) -> None:
    """Count one more upload of a registered key. Raises as :func:`check_quota`."""
    row = read_device(connection, key)
    assert row is not None
    check_quota(row, today, most)
    used = row.used if row.day == today else 0
    write_device(connection, key, replace(row, day=today, used=used + 1))


def check_quota(row: DeviceRow, today: int, most: int) -> None:
    """See that a device may send one more update today.

    Raises:
        QuotaError: it made ``most`` uploads.
    """
    if row.day == today and row.used >= most:
        raise QuotaError(
            f"this device sent {row.used} updates today, expected at most {most}; try again "
            "tomorrow"
        )


def read_cohort(connection: sqlite3.Connection) -> Cohort | None:
    """The round's cohort; None before the first."""
    row = connection.execute("SELECT offer, nonce, declined, figures FROM cohort").fetchone()
    if row is None:
        return None
    figures = {name: (total, count) for name, (total, count) in json.loads(row[3]).items()}
    return Cohort(CohortOffer.from_bytes(row[0]), row[1], row[2], figures)


def write_cohort(connection: sqlite3.Connection, cohort: Cohort) -> None:
    """Write a new one."""
    row = (cohort.asked.to_bytes(), cohort.nonce, cohort.declined, json.dumps(cohort.figures))
    connection.execute("INSERT OR REPLACE INTO cohort VALUES (0, ?, ?, ?, ?)", row)


def write_cohort_counts(connection: sqlite3.Connection, cohort: Cohort) -> None:
    """Write what changes with every reply."""
    row = (cohort.declined, json.dumps(cohort.figures))
    connection.execute("UPDATE cohort SET declined = ?, figures = ?", row)


def read_answer(connection: sqlite3.Connection) -> bytes | None:
    """The cohort's sum; None while updates are taken."""
    row = connection.execute("SELECT sum FROM answer").fetchone()
    return None if row is None else bytes(row[0])


def write_answer(connection: sqlite3.Connection, data: bytes) -> None:
    """Write it."""
    connection.execute("INSERT OR REPLACE INTO answer VALUES (0, ?)", (data,))


def read_force(connection: sqlite3.Connection) -> InForce | None:
    """The release in force; None before the first is known."""
    row = connection.execute("SELECT version, sha256, size, lineage FROM force").fetchone()
    return None if row is None else InForce(*row)


def write_force(connection: sqlite3.Connection, force: InForce) -> None:
    """Write it."""
    row = (force.version, force.sha256, force.size, force.lineage)
    connection.execute("INSERT OR REPLACE INTO force VALUES (0, ?, ?, ?, ?)", row)

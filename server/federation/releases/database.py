"""The registry's SQLite file: its tables, and transactions that are all or nothing.

    releases   every candidate in order: version, parent, verdict, the release file
    in_force   every change of the release in force; the last row is the one that is
    statements what devices are told of it, signed; empty until the registry has a signing key

The release files are in it as they travel (100 KB at most), so that a release, its report, its
coming into force and the statement of that are one transaction: there is no moment at which one is
there without the others.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from pocketquery.sdk.errors import ArtifactNotFoundError
from pocketquery.sdk.sqlite_file import SqliteKind, is_new, transaction

__all__ = ["create_tables", "reading", "writing"]

_KIND = SqliteKind(
    name="a registry of releases",
    application_id=0x5051524C,  # "PQRL"
    version=3,
    mend="put a copy in its place",
    elsewhere="name another folder",
)
_TABLES = (
    "CREATE TABLE releases (number INTEGER PRIMARY KEY, version TEXT UNIQUE NOT NULL, parent TEXT,"
    " accepted INTEGER NOT NULL, tensors_sha256 TEXT NOT NULL, data BLOB, report TEXT NOT NULL,"
    " recorded_at REAL NOT NULL)",
    "CREATE TABLE in_force (number INTEGER PRIMARY KEY, version TEXT NOT NULL"
    " REFERENCES releases (version), since REAL NOT NULL)",
    "CREATE TABLE statements (sequence INTEGER PRIMARY KEY, data BLOB NOT NULL,"
    " changes_keys INTEGER NOT NULL, recorded_at REAL NOT NULL)",
)


@contextlib.contextmanager
def reading(path: Path) -> Iterator[sqlite3.Connection]:
    """A connection that sees one state of the registry.

    Raises:
        ArtifactNotFoundError: there is no registry, or one that was never finished.
        CorruptArtifactError: something else is there, or it is damaged.
        UnsupportedVersionError: written by a newer release.
    """
    with _connected(path, "rw") as connection, transaction(connection, "BEGIN"):
        _check(connection, path)
        yield connection


@contextlib.contextmanager
def writing(path: Path, *, create: bool = False) -> Iterator[sqlite3.Connection]:
    """A transaction: committed, durably, on leaving without an error; else undone.

    Errors as :func:`reading`; with ``create`` there need be no registry yet.
    """
    mode = "rwc" if create else "rw"
    with _connected(path, mode) as connection, transaction(connection):
        if not (create and is_new(connection)):
            _check(connection, path)
        yield connection


def create_tables(connection: sqlite3.Connection) -> None:
    """Make an empty file a registry; in a transaction."""
    _KIND.create(connection, _TABLES)


@contextlib.contextmanager
def _connected(path: Path, mode: str) -> Iterator[sqlite3.Connection]:
    if mode == "rw" and not path.is_file():
        raise _not_there(path)
    with _KIND.explained(path), contextlib.closing(_KIND.open(path, mode)) as connection:
        connection.execute("PRAGMA synchronous = EXTRA")  # the journal's removal is synced too
        connection.execute("PRAGMA foreign_keys = ON")
        yield connection


def _check(connection: sqlite3.Connection, path: Path) -> None:
    if is_new(connection):
        raise _not_there(path)
    _KIND.check(connection, path)


def _not_there(path: Path) -> ArtifactNotFoundError:
    return ArtifactNotFoundError(
        f"{path.parent}: found no registry of releases there, expected {path.name}; federated "
        "rounds make one where they release"
    )

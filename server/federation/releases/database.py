"""The registry's SQLite file: its tables, and transactions that are all or nothing.

    releases   every candidate in order: version, parent, verdict, the release file
    in_force   every change of the release in force; the last row is the one that is

The release files lie in it as they travel (100 KB at most), so that a release, its report and its
coming into force are one transaction: there is no moment at which one is there without the others.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from pocketquery.sdk.errors import (
    ArtifactError,
    ArtifactNotFoundError,
    CorruptArtifactError,
    UnsupportedVersionError,
)
from pocketquery.sdk.sqlite_file import distrust_schema

__all__ = ["create_tables", "is_empty", "reading", "writing"]

_APPLICATION_ID = 0x5051524C  # "PQRL", in the file's header
_VERSION = 1
_WAIT_SECONDS = 60.0
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT)
_TABLES = (
    "CREATE TABLE releases (number INTEGER PRIMARY KEY, version TEXT UNIQUE NOT NULL, parent TEXT,"
    " accepted INTEGER NOT NULL, tensors_sha256 TEXT NOT NULL, data BLOB, report TEXT NOT NULL,"
    " recorded_at REAL NOT NULL)",
    "CREATE TABLE in_force (number INTEGER PRIMARY KEY, version TEXT NOT NULL"
    " REFERENCES releases (version), since REAL NOT NULL)",
)


@contextlib.contextmanager
def reading(path: Path) -> Iterator[sqlite3.Connection]:
    """A connection that sees one state of the registry.

    Raises:
        ArtifactNotFoundError: there is no registry, or one that was never finished.
        CorruptArtifactError: something else is there, or it is damaged.
        UnsupportedVersionError: written by a newer release.
    """
    with _transaction(path, "BEGIN", create=False) as connection:
        _check(connection, path)
        yield connection


@contextlib.contextmanager
def writing(path: Path, *, create: bool = False) -> Iterator[sqlite3.Connection]:
    """A transaction: committed, durably, on leaving without an error; else undone.

    Errors as :func:`reading`; with ``create`` there need be no registry yet (:func:`is_empty`).
    """
    with _transaction(path, "BEGIN IMMEDIATE", create=create) as connection:
        if not (create and is_empty(connection)):
            _check(connection, path)
        yield connection
        connection.execute("COMMIT")


def is_empty(connection: sqlite3.Connection) -> bool:
    """Whether nothing was ever committed: a new file, or one whose maker was killed."""
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    return (application, tables) == (0, 0)


def create_tables(connection: sqlite3.Connection) -> None:
    """Make an empty file a registry; in a transaction."""
    for table in _TABLES:
        connection.execute(table)
    connection.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {_VERSION}")


@contextlib.contextmanager
def _transaction(path: Path, begin: str, *, create: bool) -> Iterator[sqlite3.Connection]:
    if not create and not path.is_file():
        raise _not_there(path)
    mode = "rwc" if create else "rw"
    try:
        connection = sqlite3.connect(
            f"{path.absolute().as_uri()}?mode={mode}",
            uri=True,
            timeout=_WAIT_SECONDS,
            isolation_level=None,  # transactions are begun and ended here, nowhere else
        )
        try:
            distrust_schema(connection)
            connection.execute("PRAGMA synchronous = EXTRA")  # the journal's removal is synced too
            connection.execute("PRAGMA foreign_keys = ON")
            connection.execute(begin)
            yield connection
        finally:
            connection.close()  # undoes what was not committed
    except sqlite3.DatabaseError as error:
        raise _explained(error, path) from error


def _check(connection: sqlite3.Connection, path: Path) -> None:
    if is_empty(connection):
        raise _not_there(path)
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if application != _APPLICATION_ID:
        raise CorruptArtifactError(
            f"{path} is a database, but not a registry of releases; name another folder"
        )
    if version > _VERSION:
        raise UnsupportedVersionError(
            f"{path} is a registry of version {version}, this release reads up to {_VERSION}; "
            "upgrade pocketquery"
        )


def _not_there(path: Path) -> ArtifactNotFoundError:
    return ArtifactNotFoundError(
        f"{path.parent}: found no registry of releases there, expected {path.name}; federated "
        "rounds make one where they release"
    )


def _explained(error: sqlite3.DatabaseError, path: Path) -> ArtifactError:
    if getattr(error, "sqlite_errorcode", 0) & 0xFF in _DAMAGED:
        return CorruptArtifactError(
            f"{path} is damaged or not a database ({error}); put a copy in its place"
        )
    return ArtifactError(f"{path}: {error}; nothing was changed")

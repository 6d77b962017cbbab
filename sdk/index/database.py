"""The index's SQLite file: connections for many threads, one snapshot a read, one writer.

The rollback journal (SQLite's default) is kept on purpose: the index stays one file that can be
copied, also to a read-only place, and a commit is the one moment at which anything changes. A
writer keeps its pages in memory until then (``cache_spill``), so readers wait for the commit alone.

A build puts another file in this one's place. Whoever has the old one open must not mix it with
files of the new folder: every transaction, once it holds its lock, looks whether its file is still
the one at the path and else begins anew on that one; and the build holds the old file while it
moves the folders (:func:`held`), so that what was looked up stays so.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path

from pocketquery.sdk.errors import (
    ArtifactError,
    ArtifactNotFoundError,
    CorruptArtifactError,
    InvalidInputError,
    UnsupportedVersionError,
)

__all__ = ["Connection", "Database", "get_meta", "held", "set_meta"]

_APPLICATION_ID = 0x50514958  # "PQIX", in the file's header
_VERSION = 1
_WAIT_SECONDS = 60.0
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT)


class Connection(sqlite3.Connection):
    """A connection that knows which file it has open.

    Attributes:
        file: the file's identity, whatever path leads to it.
    """

    file: tuple[int, int] | None = None


class Database:
    """The SQLite file at a path, also where another one takes its place. Safe to use from threads.

    Args:
        path: the file; it is made where ``create`` is set.
        writable: whether :meth:`writing` may be used.
        create: make a new, empty one.

    Raises:
        ArtifactNotFoundError: no such file.
        CorruptArtifactError: not a database of this format.
        UnsupportedVersionError: a newer version of the format.
    """

    def __init__(self, path: Path, *, writable: bool = False, create: bool = False) -> None:
        self.path = path
        self.writable = writable
        # A reader opens for writing too (where it may): only so can SQLite undo the commit in which
        # a writer was killed. What a reader runs is kept from writing by query_only.
        self._mode = "rwc" if create else "rw"
        self._idle: list[Connection] = []
        self._lock = threading.Lock()
        self._closed = False
        if not create and not path.is_file():
            raise ArtifactNotFoundError(f"{path} is missing; build the index again or copy it anew")
        with self._connection() as connection:
            if create:
                connection.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
                connection.execute(f"PRAGMA user_version = {_VERSION}")
                connection.execute("CREATE TABLE meta (key TEXT PRIMARY KEY, value) WITHOUT ROWID")
            _check_format(connection, path)
            _check_size(connection, path)

    @property
    def closed(self) -> bool:
        """Whether :meth:`close` was called."""
        return self._closed

    @contextlib.contextmanager
    def reading(self) -> Iterator[Connection]:
        """A connection that sees one state of the database, whatever others commit meanwhile."""
        with self._connection("BEGIN") as connection:
            yield connection

    @contextlib.contextmanager
    def writing(self) -> Iterator[Connection]:
        """A transaction: committed, durably, on leaving without an error; else undone.

        It waits for another writer, in this process or another.
        """
        if not self.writable:
            raise InvalidInputError(
                f"{self.path.parent} is open for reading only; open it with writable=True"
            )
        with self._connection("BEGIN IMMEDIATE") as connection:
            yield connection
            connection.execute("COMMIT")

    def vacuum(self) -> None:
        """Give the space of what was deleted back to the disk."""
        with self._connection() as connection:
            connection.execute("VACUUM")

    def close(self) -> None:
        """Close every connection, those in use when they are given back."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    @contextlib.contextmanager
    def _connection(self, begin: str | None = None) -> Iterator[Connection]:
        """A connection of one's own, in a transaction where ``begin`` begins one; undone at the
        end where it was not committed."""
        connection = self._idle_one()
        try:
            connection = connection or self._connect()
            while begin and not _begun(connection, begin, self.path):
                connection.close()
                connection = None
                connection = self._connect()
            yield connection
        except sqlite3.DatabaseError as error:
            raise _explain(error, self.path) from error
        finally:
            if connection is not None:
                self._give_back(connection)

    def _idle_one(self) -> Connection | None:
        with self._lock:
            if self._closed:
                raise InvalidInputError(f"the index {self.path.parent} is closed; open it again")
            return self._idle.pop() if self._idle else None

    def _connect(self) -> Connection:
        file = _identity(self.path)  # before opening: a file that comes between is noticed later
        connection = sqlite3.connect(
            f"{self.path.absolute().as_uri()}?mode={self._mode}",
            uri=True,
            timeout=_WAIT_SECONDS,
            isolation_level=None,  # transactions are begun and ended here, nowhere else
            check_same_thread=False,
            factory=Connection,
        )
        connection.file = file
        connection.execute("PRAGMA secure_delete = ON")
        connection.execute("PRAGMA cache_spill = OFF")
        connection.execute(f"PRAGMA query_only = {not self.writable}")
        return connection

    def _give_back(self, connection: Connection) -> None:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        with self._lock:
            if not self._closed:
                self._idle.append(connection)
                return
        connection.close()


@contextlib.contextmanager
def held(path: Path) -> Iterator[None]:
    """Keep everybody off the database at ``path``, if there is one, while its folder is replaced.

    Raises:
        ArtifactError: somebody has used it for a minute on end.
    """
    if os.name == "nt" or not path.is_file():  # there an open file keeps its folder in place anyway
        yield
        return
    connection = sqlite3.connect(path, timeout=_WAIT_SECONDS, isolation_level=None)
    try:
        try:
            connection.execute("BEGIN EXCLUSIVE")
        except sqlite3.DatabaseError as error:
            if error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY:
                raise _explain(error, path) from error
            # Else it is damaged or may not be written: nobody is writing to it.
        yield
    finally:
        connection.close()


def get_meta(connection: sqlite3.Connection, key: str) -> str:
    """The value of ``key``.

    Raises:
        CorruptArtifactError: there is none, though every index has it.
    """
    found = connection.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
    if found is None:
        raise CorruptArtifactError(
            f"the index's database lacks {key!r}; copy the index anew or build it again"
        )
    return str(found[0])


def set_meta(connection: sqlite3.Connection, key: str, value: str) -> None:
    """Set ``key`` to ``value``."""
    connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, value))


def _identity(path: Path) -> tuple[int, int] | None:
    """Which file is at ``path``; None where there is none."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def _begun(connection: Connection, begin: str, path: Path) -> bool:
    """Begin a transaction; False where another file is at ``path`` than ``connection`` has open.

    Where none is there, the folder was removed: what is open can still be read.
    """
    connection.execute(begin)
    connection.execute("SELECT count(*) FROM sqlite_master").fetchone()  # BEGIN alone locks nothing
    return _identity(path) in (connection.file, None)


def _check_format(connection: sqlite3.Connection, path: Path) -> None:
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if application != _APPLICATION_ID:
        raise CorruptArtifactError(
            f"{path} is a database, but not of a pocketquery index; build the index again"
        )
    if version > _VERSION:
        raise UnsupportedVersionError(
            f"{path} is of version {version}, this release reads up to {_VERSION}; "
            "upgrade pocketquery"
        )


def _check_size(connection: sqlite3.Connection, path: Path) -> None:
    """SQLite itself notices a missing page only when it reads it."""
    connection.execute("BEGIN")  # so that nobody changes the size meanwhile
    try:
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        (size,) = connection.execute("PRAGMA page_size").fetchone()
        found = path.stat().st_size
    finally:
        connection.execute("ROLLBACK")
    if found < pages * size:
        raise CorruptArtifactError(
            f"{path} has {found} bytes, expected {pages * size}: it is truncated; "
            "copy the index anew or build it again"
        )


def _explain(error: sqlite3.DatabaseError, path: Path) -> ArtifactError:
    if error.sqlite_errorcode & 0xFF in _DAMAGED:
        return CorruptArtifactError(
            f"{path} is damaged or not a database ({error}); copy the index anew or build it again"
        )
    return ArtifactError(f"{path}: {error}; nothing was changed")

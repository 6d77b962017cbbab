"""The query store's SQLite file: one transaction at a time, and deleted means overwritten.

SQLite's rollback journal (its default) is kept: there is no write-ahead log in which deleted text
could survive, and the journal is gone when a transaction ends. ``secure_delete`` overwrites deleted
rows with zeros, temporary tables stay in memory, and :meth:`StoreFile.rewrite` (VACUUM) writes the
file anew, since rows that SQLite moved between pages may leave a copy behind. What a file system
or a flash chip keeps of freed blocks is out of reach here: that is what device encryption is for.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import sqlite3
import threading
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path

from pocketquery.sdk.errors import ArtifactError, InvalidInputError
from pocketquery.sdk.files import remove_file
from pocketquery.sdk.sqlite_file import SqliteKind, error_code, identity, transaction

__all__ = ["ROUNDS", "SECURE", "StoreFile", "destroy_file", "new_epoch"]

ROUNDS = "rounds.safetensors"
"""What is kept between rounds, beside a store: it was made of the store's queries, and goes with
them."""

SECURE = "secure.safetensors"
"""Where a private round stands, beside a store: the same holds for it."""

_KIND = SqliteKind(
    name="a query store",
    application_id=0x50515153,  # "PQQS"
    version=1,
    mend="erase it with QueryStore.destroy(path): a new store begins empty and without consent",
    elsewhere="give another path",
)
_WAIT_SECONDS = 10.0
_NO_SPACE = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR)
_TABLES = (
    """CREATE TABLE state (
    one INTEGER PRIMARY KEY CHECK (one = 1), consent INTEGER NOT NULL, age REAL NOT NULL,
    seen REAL, deleted INTEGER NOT NULL
)""",
    "INSERT INTO state VALUES (1, 0, 0.0, NULL, 0)",
    """CREATE TABLE queries (
    number INTEGER PRIMARY KEY, query TEXT NOT NULL, shown TEXT NOT NULL, opened TEXT,
    age REAL NOT NULL, time REAL, size INTEGER NOT NULL
)""",
    """CREATE TABLE marks (
    one INTEGER PRIMARY KEY CHECK (one = 1), epoch TEXT NOT NULL, origin REAL, landed REAL
)""",
    """CREATE TABLE made (
    one INTEGER PRIMARY KEY CHECK (one = 1), written INTEGER NOT NULL, age REAL NOT NULL
)""",
    """CREATE TABLE limits (
    one INTEGER PRIMARY KEY CHECK (one = 1), max_rows INTEGER, max_bytes INTEGER, max_age REAL
)""",
    "INSERT INTO limits VALUES (1, NULL, NULL, NULL)",
)
_DERIVED_FILES = (ROUNDS, SECURE)
_SIBLINGS = ("-journal", "-wal", "-shm")


def new_epoch() -> str:
    """A name for what a store holds from now on, unlike any other."""
    return secrets.token_hex(16)


class StoreFile:
    """The file at ``path``, made (readable by its owner alone) where there is none.

    Safe to use from threads and beside other processes. Where the file was removed or replaced
    since, the next transaction works on what is at ``path`` then.

    Raises:
        CorruptArtifactError: damaged, or another program's file.
        UnsupportedVersionError: written by a newer version.
        ArtifactError: it cannot be opened or made (permission, no folder, full disk).
    """

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self._lock = threading.RLock()
        self._connection: sqlite3.Connection | None = None
        self._file: tuple[int, int] | None = None
        self._closed = False
        try:
            with self.transaction() as connection:
                _check_pages(connection, self.path)
        except BaseException:
            self.close()
            raise

    @contextlib.contextmanager
    def transaction(self, begin: str = "BEGIN IMMEDIATE") -> Iterator[sqlite3.Connection]:
        """Committed, durably, on leaving without an error; else undone.

        Raises:
            ArtifactError: the disk is full, another process holds the file for long, and so on;
                nothing was changed.
            InvalidInputError: the store is closed.
        """
        with self._lock, self._explained(), transaction(self._current(), begin) as connection:
            yield connection

    def erase(self, change: Callable[[sqlite3.Connection], None]) -> None:
        """Run ``change``, which deletes, in a transaction, and write the file anew.

        It works on a full disk too: the journal, for which there is no room, is then kept in
        memory. (Only a kill during this second attempt can damage the file.) What was kept between
        rounds is removed from beside it.
        """
        with self._lock:
            # First, so that nothing of the queries is left where the process is killed below.
            with contextlib.suppress(OSError):
                _remove_made_of_queries(self.path)
            try:
                self._change_and_rewrite(change)
            except ArtifactError as error:
                if error_code(error.__cause__) not in _NO_SPACE:
                    raise
                self._forget()
                with self._explained():
                    self._current().execute("PRAGMA journal_mode = MEMORY")
                self._change_and_rewrite(change)
                self._forget()  # with its journal in memory
            with self._explained():
                _remove_made_of_queries(self.path)  # and what a round wrote meanwhile

    def rewrite(self) -> None:
        """Write the file anew, without anything that was deleted from it."""
        with self._lock:
            with self._explained():
                self._current().execute("VACUUM")
            with self.transaction() as connection:
                connection.execute("UPDATE state SET deleted = 0")

    def rounds_written(self) -> int | None:
        """When what is kept between rounds was written, in nanoseconds since 1970 by the clock of
        then; None where there is none.
        """
        try:
            return self.path.with_name(ROUNDS).stat().st_mtime_ns
        except OSError:
            return None

    def drop_rounds(self) -> None:
        """Remove what is kept between rounds from beside the store; what cannot be removed is tried
        again.
        """
        with contextlib.suppress(OSError):
            remove_file(self.path.with_name(ROUNDS))

    def drop_round(self, now: float, seconds: float) -> None:
        """Remove the progress file of a private round from beside the store, where it was not
        written within ``seconds`` of ``now`` (Unix seconds). Nothing of a round is kept for longer,
        also where no device is opened any more.
        """
        path = self.path.with_name(SECURE)
        with contextlib.suppress(OSError):  # there is none; or a device will try
            if not abs(now - path.stat().st_mtime) < seconds:
                remove_file(path)

    def close(self) -> None:
        """Close the file; to be called once it is not needed any more, twice does no harm."""
        with self._lock:
            self._closed = True
            self._forget()

    def _change_and_rewrite(self, change: Callable[[sqlite3.Connection], None]) -> None:
        with self.transaction() as connection:
            change(connection)
        self.rewrite()

    def _current(self) -> sqlite3.Connection:
        """The connection to the file that is at the path now."""
        if self._closed:
            raise InvalidInputError(f"the query store {self.path} is closed; open it again")
        if self._connection is None or identity(self.path) != self._file:
            self._forget()
            # Created here and not by SQLite, which would let others read it.
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600))
            _keep_private(self.path)
            self._file = identity(self.path)
            self._connection = _connect(self.path)
            weakref.finalize(self, self._connection.close)  # a store may be left open until the end
        return self._connection

    def _forget(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            with _KIND.explained(self.path):
                yield
        except OSError as error:
            raise ArtifactError(
                f"the query store {self.path} cannot be opened ({error}); expected a file in a "
                "folder that exists and may be written"
            ) from error


def destroy_file(path: Path) -> None:
    """Overwrite the store at ``path``, damaged or not, with zeros and remove it; what was kept
    between rounds is removed from beside it.

    Raises:
        ArtifactError: a file is there and cannot be written or removed.
    """
    with contextlib.suppress(OSError):
        _remove_made_of_queries(path)
    for file in _files(path):
        try:
            with file.open("rb+") as opened:
                opened.write(bytes(file.stat().st_size))
                opened.flush()
                os.fsync(opened.fileno())
            file.unlink()
        except FileNotFoundError:
            continue
        except OSError as error:
            raise ArtifactError(
                f"{file} cannot be erased ({error}); close what uses it, or remove it by hand"
            ) from error

    try:
        _remove_made_of_queries(path)
    except OSError as error:
        raise ArtifactError(
            f"what was made of the queries of {path} cannot be erased ({error}); remove it by hand"
        ) from error


def _remove_made_of_queries(path: Path) -> None:
    """Remove what was kept between rounds from beside the store at ``path``.

    Raises:
        OSError: something cannot be removed.
    """
    for made in map(path.with_name, _DERIVED_FILES):
        remove_file(made)


def _files(path: Path) -> list[Path]:
    """The store at ``path`` and the files that SQLite makes beside it."""
    return [path, *(path.with_name(path.name + end) for end in _SIBLINGS)]


def _keep_private(path: Path) -> None:
    """For its owner alone, also where it was made or copied otherwise. SQLite gives the files that
    it makes beside it the permissions of the store.
    """
    for file in _files(path):
        with contextlib.suppress(FileNotFoundError, PermissionError):  # not there; another's
            if file.stat().st_mode & 0o077:
                file.chmod(0o600)


def _connect(path: Path) -> sqlite3.Connection:
    connection = _KIND.open(path, "rw", seconds=_WAIT_SECONDS)
    try:
        connection.execute("PRAGMA secure_delete = ON")
        connection.execute("PRAGMA temp_store = MEMORY")
        with transaction(connection):
            _KIND.prepare(connection, path, _TABLES)
            connection.execute(
                "INSERT OR IGNORE INTO marks VALUES (1, ?, NULL, NULL)", (new_epoch(),)
            )
    except BaseException:
        connection.close()
        raise
    return connection


def _check_pages(connection: sqlite3.Connection, path: Path) -> None:
    (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    (states,) = connection.execute("SELECT count(*) FROM state").fetchone()
    if verdict != "ok" or states != 1:
        raise _KIND.damaged(path, verdict.splitlines()[-1])

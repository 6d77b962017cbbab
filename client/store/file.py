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
from collections.abc import Callable, Iterator
from pathlib import Path

from pocketquery.sdk.errors import (
    ArtifactError,
    CorruptArtifactError,
    InvalidInputError,
    UnsupportedVersionError,
)
from pocketquery.sdk.files import remove_file
from pocketquery.sdk.sqlite_file import distrust_schema

__all__ = ["ROUNDS", "SECURE", "StoreFile", "destroy_file", "new_epoch"]

ROUNDS = "rounds.safetensors"
"""What is kept between rounds, beside a store: it was made of the store's queries, and goes with
them."""

SECURE = "secure.safetensors"
"""Where a private round stands, beside a store: the same holds for it."""

_APPLICATION_ID = 0x50515153  # "PQQS", in the file's header
_VERSION = 1
_WAIT_SECONDS = 10.0
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT)
_NO_SPACE = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR)
_REMEDY = "Erase it with QueryStore.destroy(path); a new store begins empty and without consent"
_TABLES = """
CREATE TABLE state (
    one INTEGER PRIMARY KEY CHECK (one = 1), consent INTEGER NOT NULL, age REAL NOT NULL,
    seen REAL, deleted INTEGER NOT NULL
);
INSERT INTO state VALUES (1, 0, 0.0, NULL, 0);
CREATE TABLE queries (
    number INTEGER PRIMARY KEY, query TEXT NOT NULL, shown TEXT NOT NULL, opened TEXT,
    age REAL NOT NULL, time REAL, size INTEGER NOT NULL
);
"""
# In a table of its own, which stores of earlier releases get when they are opened.
_MARKS = """
CREATE TABLE IF NOT EXISTS marks (
    one INTEGER PRIMARY KEY CHECK (one = 1), epoch TEXT NOT NULL, origin REAL, landed REAL
);
"""
_MADE_OF_QUERIES = (ROUNDS, SECURE)
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
        with self.transaction() as connection:
            _check_pages(connection, self.path)

    @contextlib.contextmanager
    def transaction(self, begin: str = "BEGIN IMMEDIATE") -> Iterator[sqlite3.Connection]:
        """Committed, durably, on leaving without an error; else undone.

        Raises:
            ArtifactError: the disk is full, another process holds the file for long, and so on;
                nothing was changed.
            InvalidInputError: the store is closed.
        """
        with self._lock, self._explained():
            connection = self._current()
            try:
                connection.execute(begin)
                yield connection
                connection.execute("COMMIT")
            finally:
                if connection.in_transaction:
                    with contextlib.suppress(sqlite3.Error):
                        connection.execute("ROLLBACK")

    def erase(self, change: Callable[[sqlite3.Connection], None]) -> None:
        """Run ``change``, which deletes, in a transaction, and write the file anew.

        It works on a full disk too, where there is no room for the journal: that is then kept in
        memory. (Only a kill during this second attempt can damage the file.) What was kept between
        rounds is removed from beside it.
        """
        with self._lock:
            try:
                self._change_and_rewrite(change)
            except ArtifactError as error:
                if _code(error.__cause__) not in _NO_SPACE:
                    raise
                self._forget()
                with self._explained():
                    self._current().execute("PRAGMA journal_mode = MEMORY")
                self._change_and_rewrite(change)
                self._forget()  # with its journal in memory
            with self._explained():
                for name in _MADE_OF_QUERIES:
                    remove_file(self.path.with_name(name))

    def rewrite(self) -> None:
        """Write the file anew, without anything that was deleted from it."""
        with self._lock:
            with self._explained():
                self._current().execute("VACUUM")
            with self.transaction() as connection:
                connection.execute("UPDATE state SET deleted = 0")

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
        if self._connection is None or _identity(self.path) != self._file:
            self._forget()
            # Created here and not by SQLite, which would let others read it.
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600))
            _keep_private(self.path)
            self._file = _identity(self.path)
            self._connection = _connect(self.path)
        return self._connection

    def _forget(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            raise _explain(error, self.path) from error


def destroy_file(path: Path) -> None:
    """Overwrite the store at ``path``, damaged or not, with zeros and remove it; what was kept
    between rounds is removed from beside it.

    Raises:
        ArtifactError: a file is there and cannot be written or removed.
    """
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

    for made in map(path.with_name, _MADE_OF_QUERIES):
        try:
            remove_file(made)
        except OSError as error:
            raise ArtifactError(f"{made} cannot be erased ({error})") from error


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
    connection = sqlite3.connect(
        f"{path.as_uri()}?mode=rw",
        uri=True,
        timeout=_WAIT_SECONDS,
        isolation_level=None,  # transactions are begun and ended above, nowhere else
        check_same_thread=False,
    )
    try:
        distrust_schema(connection)
        connection.execute("PRAGMA secure_delete = ON")
        connection.execute("PRAGMA temp_store = MEMORY")
        connection.execute("BEGIN IMMEDIATE")
        _check_format(connection, path)
        connection.execute("COMMIT")
    except BaseException:
        connection.close()
        raise
    return connection


def _check_format(connection: sqlite3.Connection, path: Path) -> None:
    """Make the tables where the file is new, or a kill came before they were made."""
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if not (application or version or tables):
        connection.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {_VERSION}")
        for statement in _TABLES.split(";"):
            connection.execute(statement)
    elif application != _APPLICATION_ID:
        raise CorruptArtifactError(
            f"{path} is another program's database, expected a query store; give another path"
        )
    elif version > _VERSION:
        raise UnsupportedVersionError(
            f"{path} is a query store of version {version}, this release reads up to {_VERSION}; "
            "upgrade pocketquery"
        )
    connection.execute(_MARKS)
    connection.execute(
        "INSERT OR IGNORE INTO marks SELECT 1, ?, seen - age, NULL FROM state", (new_epoch(),)
    )


def _check_pages(connection: sqlite3.Connection, path: Path) -> None:
    (found,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    (states,) = connection.execute("SELECT count(*) FROM state").fetchone()
    if found != "ok" or states != 1:
        raise CorruptArtifactError(f"{path} is damaged ({found.splitlines()[-1]}). {_REMEDY}")


def _identity(path: Path) -> tuple[int, int] | None:
    """Which file is at ``path``; None where there is none."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def _code(error: BaseException | None) -> int | None:
    """SQLite's primary result code; None for an error that has none."""
    code = getattr(error, "sqlite_errorcode", None)
    return None if code is None else int(code) & 0xFF


def _explain(error: Exception, path: Path) -> ArtifactError:
    if isinstance(error, OSError):
        return ArtifactError(
            f"the query store {path} cannot be opened ({error}); expected a file in a folder that "
            "exists and may be written"
        )
    code = _code(error)
    if code is None or code in _DAMAGED:  # text that is no UTF-8 comes without a code
        return CorruptArtifactError(f"{path} is damaged or no query store ({error}). {_REMEDY}")
    return ArtifactError(
        f"the query store {path}: {error}; nothing was changed. Make "
        "room, or wait for whoever else uses it, and try again"
    )

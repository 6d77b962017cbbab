"""The kinds of SQLite file we write: opened, recognised, changed in transactions, errors explained.

A file carries its kind's application id and version in its header. Connections begin and end
transactions by statements alone (``isolation_level=None``) and run nothing that a schema says.

Which SQLite runs is Python's, or the system's: :func:`check_sqlite` says what ours must have.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from errno import ENOSPC, EROFS
from pathlib import Path
from typing import TypeVar

from pocketquery.sdk.errors import (
    ArtifactError,
    CorruptArtifactError,
    PocketQueryError,
    UnsupportedVersionError,
    WriteError,
)
from pocketquery.sdk.files import make_folder

__all__ = [
    "LEAST_SQLITE",
    "SqliteKind",
    "check_sqlite",
    "distrust_schema",
    "error_code",
    "identity",
    "is_new",
    "transaction",
]

LEAST_SQLITE = (3, 32)
"""The first that takes as many values in one statement as a filter may have. Before 3.31 there is
no ``trusted_schema``, without which a file's schema may run as code."""

_Connection = TypeVar("_Connection", bound=sqlite3.Connection)

_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT)
# What our own statements can meet in a damaged file alone: their SQL is right, and what callers
# give is checked before.
_DAMAGED_BY_OTHERS = (
    *_DAMAGED,
    sqlite3.SQLITE_ERROR,
    sqlite3.SQLITE_CONSTRAINT,
    sqlite3.SQLITE_MISMATCH,
    sqlite3.SQLITE_TOOBIG,
    sqlite3.SQLITE_INTERRUPT,
)
# The latter where SQLite's own message quotes a name of a damaged schema, which is no text.
_ERRORS = (sqlite3.Error, UnicodeDecodeError)
_UNWRITABLE = {sqlite3.SQLITE_READONLY: EROFS, sqlite3.SQLITE_FULL: ENOSPC}
_WAIT_SECONDS = 1.0  # for who has a file alone
_MISUSE_ERRORS = (sqlite3.ProgrammingError, sqlite3.InterfaceError)


@dataclass(frozen=True)
class SqliteKind:
    """One kind of file.

    Attributes:
        name: with its article, as errors call it: "a query store".
        application_id: in the file's header.
        version: the one that is read and written; others are refused.
        mend: what to do where it is damaged.
        elsewhere: what to do where the file is not of this kind.
        busy: what to do where somebody else keeps it locked.
        trusted: whether it is our own process's; one that came from elsewhere is damaged where
            our statements fail, too.
    """

    name: str
    application_id: int
    version: int
    mend: str
    elsewhere: str
    busy: str = "wait for whoever uses it, and try again"
    trusted: bool = True

    def open(
        self,
        path: Path,
        mode: str,
        *,
        seconds: float = 60.0,
        any_thread: bool = True,
        factory: type[sqlite3.Connection] = sqlite3.Connection,
    ) -> sqlite3.Connection:
        """A connection to the file at ``path``.

        Args:
            path: of the file.
            mode: "ro", "rw", or "rwc", which makes it where it is not there.
            seconds: how long to wait for others' transactions.
            any_thread: whether threads other than this one may use it (one at a time).
            factory: the connection's class.

        Raises:
            PocketQueryError: this Python's SQLite is too old.
        """
        check_sqlite()
        connection = sqlite3.connect(
            f"{path.absolute().as_uri()}?mode={mode}",
            uri=True,
            timeout=seconds,
            isolation_level=None,
            check_same_thread=not any_thread,
            factory=factory,
        )
        try:
            distrust_schema(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def make_private(self, path: Path) -> None:
        """Make an empty file at ``path``, for its owner alone, where there is none: SQLite, which
        gives the files beside it the same permissions, would let others read it.

        Raises:
            ArtifactError: it cannot be made.
        """
        try:
            os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
        except OSError as error:
            raise ArtifactError(
                f"{path}, {self.name}, cannot be opened ({error}); expected a file in a folder "
                "that may be written"
            ) from error

    @contextlib.contextmanager
    def opened_alone(
        self,
        path: Path,
        prepare: Callable[[sqlite3.Connection, Path], None],
        *,
        cache_kib: int,
        page_bytes: int = 4096,
        any_thread: bool = True,
    ) -> Iterator[sqlite3.Connection]:
        """The file at ``path``, made where there is none and held exclusively, with a write-ahead
        log and what is deleted overwritten. Left through an error it is closed, else it stays open.

        Args:
            path: made readable by its owner alone.
            prepare: makes the tables or checks them, in a transaction.
            cache_kib: of pages in memory.
            page_bytes: of a new file.
            any_thread: whether threads other than this one may use it (one at a time).

        Raises:
            ArtifactError: it cannot be opened, or another process has it open.
            CorruptArtifactError: it is damaged, or something else.
            UnsupportedVersionError: it is of another release.
        """
        make_folder(path.parent)
        with self.explained(path):
            self.make_private(path)
            connection = self.open(path, "rw", seconds=_WAIT_SECONDS, any_thread=any_thread)
            try:
                connection.execute(f"PRAGMA page_size = {page_bytes}")
                connection.execute(f"PRAGMA cache_size = -{cache_kib}")
                connection.execute("PRAGMA locking_mode = EXCLUSIVE")
                connection.execute("PRAGMA journal_mode = WAL")
                connection.execute("PRAGMA synchronous = FULL")
                connection.execute("PRAGMA secure_delete = ON")
                with transaction(connection):
                    prepare(connection, path)
                truncate_log(connection)  # a kill may have come before that of the last erasure
                yield connection
            except BaseException:
                connection.close()
                raise

    def create(self, connection: sqlite3.Connection, tables: Sequence[str]) -> None:
        """Make a new file one of this kind, by the statements ``tables``; in a transaction."""
        for statement in tables:
            connection.execute(statement)
        self.mark(connection)

    def mark(self, connection: sqlite3.Connection) -> None:
        """Write application id and version into the header."""
        connection.execute(f"PRAGMA application_id = {self.application_id}")
        connection.execute(f"PRAGMA user_version = {self.version}")

    def prepare(self, connection: sqlite3.Connection, path: Path, tables: Sequence[str]) -> int:
        """Make a new file one of this kind, or see that it is one; in a transaction.

        Returns:
            The version it has, or had.

        Raises:
            CorruptArtifactError: another program's.
            UnsupportedVersionError: of a newer release, or of one that is too old.
        """
        if is_new(connection):
            self.create(connection, tables)
        return self.check(connection, path)

    def check(self, connection: sqlite3.Connection, path: Path) -> int:
        """See that the file is of this kind; its version. Errors as :meth:`prepare`."""
        (application_id,) = connection.execute("PRAGMA application_id").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        self.check_header(path, int(application_id), int(version))
        return int(version)

    def check_header(self, path: Path, application_id: int, version: int) -> None:
        """See that these are of this kind. Errors as :meth:`prepare`."""
        if application_id != self.application_id:
            raise CorruptArtifactError(
                f"{path} is another program's database, not {self.name}; {self.elsewhere}"
            )
        if version > self.version:
            raise UnsupportedVersionError(
                f"{path} is {self.name} of version {version}, this release reads up to "
                f"{self.version}; upgrade pocketquery"
            )
        if version < self.version:
            raise UnsupportedVersionError(
                f"{path} is {self.name} of version {version}, this release reads from "
                f"{self.version} on; {self.elsewhere}"
            )

    def damaged(self, path: Path, found: object = None) -> CorruptArtifactError:
        """The error that says so, with what was found."""
        detail = "" if found is None else f" ({found})"
        return CorruptArtifactError(f"{path} is damaged or not {self.name}{detail}; {self.mend}")

    def explain(self, error: sqlite3.Error | UnicodeDecodeError, path: Path) -> ArtifactError:
        """What SQLite's ``error`` means for the caller that opened ``path``."""
        code = error_code(error)
        # A text that is not valid UTF-8 comes without a code, as does what a caller did wrong.
        undecodable = code is None and not isinstance(error, _MISUSE_ERRORS)
        if undecodable or code in (_DAMAGED if self.trusted else _DAMAGED_BY_OTHERS):
            return self.damaged(path, error)
        if code in _UNWRITABLE:
            return WriteError.of(path, OSError(_UNWRITABLE[code], str(error)))
        if code == sqlite3.SQLITE_BUSY:
            return ArtifactError(
                f"{path} is in use by another process ({error}); nothing was changed: {self.busy}"
            )
        return ArtifactError(f"{path}, {self.name}: {error}; nothing was changed")

    @contextlib.contextmanager
    def explained(self, path: Path) -> Iterator[None]:
        """SQLite's errors as ours, see :meth:`explain`."""
        try:
            yield
        except _ERRORS as error:
            raise self.explain(error, path) from error


@contextlib.contextmanager
def transaction(connection: _Connection, begin: str = "BEGIN IMMEDIATE") -> Iterator[_Connection]:
    """Committed, durably, on leaving without an error; else undone."""
    try:
        connection.execute(begin)
        yield connection
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            with contextlib.suppress(sqlite3.Error):  # the first error is the one to report
                connection.execute("ROLLBACK")


def truncate_log(connection: sqlite3.Connection) -> None:
    """Copy the write-ahead log into the file and cut it to nothing: what was erased from the tables
    stands in it still."""
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


def check_sqlite() -> None:
    """See that this Python's SQLite has what our files need.

    Raises:
        PocketQueryError: it is too old, or was made without the functions for JSON.
    """
    least = ".".join(map(str, LEAST_SQLITE))
    if sqlite3.sqlite_version_info < LEAST_SQLITE:
        state = f"is {sqlite3.sqlite_version}"
    elif not _reads_json():
        state = f"{sqlite3.sqlite_version} has no functions for JSON"
    else:
        return
    raise PocketQueryError(
        f"the SQLite of this Python {state}; expected {least} or later, with functions for "
        "JSON. Use a Python that has its own (python.org's, uv's, conda's), or a newer system's"
    )


@functools.cache
def _reads_json() -> bool:
    with contextlib.closing(sqlite3.connect(":memory:")) as connection:
        try:
            connection.execute("SELECT json_type('{}')")
        except sqlite3.OperationalError:
            return False
    return True


def distrust_schema(connection: sqlite3.Connection) -> None:
    """Keep what a file's schema says from running as code; for every database of ours."""
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.execute("PRAGMA cell_size_check = ON")


def is_new(connection: sqlite3.Connection) -> bool:
    """Whether nothing was ever committed: a new file, or one whose maker was killed."""
    (application_id,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    return not (application_id or version or tables)


def identity(path: Path) -> tuple[int, int] | None:
    """Which file is at ``path``; None where there is none."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino


def error_code(error: BaseException | None) -> int | None:
    """SQLite's primary result code; None for an error that has none."""
    code = getattr(error, "sqlite_errorcode", None)
    return None if code is None else int(code) & 0xFF

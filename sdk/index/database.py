"""The index's SQLite file: connections for many threads, one snapshot a read, one writer.

The rollback journal (SQLite's default) is kept on purpose: the index stays one file that can be
copied, also to a read-only place, and a commit is the one moment at which anything changes. A
writer keeps its pages in memory until then (``cache_spill``), so readers wait for the commit alone.

A build puts another file in this one's place. A reader of the old file must not mix it with files
of the new folder. So every transaction, once it holds its lock, checks that its file is still the
one at the path, and else begins anew on that one. The build holds the old file while it moves the
folders (:func:`held`), so that the answer stays true.
"""

from __future__ import annotations

import contextlib
import os
import re
import sqlite3
import threading
import time
import weakref
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from pocketquery.sdk.arrays import NDArray
from pocketquery.sdk.errors import ArtifactError, CorruptArtifactError, InvalidInputError
from pocketquery.sdk.folders import TWO_RENAMES
from pocketquery.sdk.index.untrusted_file import (
    Connection,
    Schema,
    check_beside,
    check_schema,
    connect,
)
from pocketquery.sdk.plain_files import plain_size
from pocketquery.sdk.sqlite_file import SqliteKind, error_code, transaction
from pocketquery.sdk.words import AUTO, LANGUAGES, NONE

__all__ = [
    "META",
    "MOST_LANGUAGE",
    "PAGE",
    "Connection",
    "Database",
    "check_structure",
    "damaged",
    "generation_of",
    "get_meta",
    "get_numbers",
    "held",
    "is_vectors_name",
    "language_of",
    "next_generation",
    "set_meta",
    "set_numbers",
    "vectors_name",
]

META: Schema = {"meta": "CREATE TABLE meta (key TEXT PRIMARY KEY, value) WITHOUT ROWID"}
_KIND = SqliteKind(
    name="the database of a pocketquery index",
    application_id=0x50514958,  # "PQIX"
    version=2,
    mend="copy the index anew or build it again",
    elsewhere="build the index again",
    trusted=False,
)
MOST_LANGUAGE = 32  # characters of a language's name
PAGE = 8192  # bytes; lists of rows leave less of it empty than of 4,096: 6 % of an index
_NUMBER = np.dtype("<i8")
_DIGITS = "(?:0|[1-9][0-9]{0,17})"  # within 64 bits
_GENERATION = re.compile(_DIGITS)
_VECTORS = re.compile(rf"vectors-{_DIGITS}\.u8")  # a name in the folder, and no path
_LEAST_LIMIT = 1 << 25  # bytes: what a query itself may bring, a filter's values above all
_MOST_LIMIT = 1_000_000_000  # SQLite's own


class Database:
    """The SQLite file at a path, also where another one takes its place. Safe to use from threads.

    Args:
        path: the file; it is made where ``create`` is set.
        writable: whether :meth:`writing` may be used.
        create: make a new, empty one.
        schema: its tables, and no other.

    Raises:
        ArtifactNotFoundError: no such file.
        CorruptArtifactError: not a database of this format.
        UnsupportedVersionError: a newer version of the format.
        ArtifactError: ``writable``, and the file is a link.
    """

    def __init__(
        self, path: Path, *, writable: bool = False, create: bool = False, schema: Schema = META
    ) -> None:
        self.path = path
        self.writable = writable
        self._schema = schema
        self._idle: list[Connection] = []
        weakref.finalize(self, _close_all, self._idle)  # an index may be left open until the end
        self._lock = threading.Lock()
        self._closed = False
        if create:
            self._create()
        try:
            with self.reading() as connection:  # so that nobody changes the size meanwhile
                _check_size(connection, path)
        except BaseException:
            self.close()
            raise

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

    def vacuum(self, file: tuple[int, int] | None) -> None:
        """Give the space of what was deleted back to the disk; not of another file than ``file``,
        which a build may have put in its place."""
        with self._connection() as connection:
            if connection.file != file:
                return
            connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 1)  # the copy SQLite makes
            try:
                connection.execute("VACUUM")
            finally:
                connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)

    def close(self) -> None:
        """Close every connection, those in use when they are given back."""
        with self._lock:
            self._closed = True
            idle = self._idle.copy()
            self._idle.clear()
        _close_all(idle)

    @contextlib.contextmanager
    def _connection(self, begin: str | None = None) -> Iterator[Connection]:
        """A connection of one's own, in a transaction where ``begin`` begins one; undone at the
        end where it was not committed."""
        connection = self._idle_one()
        try:
            connection = connection or self._connect()
            while begin and not self._begun(connection, begin):
                connection.close()
                connection = None
                connection = self._connect()
            yield connection
        except sqlite3.DatabaseError as error:
            raise _KIND.explain(error, self.path) from error
        finally:
            if connection is not None:
                self._give_back(connection)

    def _idle_one(self) -> Connection | None:
        with self._lock:
            if self._closed:
                raise InvalidInputError(f"the index {self.path.parent} is closed; open it again")
            return self._idle.pop() if self._idle else None

    def _create(self) -> None:
        with (
            _KIND.explained(self.path),
            contextlib.closing(connect(self.path, _KIND, writable=True, new=True)) as connection,
        ):
            connection.execute(f"PRAGMA page_size = {PAGE}")
            _KIND.mark(connection)
            with transaction(connection):
                for statement in self._schema.values():
                    connection.execute(statement)

    def _connect(self) -> Connection:
        try:
            return connect(self.path, _KIND, writable=self.writable)
        except FileNotFoundError:  # or a build is putting it there
            time.sleep(TWO_RENAMES)
            return connect(self.path, _KIND, writable=self.writable)

    def _begun(self, connection: Connection, begin: str) -> bool:
        """Begin a transaction; False where another file is at the path than ``connection`` has
        open. Where none is there, the folder was removed: what is open can still be read.
        """
        check_beside(connection.place)
        connection.execute(begin)
        try:
            check_schema(connection, self._schema, self.path)  # BEGIN alone locks nothing
        except (sqlite3.Error, UnicodeDecodeError) as error:
            raise _KIND.explain(error, self.path) from error
        most = _MOST_LIMIT
        with contextlib.suppress(FileNotFoundError):  # removed, and open all the same
            status = self.path.stat()
            if (status.st_dev, status.st_ino) != connection.file:
                return False
            if not self.writable:  # no value is longer than its file, whatever a page says of it
                most = max(status.st_size, _LEAST_LIMIT)
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, min(most, _MOST_LIMIT))
        return True

    def _give_back(self, connection: Connection) -> None:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        with self._lock:
            if not self._closed:
                self._idle.append(connection)
                return
        connection.close()


def _close_all(connections: Sequence[Connection]) -> None:
    for connection in connections:
        connection.close()


@contextlib.contextmanager
def held(path: Path) -> Iterator[None]:
    """Keep everybody off the database at ``path``, if there is one, while its folder is replaced.

    Raises:
        ArtifactError: somebody has used it for a minute on end.
    """
    connection = None
    if os.name != "nt":  # there an open file keeps its folder in place anyway
        with contextlib.suppress(ArtifactError):  # damaged, or may not be written: nobody writes it
            connection = connect(path, _KIND, writable=False)
    if connection is None:
        yield
        return
    with contextlib.closing(connection):
        try:
            connection.execute("PRAGMA query_only = OFF")
            connection.execute("BEGIN EXCLUSIVE")
        except sqlite3.DatabaseError as error:
            if error_code(error) == sqlite3.SQLITE_BUSY:
                raise _KIND.explain(error, path) from error
        yield


def damaged(found: str, expected: str) -> CorruptArtifactError:
    """The error for a database that holds something else than it should."""
    return CorruptArtifactError(
        f"the index's database has {found}, expected {expected}; copy the index anew or build it "
        "again"
    )


def get_meta(connection: sqlite3.Connection, key: str, default: str | None = None) -> str:
    """The value of ``key``; ``default`` where there is none.

    Raises:
        CorruptArtifactError: there is none, though every index has it, or it is no text.
    """
    stored = connection.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
    if stored is None and default is not None:
        return default
    if stored is None or not isinstance(stored[0], str):
        raise damaged(f"no {key!r}, or another thing there", "a text")
    return stored[0]


def set_meta(connection: sqlite3.Connection, key: str, value: str | bytes) -> None:
    """Set ``key`` to ``value``."""
    connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, value))


def get_numbers(connection: sqlite3.Connection, key: str, width: int) -> NDArray[np.int64]:
    """The records of ``width`` whole numbers at ``key``, int64 (records, width).

    Raises:
        CorruptArtifactError: something else is there.
    """
    stored = connection.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
    size = width * _NUMBER.itemsize
    if stored is None or not isinstance(stored[0], bytes) or len(stored[0]) % size:
        raise damaged(f"no {key!r}, or another thing there", f"records of {width} numbers")
    return np.frombuffer(stored[0], _NUMBER).astype(np.int64).reshape(-1, width)


def set_numbers(connection: sqlite3.Connection, key: str, numbers: NDArray[np.int64]) -> None:
    """Set ``key`` to whole numbers."""
    set_meta(connection, key, numbers.astype(_NUMBER).tobytes())


def generation_of(connection: sqlite3.Connection) -> int:
    """How many commits the index has seen.

    Raises:
        CorruptArtifactError: what stands there is no number of theirs.
    """
    stored = get_meta(connection, "generation")
    if not _GENERATION.fullmatch(stored):
        raise damaged(f"the generation {stored[:40]!r}", "a number")
    return int(stored)


def next_generation(connection: sqlite3.Connection) -> None:
    """Mark the state as changed, so that readers load it anew."""
    set_meta(connection, "generation", str(generation_of(connection) + 1))


def language_of(connection: sqlite3.Connection) -> str:
    """The language of the texts; AUTO before the first.

    Raises:
        CorruptArtifactError: none that is known.
    """
    language, known = get_meta(connection, "language"), (NONE, AUTO, *LANGUAGES)
    if language not in known:
        raise damaged(f"the language {language[:40]!r}", f"one of {', '.join(known)}")
    return language


def is_vectors_name(name: str) -> bool:
    """Whether a vector file of ours can have this name."""
    return _VECTORS.fullmatch(name) is not None


def vectors_name(connection: sqlite3.Connection) -> str:
    """The name of the vector file in the index's folder.

    Raises:
        CorruptArtifactError: it is no such name, and might lead elsewhere.
    """
    name = get_meta(connection, "vectors")
    if not is_vectors_name(name):
        raise damaged(f"the vector file {name[:80]!r}", "a name such as 'vectors-0.u8'")
    return name


def check_structure(connection: sqlite3.Connection, path: Path) -> None:
    """Let SQLite read the whole database: whether rows and pages are in their order, and whether
    its own index of ids, by which documents are looked up, leads to the rows.

    Raises:
        CorruptArtifactError: something is not; says what.
    """
    (answer,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
    if answer != "ok":
        raise CorruptArtifactError(f"{path} is damaged: {answer}; copy the index anew")


def _check_size(connection: sqlite3.Connection, path: Path) -> None:
    """SQLite itself notices a missing page only when it reads it."""
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    (size,) = connection.execute("PRAGMA page_size").fetchone()
    bytes_there = plain_size(path)
    if bytes_there < pages * size:
        raise CorruptArtifactError(
            f"{path} has {bytes_there} bytes, expected {pages * size}: it is truncated; "
            "copy the index anew or build it again"
        )

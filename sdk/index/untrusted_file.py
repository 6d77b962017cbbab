"""Check an index's SQLite file from elsewhere before it is queried.

A file can do more than hold wrong rows. A view or an expression in its schema is code that runs
inside a query. A journal beside it is written into it when it is opened, and can name any file,
which SQLite then deletes. A ``-wal`` file is read in its place. So the bytes of its header and what
is beside it come first, then the schema, which must be the one we write, to the letter; and every
connection has the limits of :func:`harden`.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sqlite3
import struct
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from io import FileIO
from pathlib import Path

from pocketquery.sdk.errors import ArtifactNotFoundError, CorruptArtifactError
from pocketquery.sdk.plain_files import check_own_file, has_one_name, plain_size
from pocketquery.sdk.sqlite_file import SqliteKind, distrust_schema, error_code, identity

__all__ = [
    "Connection",
    "Schema",
    "check_beside",
    "check_schema",
    "connect",
    "harden",
    "sha256_of_first",
]

Schema = Mapping[str, str]
"""The SQL of tables by their names."""

_CHUNK_BYTES = 1 << 20
_MAGIC = b"SQLite format 3\0"
_ROLLBACK_JOURNAL, _UTF8 = (1, 1), 1
_HEADER = struct.Struct(">16s2xBB36xII4xI28x")  # what is checked of the first 100 bytes
_SUPER_JOURNAL = bytes.fromhex("d9d505f920a163d7")  # ends a journal that names another file
_MOST_OF_SCHEMA = 200  # tables and indexes; ours are a dozen, and one that is not ours is enough
_LIMITS = {
    sqlite3.SQLITE_LIMIT_SQL_LENGTH: 1_000_000,
    sqlite3.SQLITE_LIMIT_COLUMN: 32,
    sqlite3.SQLITE_LIMIT_COMPOUND_SELECT: 8,
    sqlite3.SQLITE_LIMIT_ATTACHED: 0,
    sqlite3.SQLITE_LIMIT_TRIGGER_DEPTH: 1,
}


@dataclass
class _Readers:
    """Our connections to one file, and the plain handles that were used to read it beside them."""

    connections: int = 0
    idle: list[FileIO] = field(default_factory=list)


_readers: dict[tuple[int, int], _Readers] = {}
_readers_lock = threading.RLock()  # a database that is collected meanwhile closes its connections


class Connection(sqlite3.Connection):
    """A connection that knows which file it has open.

    Attributes:
        file: the file's identity, whatever path leads to it.
        place: its path without links; SQLite's own files lie beside it there.
    """

    file: tuple[int, int] | None = None
    place: str = ""

    def close(self) -> None:
        """Close the file."""
        super().close()
        file, self.file = self.file, None
        if file is not None:
            _release(file)


def connect(path: Path, kind: SqliteKind, *, writable: bool, new: bool = False) -> Connection:
    """Open the file at ``path``, hardened, or make a new, empty one.

    A reader opens for writing too (where it may): only so can SQLite undo the commit in which a
    writer was killed. What a reader runs is kept from writing by ``query_only``.

    Raises:
        ArtifactNotFoundError: no such file.
        CorruptArtifactError: no database of this kind, or something is beside it that we
            never leave.
        UnsupportedVersionError: of a newer release.
        ArtifactError: to be written, and a link.
    """
    mode, place = "rwc", os.path.realpath(path)
    if not new:
        if writable:
            check_own_file(path)
        plain_size(path)
        check_beside(place)
        # Through a link nothing is written, not even to undo a commit.
        mode = "rw" if has_one_name(path) else "ro"
    file = identity(path)  # before opening: a file that comes between is noticed later
    with _readers_lock:
        if file is not None:
            _readers.setdefault(file, _Readers()).connections += 1
    try:
        if not new:
            _check_header(path, kind)
        try:
            connection = kind.open(path, mode, factory=Connection)
        except sqlite3.OperationalError as error:
            if new or error_code(error) != sqlite3.SQLITE_CANTOPEN or identity(path) == file:
                raise
            raise ArtifactNotFoundError(f"{path} was moved while it was opened") from error
        assert isinstance(connection, Connection)
    except BaseException:
        if file is not None:
            _release(file)
        raise
    connection.file, connection.place = file, place
    try:
        harden(connection)
        connection.execute("PRAGMA secure_delete = ON")
        connection.execute("PRAGMA cache_spill = OFF")
        connection.execute(f"PRAGMA query_only = {not writable}")
    except BaseException:
        connection.close()
        raise
    return connection


def harden(connection: sqlite3.Connection) -> None:
    """Keep what a file's schema says from running as code, and its sizes within bounds."""
    distrust_schema(connection)
    for limit, most in _LIMITS.items():
        connection.setlimit(limit, most)


def check_beside(place: str) -> None:
    """Refuse what may not lie beside the database at ``place``, a path without links.

    Raises:
        CorruptArtifactError: a ``-wal`` file, which would be read in the database's place; a
            journal that is a link, or names another file, which SQLite would delete.
    """
    if os.path.lexists(f"{place}-wal"):
        raise CorruptArtifactError(
            f"{place}-wal is beside the database, which is none of this kind; expected no such "
            "file. Copy the index anew"
        )
    journal = f"{place}-journal"
    if not os.path.lexists(journal):
        return
    try:
        wrong = not has_one_name(Path(journal)) or _names_another(Path(journal))
    except FileNotFoundError:  # its writer has committed
        return
    if wrong:
        raise CorruptArtifactError(
            f"{journal} is a link or names another file; expected the journal of one database. "
            "Copy the index anew"
        )


def check_schema(connection: sqlite3.Connection, schema: Schema, path: Path) -> None:
    """Compare the database's schema with ``schema``, before any other query reads it.

    Raises:
        CorruptArtifactError: another table, a view, a trigger, an index, another SQL.
    """
    # Read as rows and no further than ours could reach: nothing of it runs, and it ends.
    entries = connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_master").fetchmany(
        _MOST_OF_SCHEMA
    )
    tables = set()
    for kind, name, table, sql in entries:
        if kind == "table" and name == table and sql == schema.get(name):
            tables.add(name)
        elif kind != "index" or sql is not None or table not in schema:  # of a UNIQUE of ours
            raise CorruptArtifactError(
                f"{path} has the {str(kind)[:20]} {str(name)[:60]!r}, which we do not write; "
                f"expected the tables {', '.join(schema)}. Copy the index anew or build it again"
            )
    if len(tables) != len(schema):
        raise CorruptArtifactError(
            f"{path} lacks the table {sorted(set(schema) - tables)[0]!r}; copy the index anew or "
            "build it again"
        )


def sha256_of_first(path: Path, size: int) -> str:
    """Hexadecimal SHA-256 of the first ``size`` bytes of a file, which may be a database in use."""
    digest = hashlib.sha256()
    with _raw(path) as file:
        while size > 0 and (piece := file.read(min(size, _CHUNK_BYTES))):
            digest.update(piece)
            size -= len(piece)
    return digest.hexdigest()


def _names_another(journal: Path) -> bool:
    with journal.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(size - len(_SUPER_JOURNAL), 0))
        return file.read() == _SUPER_JOURNAL


def _check_header(path: Path, kind: SqliteKind) -> None:
    with _raw(path) as file:
        header = file.read(_HEADER.size)
    if len(header) < _HEADER.size or not header.startswith(_MAGIC):
        raise kind.damaged(path)
    _, written, read, encoding, version, application_id = _HEADER.unpack(header)
    kind.check_header(path, application_id, version)
    if (written, read) != _ROLLBACK_JOURNAL or encoding != _UTF8:
        raise CorruptArtifactError(
            f"{path} has a write-ahead log or another encoding than UTF-8, which we do not write; "
            "copy the index anew or build it again"
        )


@contextlib.contextmanager
def _raw(path: Path) -> Iterator[FileIO]:
    """The file's bytes beside SQLite.

    POSIX drops all locks of a process on a file as soon as the process closes any descriptor of
    it, those of SQLite's connections too. So while one of ours is open, a handle is kept for the
    next who reads, and closed with the last connection.
    """
    file = identity(path)
    with _readers_lock:
        readers = None if file is None else _readers.get(file)
        handle = readers.idle.pop() if readers and readers.idle else None
    if handle is None:
        handle = path.open("rb", buffering=0)  # what a buffer holds may be old
    status = os.fstat(handle.fileno())
    try:
        handle.seek(0)
        yield handle
    finally:
        with _readers_lock:
            readers = _readers.get((status.st_dev, status.st_ino))
            if readers is None:
                handle.close()
            else:
                readers.idle.append(handle)


def _release(file: tuple[int, int]) -> None:
    with _readers_lock:
        readers = _readers[file]
        readers.connections -= 1
        if readers.connections == 0:
            del _readers[file]
            for handle in readers.idle:
                handle.close()

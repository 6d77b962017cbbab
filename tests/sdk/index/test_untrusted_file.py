from __future__ import annotations

import contextlib
import sqlite3
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from pocketquery.sdk.errors import ArtifactError, CorruptArtifactError, UnsupportedVersionError
from pocketquery.sdk.index.database import Database, get_meta, held, set_meta
from pocketquery.sdk.index.untrusted_file import harden, sha256_of_first
from tests.sdk.index_damage import execute

SUPER_JOURNAL = bytes.fromhex("d9d505f920a163d7")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    database = Database(tmp_path / "data.sqlite", writable=True, create=True)
    with database.writing() as connection:
        for number in range(500):
            set_meta(connection, f"colour {number}", "blue" * 100)
    database.close()
    return tmp_path / "data.sqlite"


def journal(path: Path) -> Path:
    return path.with_name(f"{path.name}-journal")


def leave_a_journal(path: Path) -> None:
    """What a writer killed inside its commit leaves; the first page is rolled back to itself."""
    data = path.read_bytes()
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA cache_size = 1")
    connection.execute("BEGIN IMMEDIATE")
    connection.execute("UPDATE meta SET value = 'red'")
    changed, undo = path.read_bytes(), journal(path).read_bytes()
    connection.execute("ROLLBACK")
    connection.close()
    assert path.read_bytes() == data
    path.write_bytes(changed)
    journal(path).write_bytes(undo)


def test_a_commit_cut_short_is_undone(path: Path) -> None:
    leave_a_journal(path)
    with contextlib.closing(Database(path)) as one, one.reading() as connection:
        assert get_meta(connection, "colour 3") == "blue" * 100
    assert not journal(path).exists()


def test_a_journal_that_names_a_file_does_not_delete_it(path: Path, tmp_path: Path) -> None:
    """SQLite takes the name for that of a journal over several databases, long done with."""
    precious = tmp_path / "precious"
    precious.write_text("precious")
    leave_a_journal(path)
    name = str(precious).encode()
    with journal(path).open("ab") as file:
        file.write(struct.pack(">I", 2**30 // 4096 + 1) + name)
        file.write(struct.pack(">II", len(name), sum(name)) + SUPER_JOURNAL)
    for writable in (False, True):
        with pytest.raises(CorruptArtifactError, match="names another file"):
            Database(path, writable=writable)
    with held(path):  # a build that takes its place need not wait for it
        pass
    assert precious.read_text() == "precious"


def test_a_journal_that_comes_later_is_looked_at_too(path: Path) -> None:
    database = Database(path)
    journal(path).write_bytes(b"x" * 600 + SUPER_JOURNAL)
    with pytest.raises(CorruptArtifactError, match="names another file"), database.reading():
        pass
    database.close()


def test_a_log_is_not_read_in_the_databases_place(path: Path) -> None:
    log = path.with_name(f"{path.name}-wal")
    log.write_bytes(b"")
    with pytest.raises(CorruptArtifactError, match="-wal is beside"):
        Database(path)
    log.unlink()
    execute(path, "PRAGMA journal_mode = WAL")
    with pytest.raises(CorruptArtifactError, match="write-ahead log"):
        Database(path)


def test_through_a_link_nothing_is_undone(path: Path, tmp_path: Path) -> None:
    """Another name's journal is not this file's: rolled back, it would overwrite the other."""
    (tmp_path / "hostile").mkdir()
    link = tmp_path / "hostile" / "data.sqlite"
    link.hardlink_to(path)
    leave_a_journal(path)
    journal(path).rename(journal(link))
    before = path.read_bytes()
    with pytest.raises(ArtifactError):
        Database(link)
    with pytest.raises(ArtifactError, match="is a link"):
        Database(link, writable=True)
    assert path.read_bytes() == before


@pytest.mark.parametrize("kind", ["link", "second name"])
def test_a_link_can_be_read(path: Path, tmp_path: Path, kind: str) -> None:
    link = tmp_path / "link.sqlite"
    (link.symlink_to if kind == "link" else link.hardlink_to)(path)
    with contextlib.closing(Database(link)) as one, one.reading() as connection:
        assert get_meta(connection, "colour 3") == "blue" * 100
    with pytest.raises(ArtifactError, match="is a link"):
        Database(link, writable=True)


@pytest.mark.parametrize(
    "sql",
    [
        "CREATE VIEW v AS SELECT * FROM meta",
        "CREATE TRIGGER t AFTER INSERT ON meta BEGIN DELETE FROM meta; END",
        "CREATE INDEX i ON meta (value)",
        "CREATE INDEX i ON meta (abs(value))",
        "CREATE TABLE other (x)",
        "CREATE TABLE other (x CHECK (x IN (1, 2)))",
        "CREATE TABLE other (x, y AS (zeroblob(x)))",
        "CREATE VIRTUAL TABLE other USING fts5(x)",
        "ALTER TABLE meta ADD COLUMN more",
        "ALTER TABLE meta RENAME TO other",
        "DROP TABLE meta",
        "ANALYZE",
    ],
)
def test_a_schema_is_ours_to_the_letter(path: Path, sql: str) -> None:
    execute(path, sql)
    with pytest.raises(CorruptArtifactError, match=r"data\.sqlite (has the|lacks the)"):
        Database(path)


def test_a_view_is_refused_before_anything_is_asked_of_it(path: Path) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("DROP TABLE meta")
    connection.execute(
        "CREATE VIEW meta AS WITH RECURSIVE n(key) AS (SELECT 0 UNION ALL SELECT key + 1 FROM n)"
        " SELECT key, key AS value FROM n"  # without end
    )
    connection.close()
    with pytest.raises(CorruptArtifactError, match="has the view 'meta'"):
        Database(path)


def test_a_schema_changed_while_it_is_open_is_noticed(path: Path) -> None:
    database = Database(path)
    with database.reading() as connection:
        assert get_meta(connection, "colour 3") == "blue" * 100
    execute(path, "CREATE VIEW v AS SELECT 1")
    with pytest.raises(CorruptArtifactError, match="the view 'v'"), database.reading():
        pass
    database.close()


def test_a_schema_of_thousands_is_not_read_to_its_end(path: Path) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("BEGIN")
    for number in range(3000):
        connection.execute(f"CREATE VIEW v{number} AS SELECT 1")
    connection.execute("COMMIT")
    connection.close()
    with pytest.raises(CorruptArtifactError, match="has the view 'v0'"):
        Database(path)


def test_limits_and_the_schemas_trust() -> None:
    connection = sqlite3.connect(":memory:")
    harden(connection)
    assert connection.execute("PRAGMA trusted_schema").fetchone() == (0,)
    assert connection.execute("PRAGMA cell_size_check").fetchone() == (1,)
    with pytest.raises(sqlite3.OperationalError, match="attached"):
        connection.execute("ATTACH ':memory:' AS other")
    with pytest.raises(sqlite3.DataError):
        connection.execute("SELECT " + " " * 1_000_000 + "1")
    connection.close()


@pytest.mark.parametrize("version", [3, 2**31 - 1])
def test_a_newer_version_is_refused(path: Path, version: int) -> None:
    execute(path, f"PRAGMA user_version = {version}")
    with pytest.raises(UnsupportedVersionError, match=str(version)):
        Database(path)


def test_a_text_that_is_not_utf8_is_damage(path: Path) -> None:
    execute(path, "UPDATE meta SET value = CAST(x'41eda080' AS TEXT) WHERE key = 'colour 3'")
    database = Database(path)
    with pytest.raises(CorruptArtifactError, match="UTF-8"), database.reading() as reading:
        get_meta(reading, "colour 3")
    database.close()


@pytest.mark.parametrize(
    ("sound", "damaged"),
    [(b"CREATE TABLE meta", b"CREATE \x89ABLE meta"), (b"tablemetameta", b"tablem\x89tameta")],
)
def test_a_schema_that_is_not_utf8_is_damage(path: Path, sound: bytes, damaged: bytes) -> None:
    """Python cannot read what SQLite says of it."""
    data = path.read_bytes()
    assert sound in data
    path.write_bytes(data.replace(sound, damaged))
    with pytest.raises(CorruptArtifactError, match="damaged or not the database"):
        Database(path)


def test_no_value_is_longer_than_its_file(path: Path) -> None:
    """A page can claim a gigabyte; SQLite would make room for it before reading a byte."""
    database = Database(path)
    with database.reading() as connection:
        most = connection.getlimit(sqlite3.SQLITE_LIMIT_LENGTH)
        with pytest.raises(sqlite3.DataError):
            connection.execute("SELECT zeroblob(?)", (most + 1,)).fetchone()
    assert most == 1 << 25
    database.close()


_LOCK = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], timeout=0, isolation_level=None)
try:
    connection.execute("BEGIN IMMEDIATE")
except sqlite3.OperationalError as error:
    print(error)
else:
    print("locked by nobody")
"""


def test_reading_the_bytes_beside_sqlite_keeps_its_locks(path: Path) -> None:
    """POSIX drops a process's locks on a file when it closes any descriptor of it."""

    def another_process() -> str:
        command = [sys.executable, "-c", _LOCK, str(path)]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    database = Database(path, writable=True)
    with database.writing():
        for _ in range(3):
            assert len(sha256_of_first(path, 1000)) == 64
        Database(path).close()
        assert another_process() == "database is locked"
    assert another_process() == "locked by nobody"
    before = sha256_of_first(path, 10**9)
    with database.writing() as connection:
        set_meta(connection, "colour 3", "green")
    assert sha256_of_first(path, 10**9) != before  # nothing is kept of an earlier reading
    database.close()


def test_thousands_of_looks_at_the_schema_on_one_connection(path: Path) -> None:
    """SQLite counts a kept statement's steps over all its runs: a bound on them met sound files."""
    with contextlib.closing(Database(path)) as database:
        for _ in range(3000):
            with database.reading():
                pass

"""A kind of SQLite file: made, recognised, changed all or nothing, and its errors."""

from __future__ import annotations

import contextlib
import dataclasses
import re
import sqlite3
from pathlib import Path

import pytest

from pocketquery import sdk
from pocketquery.client.trusted_releases import TrustedReleases
from pocketquery.sdk.doctor.findings import Severity
from pocketquery.sdk.doctor.machine import check_machine
from pocketquery.sdk.errors import (
    ArtifactError,
    CorruptArtifactError,
    PocketQueryError,
    UnsupportedVersionError,
)
from pocketquery.sdk.sqlite_file import SqliteKind, check_sqlite, is_new, transaction
from tests.sdk.small_index import make_index

KIND = SqliteKind(
    name="a list of words",
    application_id=0x50515454,
    version=2,
    mend="write it anew",
    elsewhere="name another file",
    busy="stop the other one",
)
TABLES = ("CREATE TABLE words (word TEXT UNIQUE)",)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "words.sqlite"
    with contextlib.closing(KIND.open(path, "rwc")) as connection, transaction(connection):
        assert is_new(connection)
        assert KIND.prepare(connection, path, TABLES) == 2
    return path


def test_a_file_that_was_made_is_recognised_and_not_made_again(path: Path) -> None:
    before = path.read_bytes()
    with contextlib.closing(KIND.open(path, "rw")) as connection, transaction(connection):
        assert not is_new(connection)
        assert KIND.prepare(connection, path, TABLES) == 2
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("version", "problem"),
    [(1, "reads from 2 on; name another"), (3, "reads up to 2; upgrade")],
)
def test_another_version_is_refused(path: Path, version: int, problem: str) -> None:
    with contextlib.closing(KIND.open(path, "rw")) as connection:
        connection.execute(f"PRAGMA user_version = {version}")
        said = f"{path} is a list of words of version {version}, this release {problem}"
        with pytest.raises(UnsupportedVersionError, match=said):
            KIND.check(connection, path)


def test_another_kind_is_refused_as_it_is(path: Path) -> None:
    before = path.read_bytes()
    other = dataclasses.replace(KIND, name="a list of numbers", application_id=1)
    said = r"another program's database, not a list of numbers; name another file"
    with (
        contextlib.closing(other.open(path, "rw")) as connection,
        pytest.raises(CorruptArtifactError, match=said),
        transaction(connection),
    ):
        other.prepare(connection, path, TABLES)
    assert path.read_bytes() == before


def test_a_transaction_is_all_or_nothing(path: Path) -> None:
    with contextlib.closing(KIND.open(path, "rw")) as connection:
        changes = "INSERT INTO words VALUES (?)"
        with pytest.raises(sqlite3.IntegrityError), transaction(connection):
            connection.executemany(changes, [("lost",), ("twice",), ("twice",)])
        assert not connection.in_transaction
        with transaction(connection):
            connection.execute(changes, ("kept",))
        assert connection.execute("SELECT word FROM words").fetchall() == [("kept",)]


def test_damage_is_told_with_what_to_do(path: Path) -> None:
    said = rf"{path} is damaged or not a list of words \(.+\); write it anew"
    with contextlib.closing(KIND.open(path, "rw")) as connection:
        connection.execute("INSERT INTO words VALUES (CAST(x'ff' AS TEXT))")
        with pytest.raises(CorruptArtifactError, match=said), KIND.explained(path):
            connection.execute("SELECT word FROM words").fetchall()  # no UTF-8
    path.write_bytes(path.read_bytes()[:4096])
    with (
        contextlib.closing(KIND.open(path, "rw")) as connection,
        pytest.raises(CorruptArtifactError, match=said),
        KIND.explained(path),
    ):
        connection.execute("SELECT word FROM words").fetchall()


def test_only_a_file_from_elsewhere_is_damaged_where_our_statements_fail(path: Path) -> None:
    for trusted, kind in ((True, ArtifactError), (False, CorruptArtifactError)):
        words = dataclasses.replace(KIND, trusted=trusted)
        with contextlib.closing(words.open(path, "rw")) as connection:
            for statement in ("SELECT a FROM nowhere", "INSERT INTO words VALUES (1), (1)"):
                with pytest.raises(ArtifactError) as caught, words.explained(path):
                    connection.execute(statement)
                assert type(caught.value) is kind


def test_a_locked_file_and_a_closed_connection_are_no_damage(path: Path) -> None:
    with contextlib.closing(KIND.open(path, "rw")) as holder, transaction(holder):
        connection = KIND.open(path, "rw", seconds=0)
        with (
            pytest.raises(ArtifactError, match=r"in use by .*nothing was changed: stop the other"),
            KIND.explained(path),
            transaction(connection),
        ):
            pass
        connection.close()
    for error in (sqlite3.ProgrammingError("closed"), sqlite3.InterfaceError("misuse")):
        assert type(KIND.explain(error, path)) is ArtifactError


def test_a_sqlite_that_is_too_old_is_named(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_index(tmp_path / "index")
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 31, 1))
    monkeypatch.setattr(sqlite3, "sqlite_version", "3.31.1")
    for use in (
        check_sqlite,
        lambda: KIND.open(path, "rw"),
        lambda: sdk.open_index(tmp_path / "index"),
        lambda: sdk.create_index(tmp_path / "new", space_id="space", dimension=3),
        lambda: TrustedReleases(public_key=bytes(32)),
    ):
        with pytest.raises(PocketQueryError, match=r"SQLite.*3\.31\.1; expected 3\.32"):
            use()
    (found,) = [one for one in check_machine() if one.name == "sqlite"]
    assert found.state == Severity.BROKEN
    assert "3.31.1; expected 3.32 or later" in found.found
    assert "Python" in found.remedy
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 32, 0))
    sdk.open_index(tmp_path / "index").close()


def test_ours_run_with_the_least_sqlite() -> None:
    """Words of later releases: UPDATE FROM (3.33), RETURNING and DO UPDATE without a target
    (3.35), STRICT (3.37)."""
    folder = Path(sdk.__file__).parents[1]
    update_from = r"\bUPDATE \w+ SET [^;)]*?\"\s*\"? FROM \w"
    later = re.compile(
        update_from + r"|\bRETURNING\b|ON CONFLICT DO UPDATE|\) STRICT\b|->>|DROP COLUMN|\biif\("
    )
    for package in ("sdk", "client", "server", "distill"):
        for file in set((folder / package).rglob("*.py")) - set(
            (folder / "sdk" / "js").rglob("*.py")
        ):
            assert not later.search(file.read_text("utf-8")), file

from __future__ import annotations

import contextlib
import threading
from pathlib import Path

import pytest

from pocketquery.sdk.errors import (
    ArtifactError,
    ArtifactNotFoundError,
    CorruptArtifactError,
    InvalidInputError,
)
from pocketquery.sdk.index.database import Database, get_meta, held, set_meta


@pytest.fixture
def path(tmp_path: Path) -> Path:
    database = Database(tmp_path / "data.sqlite", writable=True, create=True)
    with database.writing() as connection:
        set_meta(connection, "colour", "blue")
    database.close()
    return tmp_path / "data.sqlite"


def test_a_commit_is_kept_and_a_failure_undone(path: Path) -> None:
    database = Database(path, writable=True)
    with pytest.raises(ZeroDivisionError), database.writing() as connection:
        set_meta(connection, "colour", str(1 / 0))
    with database.reading() as connection:
        assert get_meta(connection, "colour") == "blue"
    with database.writing() as connection:
        set_meta(connection, "colour", "red")
    database.close()
    with contextlib.closing(Database(path)) as one, one.reading() as connection:
        assert get_meta(connection, "colour") == "red"


def test_a_reader_keeps_its_snapshot(path: Path) -> None:
    database = Database(path, writable=True)
    started = threading.Event()

    def write() -> None:
        started.set()
        with database.writing() as connection:
            set_meta(connection, "colour", "red")

    writer = threading.Thread(target=write)
    with database.reading() as connection:
        assert get_meta(connection, "colour") == "blue"
        writer.start()
        started.wait()
        assert get_meta(connection, "colour") == "blue"
    writer.join()
    with database.reading() as connection:
        assert get_meta(connection, "colour") == "red"
    database.close()


def test_a_reader_cannot_write(path: Path) -> None:
    database = Database(path)
    with pytest.raises(InvalidInputError, match="writable"), database.writing():
        pass
    with pytest.raises(ArtifactError, match="read-only"), database.reading() as connection:
        set_meta(connection, "colour", "red")
    database.close()


def test_a_missing_value_is_damage(path: Path) -> None:
    database = Database(path)
    with pytest.raises(CorruptArtifactError, match="'shape'"), database.reading() as connection:
        get_meta(connection, "shape")
    database.close()


def test_a_missing_file_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(ArtifactNotFoundError, match="nothing"):
        Database(tmp_path / "nothing", writable=True)
    assert not (tmp_path / "nothing").exists()


@pytest.mark.parametrize("name", ["a b", "per%cent", "question?mark", "hash#", "ü€"])
def test_any_path_will_do(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    Database(tmp_path / name / "data.sqlite", writable=True, create=True).close()
    Database(tmp_path / name / "data.sqlite").close()
    assert [file.name for file in (tmp_path / name).iterdir()] == ["data.sqlite"]


def test_a_closed_database_says_so(path: Path) -> None:
    database = Database(path)
    with database.reading() as connection:
        database.close()  # the connection in use is closed when it is given back
        assert get_meta(connection, "colour") == "blue"
    with pytest.raises(InvalidInputError, match="closed"), database.reading():
        pass


def put_another(path: Path, colour: str) -> None:
    """What a build does: a new file under the old name."""
    made = Database(path.with_suffix(".new"), writable=True, create=True)
    with made.writing() as connection:
        set_meta(connection, "colour", colour)
    made.close()
    with held(path):
        path.with_suffix(".new").replace(path)


def test_every_transaction_is_on_the_file_that_is_there(path: Path) -> None:
    database = Database(path, writable=True)
    with database.reading() as first, database.reading() as second:
        assert get_meta(first, "colour") == get_meta(second, "colour") == "blue"
    put_another(path, "green")
    with database.reading() as first, database.reading() as second:
        assert get_meta(first, "colour") == get_meta(second, "colour") == "green"
    put_another(path, "white")
    with database.writing() as connection:
        assert get_meta(connection, "colour") == "white"
        set_meta(connection, "colour", "red")
    with contextlib.closing(Database(path)) as one, one.reading() as connection:
        assert get_meta(connection, "colour") == "red"
    database.close()


def test_nothing_is_replaced_under_a_reader(path: Path) -> None:
    database = Database(path)
    builder = threading.Thread(target=put_another, args=(path, "green"))
    with database.reading():
        builder.start()
        builder.join(0.3)
        assert builder.is_alive()
        with (
            contextlib.closing(Database(path.with_suffix(".new"))) as one,
            one.reading() as connection,
        ):
            assert get_meta(connection, "colour") == "green"
    builder.join()
    with database.reading() as connection:
        assert get_meta(connection, "colour") == "green"
    database.close()


@pytest.mark.parametrize("content", [None, b"", b"no database"])
def test_what_is_no_database_holds_nobody_off(tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / "data.sqlite").write_bytes(content)
    with held(tmp_path / "data.sqlite"):
        pass


def test_a_transaction_that_cannot_begin_leaves_the_connection_usable(path: Path) -> None:
    database = Database(path)
    with database._connection() as connection:
        connection.execute("PRAGMA busy_timeout = 1")
    with held(path), pytest.raises(ArtifactError, match="locked"), database.reading():
        pass
    with database.reading() as connection:
        assert get_meta(connection, "colour") == "blue"
    database.close()

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pocketquery.sdk.errors import (
    ArtifactNotFoundError,
    CorruptArtifactError,
    UnsupportedVersionError,
)
from pocketquery.sdk.index.folder import verify_index
from pocketquery.sdk.index.index import open_index
from pocketquery.sdk.index.info import DATABASE
from tests.sdk.index_damage import execute
from tests.sdk.small_index import DIMENSION, SPACE, make_documents, make_index, vectors_of

VECTORS = "vectors-0.u8"
FILES = ["index.json", DATABASE, VECTORS]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    make_index(tmp_path / "index", 30)
    return tmp_path / "index"


def change(path: Path, edit: Callable[[dict[str, Any]], None]) -> None:
    fields = json.loads(path.read_text())
    edit(fields)
    path.write_text(json.dumps(fields))


def test_a_sound_index_is_verified(path: Path) -> None:
    info = verify_index(path)
    assert (info.space_id, info.dimension) == (SPACE, DIMENSION)
    assert set(info.files) == {DATABASE, VECTORS}


def test_the_same_documents_give_the_same_vectors_file(path: Path, tmp_path: Path) -> None:
    make_index(tmp_path / "again", 30)
    assert (path / VECTORS).read_bytes() == (tmp_path / "again" / VECTORS).read_bytes()


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    for look in (open_index, verify_index):
        with pytest.raises(ArtifactNotFoundError, match="nowhere"):
            look(tmp_path / "nowhere")


@pytest.mark.parametrize("name", FILES)
def test_a_missing_file_is_named(path: Path, name: str) -> None:
    (path / name).unlink()
    for look in (open_index, verify_index):
        with pytest.raises(ArtifactNotFoundError, match=name.replace(".", r"\.")):
            look(path)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("part", [0.0, 0.3, 0.99])
def test_a_truncated_file_is_named(path: Path, name: str, part: float) -> None:
    size = (path / name).stat().st_size
    with (path / name).open("r+b") as file:
        file.truncate(int(size * part))
    for look in (open_index, verify_index):
        with pytest.raises(CorruptArtifactError, match=name.replace(".", r"\.")):
            look(path)


@pytest.mark.parametrize("name", [DATABASE, VECTORS])
@pytest.mark.parametrize("part", [0.1, 0.5, 0.7, 0.999])
def test_one_changed_bit_is_found_by_verify(path: Path, name: str, part: float) -> None:
    data = bytearray((path / name).read_bytes())
    data[int(len(data) * part)] ^= 4
    (path / name).write_bytes(data)
    with pytest.raises(CorruptArtifactError, match=name.replace(".", r"\.")):
        verify_index(path)


def test_a_changed_vector_is_found_after_unsealed_writes_too(path: Path) -> None:
    index = open_index(path, writable=True)
    index.delete(["doc-3"])
    index._written = None  # as if the writer had been killed before sealing
    index.close()
    verify_index(path)
    data = bytearray((path / VECTORS).read_bytes())
    data[100] ^= 4
    (path / VECTORS).write_bytes(data)
    with pytest.raises(CorruptArtifactError, match="rows 0 to 24"):
        verify_index(path)


def test_rows_that_were_never_committed_are_no_damage(path: Path) -> None:
    with (path / VECTORS).open("ab") as file:
        file.write(b"x" * 100)
    verify_index(path)
    with open_index(path, writable=True) as index:
        more = make_documents(2, first=30)
        index.add(more, vectors_of(more))
        index.verify()


@pytest.mark.parametrize("data", [b"", b"{}", b"[]", b"\xff\xfe", b"not json", b'{"format": "x"}'])
def test_a_description_of_something_else(path: Path, data: bytes) -> None:
    (path / "index.json").write_bytes(data)
    with pytest.raises(CorruptArtifactError, match=r"index\.json"):
        open_index(path)


@pytest.mark.parametrize(
    ("version", "message"),
    [
        (3, r"format_version is 3.*update"),
        (1, r"format_version is 1.*build it again: pocketquery index --documents FOLDER --output "),
    ],
)
def test_another_format_is_refused(path: Path, version: int, message: str) -> None:
    change(path / "index.json", lambda fields: fields.update(format_version=version))
    with pytest.raises(UnsupportedVersionError, match=message):
        open_index(path)


@pytest.mark.parametrize("version", [1, 3])
def test_another_database_is_refused(path: Path, version: int) -> None:
    execute(path / DATABASE, f"PRAGMA user_version = {version}")
    with pytest.raises(UnsupportedVersionError, match=f"version {version}"):
        open_index(path)


@pytest.mark.parametrize("value", ["NULL", "'text'", "x'00'", "zeroblob(8 * 34 + 8)"])
def test_a_sum_of_the_vectors_that_is_none_is_refused(path: Path, value: str) -> None:
    execute(path / DATABASE, f"UPDATE meta SET value = {value} WHERE key = 'vector_sum'")
    with pytest.raises(CorruptArtifactError, match="vector_sum"):
        open_index(path)


def test_another_sum_of_the_vectors_is_found_by_verifying(path: Path) -> None:
    execute(path / DATABASE, "UPDATE meta SET value = zeroblob(0) WHERE key = 'vector_sum'")
    change(path / "index.json", lambda fields: fields.update(state="writing", generation=0))
    with pytest.raises(CorruptArtifactError, match="other sums of the vectors"):
        verify_index(path)


@pytest.mark.parametrize("language", ["de", "auto"])
def test_another_language_than_the_databases_is_refused(path: Path, language: str) -> None:
    change(path / "index.json", lambda fields: fields.update(language=language))
    with pytest.raises(CorruptArtifactError, match="language 'english'"):
        open_index(path)


def test_something_that_is_no_database(path: Path) -> None:
    (path / DATABASE).write_bytes(b"hello world " * 5000)
    with pytest.raises(CorruptArtifactError, match="damaged or not the database"):
        open_index(path)


def test_another_programs_database(path: Path) -> None:
    (path / DATABASE).unlink()
    execute(path / DATABASE, "CREATE TABLE t (x)")
    with pytest.raises(CorruptArtifactError, match="not the database of a pocketquery index"):
        open_index(path)


def test_files_of_two_indexes_mixed(path: Path, tmp_path: Path) -> None:
    make_index(tmp_path / "larger", 60)
    shutil.copy(tmp_path / "larger" / DATABASE, path / DATABASE)
    with pytest.raises(CorruptArtifactError):
        open_index(path)


def test_a_read_only_place(path: Path) -> None:
    for file in path.iterdir():
        file.chmod(0o444)
    path.chmod(0o555)
    try:
        with open_index(path) as index:
            assert len(index) == 30
            index.verify()
    finally:
        path.chmod(0o755)


def test_a_commit_cut_short_is_undone_by_the_next_reader(path: Path, tmp_path: Path) -> None:
    """What a kill inside SQLite's own commit leaves: changed pages and the journal to undo them."""
    connection = sqlite3.connect(path / DATABASE, isolation_level=None)
    connection.execute("PRAGMA cache_size = 1")  # so that changed pages reach the file at once
    connection.execute("BEGIN IMMEDIATE")
    connection.execute("DELETE FROM texts")
    connection.execute("UPDATE documents SET metadata = '{}'")
    connection.execute("DELETE FROM postings")
    shutil.copytree(path, tmp_path / "killed")
    connection.execute("ROLLBACK")
    connection.close()
    journal = tmp_path / "killed" / f"{DATABASE}-journal"
    assert journal.stat().st_size > 0
    with open_index(tmp_path / "killed") as index:
        assert index.get("doc-7") == make_documents(30)[7]
    assert not journal.exists()
    verify_index(tmp_path / "killed")


@pytest.mark.parametrize(
    "edit",
    [
        lambda f: f.update(generation=-1),
        lambda f: f.update(generation="2"),
        lambda f: f.update(generation=10**400),
        lambda f: f.update(format_version=0),
        lambda f: f.update(format_version=True),
        lambda f: f.update(state="open"),
        lambda f: f.pop("state"),
        lambda f: f.pop("language"),
        lambda f: f.update(language=""),
        lambda f: f.update(language="x" * 33),
        lambda f: f["space"].update(dimension=0),
        lambda f: f["space"].update(dimension=2**40),
        lambda f: f["space"].update(dimension=float(DIMENSION)),
        lambda f: f["space"].update(id=""),
        lambda f: f["space"].update(id=None),
        lambda f: f.update(files=[]),
        lambda f: f.update(files={}),
        lambda f: f["files"].pop(DATABASE),
        lambda f: f["files"].pop(VECTORS),
        lambda f: f["files"].update({"vectors-1.u8": f["files"][VECTORS]}),
        lambda f: f["files"][VECTORS].update(bytes=-1),
        lambda f: f["files"][VECTORS].update(sha256="z" * 64),
        lambda f: f.update(more="x" * 70_000),
    ],
)
def test_a_description_that_no_index_has(
    path: Path, edit: Callable[[dict[str, Any]], None]
) -> None:
    change(path / "index.json", edit)
    for look in (open_index, verify_index):
        with pytest.raises(CorruptArtifactError, match=r"index\.json"):
            look(path)


@pytest.mark.parametrize("depth", [10, 100_000])
def test_a_description_that_is_nested_deep(path: Path, depth: int) -> None:
    (path / "index.json").write_text("[" * depth)
    with pytest.raises(CorruptArtifactError, match=r"index\.json"):
        open_index(path)

"""What is sealed is what was written: never damage, nor what another index or writer holds."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from pocketquery.sdk.errors import ArtifactError, CorruptArtifactError
from pocketquery.sdk.index.database import Database
from pocketquery.sdk.index.folder import verify_index
from pocketquery.sdk.index.index import Index, open_index
from pocketquery.sdk.index.info import DATABASE, INFO, read_info
from pocketquery.sdk.index.untrusted_file import sha256_of_first
from tests.sdk.index_damage import VECTORS, edit_info, execute, snapshot
from tests.sdk.small_index import make_documents, make_index, vectors_of


@pytest.fixture
def path(tmp_path: Path) -> Path:
    make_index(tmp_path / "index", 30)
    return tmp_path / "index"


NAMES = [
    "../other/vectors-0.u8",
    "./vectors-0.u8",
    "/tmp/vectors-0.u8",
    "vectors-0.u8\n",
    "vectors-00.u8",
    "vectors-٣.u8",
    "vectors--1.u8",
    "vectors.u8",
    "vectors-0.u8/../vectors-0.u8",
    "documents.sqlite",
    "index.json",
    "",
]


@pytest.mark.parametrize("name", NAMES)
def test_vectors_have_a_plain_name(path: Path, tmp_path: Path, name: str) -> None:
    """The next add would cut off another index's vectors behind its own count."""
    make_index(tmp_path / "other", 60)
    before = snapshot(tmp_path / "other")
    for where in ("database", "index.json"):
        if where == "database":
            execute(path, "UPDATE meta SET value = ? WHERE key = 'vectors'", name)
        else:
            edit_info(
                path,
                lambda fields: fields["files"].update({name: fields["files"].pop(VECTORS)}),
            )
        for look in (open_index, verify_index, lambda one: open_index(one, writable=True)):
            with pytest.raises(CorruptArtifactError, match="vector"):
                look(path)
        if where == "database":
            execute(path, "UPDATE meta SET value = ? WHERE key = 'vectors'", VECTORS)
    assert snapshot(tmp_path / "other") == before


@pytest.mark.parametrize("name", [DATABASE, VECTORS])
def test_a_linked_file_is_read_and_never_written(path: Path, tmp_path: Path, name: str) -> None:
    (tmp_path / "theirs").mkdir()
    (path / name).rename(tmp_path / "theirs" / name)
    before = snapshot(tmp_path / "theirs")
    for make in ((path / name).symlink_to, (path / name).hardlink_to):
        make(tmp_path / "theirs" / name)
        with open_index(path) as index:
            assert len(index.search("castle", mode="lexical")) > 0
            index.verify()
        with (
            pytest.raises(ArtifactError, match="is a link"),
            open_index(path, writable=True) as index,
        ):
            index.delete(["doc-3"])
        (path / name).unlink()
    assert snapshot(tmp_path / "theirs") == before


@pytest.mark.parametrize("name", [INFO, DATABASE, VECTORS])
def test_a_pipe_holds_nobody_up(path: Path, name: str) -> None:
    (path / name).unlink()
    os.mkfifo(path / name)
    for look in (open_index, verify_index, lambda one: open_index(one, writable=True)):
        with pytest.raises(CorruptArtifactError, match="expected a plain file"):
            look(path)


def flip(file: Path, place: int) -> None:
    data = bytearray(file.read_bytes())
    data[place] ^= 4
    file.write_bytes(data)


def in_a_text(path: Path) -> int:
    return (path / DATABASE).read_bytes().index(b"The castle number")


CHANGES: dict[str, Callable[[Index], object]] = {
    "add": lambda index: index.add(make_documents(1, 90), vectors_of(make_documents(1, 90))),
    "delete": lambda index: index.delete(["doc-1"]),
    "compact": lambda index: index.compact(),
}


@pytest.mark.parametrize("operation", CHANGES)
@pytest.mark.parametrize("name", [DATABASE, VECTORS])
def test_damage_is_not_sealed_as_good(path: Path, name: str, operation: str) -> None:
    flip(path / name, in_a_text(path) if name == DATABASE else 64 + 36 * 9)
    before = snapshot(path)
    with open_index(path, writable=True) as index:  # sizes and headers are right
        with pytest.raises(CorruptArtifactError, match=name.replace(".", r"\.")):
            CHANGES[operation](index)
        assert len(index) == 30
    assert snapshot(path) == before
    with pytest.raises(CorruptArtifactError):
        verify_index(path)


@pytest.mark.parametrize("operation", CHANGES)
@pytest.mark.parametrize("where", ["database", "index.json"])
def test_another_generation_skips_no_check(path: Path, where: str, operation: str) -> None:
    flip(path / DATABASE, in_a_text(path))
    for generation in (0, 1, 3, 999):
        if where == "database":
            execute(path, "UPDATE meta SET value = ? WHERE key = 'generation'", str(generation))
        else:
            edit_info(path, lambda f, g=generation: f.update(generation=g))  # type: ignore[misc]
        before = snapshot(path)
        with pytest.raises(CorruptArtifactError, match="generation"):
            open_index(path, writable=True)
        with pytest.raises(CorruptArtifactError, match="generation"):
            verify_index(path)
        assert snapshot(path) == before


def killed_before_sealing(path: Path) -> None:
    index = open_index(path, writable=True)
    index.delete(["doc-3"])
    index._written = None
    index.close()


@pytest.mark.parametrize("operation", CHANGES)
def test_what_a_killed_writer_left_is_read_whole_first(path: Path, operation: str) -> None:
    killed_before_sealing(path)
    flip(path / VECTORS, 64 + 36 * 9)
    with (
        open_index(path, writable=True) as index,
        pytest.raises(CorruptArtifactError, match="rows 0 to 24"),
    ):
        CHANGES[operation](index)
    flip(path / VECTORS, 64 + 36 * 9)
    with open_index(path, writable=True) as index:
        CHANGES[operation](index)
    verify_index(path)
    assert read_info(path).state == "sealed"


def test_files_are_hashed_once_a_sitting(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hashed: list[str] = []

    def counted(file: Path, size: int) -> str:
        hashed.append(file.name)
        return sha256_of_first(file, size)

    monkeypatch.setattr("pocketquery.sdk.index.folder.sha256_of_first", counted)
    with open_index(path, writable=True) as index:
        assert index.search("castle", mode="lexical")
        assert hashed == []
        for number in range(5):
            index.delete([f"doc-{number}"])
        assert hashed == [DATABASE, VECTORS]
    assert len(hashed) == 4
    with open_index(path):
        assert len(hashed) == 4


def test_two_writers_take_turns_and_both_are_sealed(path: Path) -> None:
    first, second = open_index(path, writable=True), open_index(path, writable=True)
    first.delete(["doc-1"])
    second.delete(["doc-2"])
    first.close()  # seals what both wrote
    second.delete(["doc-3"])
    assert read_info(path).state == "writing"
    second.compact()
    second.close()
    assert verify_index(path).state == "sealed"
    with open_index(path) as index:
        assert len(index) == 27


def test_nobody_seals_amid_a_compaction(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = open_index(path, writable=True), open_index(path, writable=True)
    second.delete(["doc-1"])
    first.delete([f"doc-{number}" for number in range(2, 25)])
    vacuum = Database.vacuum

    def killed(self: Database, file: tuple[int, int] | None) -> None:
        second.close()
        vacuum(self, file)
        open_index(path).close()
        raise KeyboardInterrupt

    monkeypatch.setattr(Database, "vacuum", killed)
    with pytest.raises(KeyboardInterrupt):
        first.compact()
    monkeypatch.undo()
    with open_index(path) as index:
        assert len(index) == 6
    with open_index(path, writable=True) as index:  # the first is never closed
        index.delete(["doc-0"])
    assert verify_index(path).state == "sealed"
    first._database.close()  # all that the end of a killed process does


def test_closing_does_not_seal_what_another_build_put_there(path: Path) -> None:
    index = open_index(path, writable=True)
    index.delete(["doc-1"])
    make_index(path, 20)
    flip(path / DATABASE, in_a_text(path))
    before = snapshot(path)
    index.close()
    assert snapshot(path) == before


def test_a_folder_in_the_place_of_vectors_to_be(path: Path) -> None:
    with open_index(path, writable=True) as index:
        index.delete(["doc-1"])
        (path / "vectors-4.u8").mkdir()
        (path / "vectors-9.u8").mkdir()
        with pytest.raises(CorruptArtifactError, match="a folder in the place"):
            index.compact()
        (path / "vectors-4.u8").rmdir()
        index.compact()
        assert len(index) == 29
    verify_index(path)

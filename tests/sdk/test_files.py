from __future__ import annotations

import errno
import os
import time
from pathlib import Path

import pytest

from pocketquery.sdk.errors import ArtifactError, InvalidInputError, WriteError
from pocketquery.sdk.files import make_folder, remove_file, sha256_bytes, sha256_file, write_atomic
from pocketquery.sdk.folders import (
    FolderKind,
    check_replaceable,
    hold_folder,
    present_folder,
    publish_folder,
    recover_folder,
    replace_folder,
)
from tests.kills import killed_process


def names(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


KIND = FolderKind("a thing", "thing.json", "our-thing", ("thing.json", "part-*"))


@pytest.mark.parametrize(
    ("files", "refused"),
    [
        ({}, None),
        ({"thing.json": '{"format": "our-thing"}', "part-1": "", ".DS_Store": ""}, None),
        ({"thing.json": '{"form', "part-1": ""}, None),  # ours, and damaged
        ({"part-1": ""}, "is not a thing; it is left alone"),
        ({"thing.json": '{"name": "my site"}'}, "is not a thing; it is left alone"),
        ({"thing.json": '["our-thing"]'}, "is not a thing; it is left alone"),
        ({"thing.json": '{"format": "our-thing"}', "notes.txt": ""}, "holds 'notes.txt', which is"),
        ({"thing.json": '{"format": "our-thing"}', "src/app.js": ""}, "holds 'src', which is"),
        ({"thing.json": '{"format": "our-thing"}', ".git/HEAD": ""}, "holds '.git', which is"),
    ],
)
def test_only_what_is_of_a_kind_is_replaced(
    tmp_path: Path, files: dict[str, str], refused: str | None
) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    check_replaceable(tmp_path / "absent", KIND)
    if refused is None:
        check_replaceable(tmp_path, KIND)
        return
    with pytest.raises(InvalidInputError, match=refused):
        check_replaceable(tmp_path, KIND)


@pytest.mark.parametrize("below", ["new", "new/newer"])
def test_nothing_can_be_made_below_a_file(tmp_path: Path, below: str) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(InvalidInputError, match=r"file is not a folder, so .*new.* cannot be made"):
        check_replaceable(tmp_path / "file" / below, KIND)


def test_write_atomic_replaces_a_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_atomic(path, b"old")
    write_atomic(path, "né")
    assert path.read_bytes() == "né".encode()
    assert names(tmp_path) == ["file"]
    assert sha256_file(path) == sha256_bytes("né".encode())


@pytest.mark.parametrize("before", [None, 0o644])
def test_what_is_for_the_owner_alone_is_so_from_the_first_byte(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: int | None
) -> None:
    path = tmp_path / "file"
    if before is not None:
        path.write_bytes(b"old")
        path.chmod(before)
    modes: list[int] = []
    fsync = os.fsync

    def watched(descriptor: int) -> None:
        modes.extend(file.stat().st_mode & 0o777 for file in tmp_path.glob(".file.*"))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", watched)
    write_atomic(path, b"new", mode=0o600)
    assert modes == [0o600]
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.read_bytes() == b"new"


def test_a_removed_file_leaves_nothing_of_a_killed_writing(tmp_path: Path) -> None:
    path = tmp_path / "file[1]"
    write_atomic(path, b"kept")
    (tmp_path / ".file[1].0123abcd.tmp").write_bytes(b"half")
    (tmp_path / ".file1.0123abcd.tmp").write_bytes(b"another's")
    remove_file(path)
    remove_file(path)
    assert names(tmp_path) == [".file1.0123abcd.tmp"]


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_full_disk_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    path = tmp_path / "file"
    write_atomic(path, b"old")

    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, "no space left")

    monkeypatch.setattr(os if call == "fsync" else Path, call, fail)
    with pytest.raises(WriteError, match="file cannot be written: the disk is full; make room"):
        write_atomic(path, b"new")
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["file"]


@pytest.mark.parametrize(
    ("number", "told"),
    [
        (errno.EROFS, "it is on a read-only medium; copy it to one that may be written"),
        (errno.ENOSPC, "the disk is full; make room"),
        (errno.EDQUOT, "share of the disk is full; make room"),
        (errno.EACCES, "this user may not write there; change its permissions"),
        (errno.EIO, "Input/output error; look at the disk"),
    ],
)
def test_what_cannot_be_written_is_told_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, told: str
) -> None:
    def fail(*_: object, **__: object) -> int:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "open", fail)
    monkeypatch.setattr(os, "makedirs", fail)
    monkeypatch.setattr(Path, "mkdir", fail)
    for write in (
        lambda: write_atomic(tmp_path / "x", b""),
        lambda: make_folder(tmp_path / "x"),
        lambda: replace_folder(tmp_path / "x").__enter__(),
        lambda: hold_folder(tmp_path / "x"),
    ):
        with pytest.raises(WriteError, match=f"cannot be written: .*{told}") as caught:
            write()
        assert isinstance(caught.value, (OSError, ArtifactError))
        assert caught.value.errno == number
        assert str(tmp_path) in str(caught.value)


def test_a_file_in_a_folders_place_and_a_folder_that_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for place in (tmp_path / "file" / "x", tmp_path / "file" / "x" / "y"):
        for write in (write_atomic, lambda path, _: make_folder(path)):
            with pytest.raises(WriteError, match="a file stands where a folder is needed"):
                write(place, b"")
        with pytest.raises(WriteError, match="a file stands"), replace_folder(place):
            pass
    with pytest.raises(WriteError, match="there is no such folder; make the folder"):
        write_atomic(tmp_path / "none" / "x", b"")
    (tmp_path / "folder").mkdir()
    with pytest.raises(WriteError, match="a folder stands where the file would be"):
        write_atomic(tmp_path / "folder", b"")


def test_an_error_of_reading_is_not_one_of_writing(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught, replace_folder(tmp_path / "x"):
        (tmp_path / "none").read_bytes()
    assert not isinstance(caught.value, WriteError)
    full = pytest.raises(WriteError, match=f"{tmp_path / 'x'} cannot be written: the disk is full")
    with full, replace_folder(tmp_path / "x"):
        raise OSError(errno.ENOSPC, "no space left")
    assert names(tmp_path) == []


def test_an_error_inside_leaves_the_old_folder(tmp_path: Path) -> None:
    path = tmp_path / "folder"
    with replace_folder(path) as folder:
        (folder / "a").write_text("old")

    def fail() -> None:
        with replace_folder(path) as folder:
            (folder / "a").write_text("new")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert (path / "a").read_text() == "old"
    assert names(tmp_path) == ["folder"]


def test_readers_find_a_folder_that_a_kill_left_aside(tmp_path: Path) -> None:
    path, aside = tmp_path / "folder", tmp_path / ".folder.old"
    aside.mkdir()
    assert present_folder(path) == aside
    recover_folder(path)
    assert present_folder(path) == path
    assert path.is_dir()
    aside.mkdir()  # a kill after the second rename: the new one is in place
    recover_folder(path)
    assert not aside.exists()


def test_only_long_abandoned_temporaries_are_removed(tmp_path: Path) -> None:
    stale, fresh = tmp_path / ".folder.0123abcd.tmp", tmp_path / ".folder.4567abcd.tmp"
    stranger = tmp_path / ".folders.0123abcd.tmp"
    for folder in (stale, fresh, stranger):
        folder.mkdir()
    for folder in (stale, stranger):
        os.utime(folder, (time.time() - 7200,) * 2)
    with replace_folder(tmp_path / "folder"):
        pass
    assert not stale.exists()
    assert fresh.exists()
    assert stranger.exists()


def test_a_folder_that_cannot_be_moved_leaves_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, finished = tmp_path / "folder", tmp_path / "finished"
    path.mkdir()
    rename = Path.rename

    def refuse(self: Path, target: Path) -> Path:
        if self == finished:
            raise PermissionError(errno.EACCES, "in use")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", refuse)
    finished.mkdir()
    with pytest.raises(WriteError, match="folder cannot be written: this user may not"):
        publish_folder(finished, path)
    assert sorted(names(tmp_path)) == ["finished", "folder"]


def test_a_folder_put_back_is_moved_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, finished = tmp_path / "folder", tmp_path / "finished"
    for folder in (path, finished):
        folder.mkdir()
        (folder / folder.name).touch()
    rename, times = Path.rename, iter(range(2))

    def put_back(self: Path, target: Path) -> Path:
        moved = rename(self, target)
        if self == path and next(times, None) is not None:
            recover_folder(path)  # it takes this for a kill
        return moved

    monkeypatch.setattr(Path, "rename", put_back)
    publish_folder(finished, path)
    assert names(tmp_path) == ["folder"]
    assert (path / "finished").exists()


def test_a_folder_is_replaced_behind_its_link(tmp_path: Path) -> None:
    real, link = tmp_path / "real", tmp_path / "link"
    real.mkdir()
    link.symlink_to(real)
    with replace_folder(link) as folder:
        (folder / "a").write_text("new")
    assert link.is_symlink()
    assert (real / "a").read_text() == "new"
    real.rename(tmp_path / ".real.old")  # as a kill leaves it
    assert (present_folder(link) / "a").read_text() == "new"
    recover_folder(link)
    assert sorted(names(tmp_path)) == ["link", "real"]


def test_the_current_folder_has_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "folder").mkdir()
    monkeypatch.chdir(tmp_path / "folder")
    assert present_folder(Path()) == Path()
    assert present_folder(Path("a\0b")) == Path("a\0b")  # cannot be there
    with replace_folder(Path()) as folder:
        (folder / "a").write_text("new")
    assert (tmp_path / "folder" / "a").read_text() == "new"


_WRITER = """
import sys
from pathlib import Path
from pocketquery.sdk.folders import replace_folder
print("ready", flush=True)
count = 0
while True:
    with replace_folder(Path(sys.argv[1])) as folder:
        for name in "abc":
            (folder / name).write_text(str(count) * 5000)
    count += 1
"""


@pytest.mark.parametrize("delay", [0.05, 0.11, 0.17, 0.23])
def test_a_kill_leaves_a_whole_folder(tmp_path: Path, delay: float) -> None:
    path = tmp_path / "folder"
    killed_process(_WRITER, path, lines=1, until=path, delay=delay)
    there = present_folder(path)
    contents = {(there / name).read_text() for name in "abc"}
    assert len(contents) == 1

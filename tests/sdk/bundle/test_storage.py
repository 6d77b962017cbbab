from __future__ import annotations

import shutil
import zipfile
from pathlib import Path

import pytest

from pocketquery.sdk.bundle.storage import FolderStorage, ZipStorage, open_storage, pack
from pocketquery.sdk.errors import ArtifactNotFoundError, CorruptArtifactError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "a.txt").write_bytes(b"alpha")
    (folder / "b.bin").write_bytes(bytes(1000))
    return folder


def test_a_folder_and_its_zip_read_alike(folder: Path, tmp_path: Path) -> None:
    pack(folder, tmp_path / "packed.zip")
    plain, packed = open_storage(folder), open_storage(tmp_path / "packed.zip")
    assert isinstance(plain, FolderStorage)
    assert isinstance(packed, ZipStorage)
    for name in ("a.txt", "b.bin"):
        assert plain.size(name) == packed.size(name)
        assert plain.read(name, 2000) == packed.read(name, 2000)
        assert len(packed.read(name, 3)) == len(plain.read(name, 3)) == 3
    assert plain.size("c") is packed.size("c") is None


def test_packing_is_deterministic_and_stores(folder: Path, tmp_path: Path) -> None:
    pack(folder, tmp_path / "one.zip")
    copy = tmp_path / "copy"
    copy.mkdir()
    for name in ("b.bin", "a.txt"):  # another order, another time
        shutil.copyfile(folder / name, copy / name)
    pack(copy, tmp_path / "two.zip")
    assert (tmp_path / "one.zip").read_bytes() == (tmp_path / "two.zip").read_bytes()
    with zipfile.ZipFile(tmp_path / "one.zip") as archive:
        assert {entry.compress_type for entry in archive.infolist()} == {zipfile.ZIP_STORED}


def test_a_compressed_zip_is_read(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "deflated.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(folder / "b.bin", "b.bin")
    assert open_storage(path).read("b.bin", 2000) == bytes(1000)


@pytest.mark.parametrize("name", ["../a", "/a", "x/../../a", "C:/a", "..\\a", "\\a"])
def test_a_name_that_leaves_the_folder_is_refused(name: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(zipfile.ZipInfo(name), b"x")
    with pytest.raises(CorruptArtifactError, match="inside the folder only"):
        open_storage(path)


@pytest.mark.filterwarnings("ignore:Duplicate name:UserWarning")
def test_the_same_name_twice_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "twice.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a", b"1")
        archive.writestr("a", b"2")
    with pytest.raises(CorruptArtifactError, match="'a' twice"):
        open_storage(path)


def test_an_encrypted_file_is_refused(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "packed.zip"
    pack(folder, path)
    data = bytearray(path.read_bytes())
    at = data.index(b"PK\x01\x02")  # the central directory's first entry; its flags are at 8
    data[at + 8] |= 1
    path.write_bytes(data)
    with pytest.raises(CorruptArtifactError, match="encrypted"):
        open_storage(path)


def test_a_broken_zip_is_refused_at_every_truncation(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "packed.zip"
    pack(folder, path)
    data = path.read_bytes()
    for length in range(0, len(data), 7):
        path.write_bytes(data[:length])
        with pytest.raises(CorruptArtifactError, match="not a readable zip"):
            open_storage(path)


def test_a_changed_byte_is_found_by_the_zip_itself(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "packed.zip"
    pack(folder, path)
    path.write_bytes(path.read_bytes().replace(b"alpha", b"alphb"))
    with pytest.raises(CorruptArtifactError, match=r"a\.txt cannot be unzipped"):
        open_storage(path).read("a.txt", 100)


def test_nothing_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(ArtifactNotFoundError, match="found nothing there"):
        open_storage(tmp_path / "absent")
    with pytest.raises(ArtifactNotFoundError, match="found no folder"):
        pack(tmp_path / "absent", tmp_path / "x.zip")


def test_a_folder_left_aside_by_a_killed_writer_is_found(folder: Path) -> None:
    folder.rename(folder.with_name(".folder.old"))
    assert open_storage(folder).read("a.txt", 100) == b"alpha"

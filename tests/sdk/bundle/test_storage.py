from __future__ import annotations

import functools
import io
import os
import shutil
import struct
import tracemalloc
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pocketquery.sdk.bundle.storage import FolderStorage, ZipStorage, open_storage
from pocketquery.sdk.bundle.writing import pack
from pocketquery.sdk.errors import ArtifactError, ArtifactNotFoundError, CorruptArtifactError


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


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_compressed_zip_is_refused_before_it_is_unpacked(method: int, tmp_path: Path) -> None:
    path = tmp_path / "compressed.zip"
    with zipfile.ZipFile(path, "w", method) as archive:
        archive.writestr("a", bytes(1 << 26))
    tracemalloc.start()
    with pytest.raises(CorruptArtifactError, match=r"'a' is compressed \(method \d+\)"):
        open_storage(path)
    assert tracemalloc.get_traced_memory()[1] < 1 << 21
    tracemalloc.stop()


def test_a_stored_zip_of_another_tool_is_read(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "other.zip"
    with path.open("wb") as file, zipfile.ZipFile(cast(Any, _Pipe(file)), "w") as archive:
        archive.comment = b"made elsewhere"
        archive.write(folder / "a.txt", "a.txt")
        archive.writestr("f\xfcr/", b"")
    found = open_storage(path)  # with sizes behind the data, a comment, a folder
    assert found.read("a.txt", 100) == b"alpha"
    assert found.size("f\xfcr/") == 0


class _Pipe:
    """A file that cannot go back, for which the sizes are written behind the data."""

    def __init__(self, file: BinaryIO) -> None:
        self.write, self.flush = file.write, file.flush


def packed_bytes(folder: Path) -> bytearray:
    pack(folder, folder.with_suffix(".zip"))
    return bytearray(folder.with_suffix(".zip").read_bytes())


def at_entry(
    data: bytearray, offset: int, layout: str, value: int, record: bytes = b"PK\1\2"
) -> object:
    """Write into the directory's first entry."""
    struct.pack_into(layout, data, data.index(record) + offset, value)
    return None


at_end = functools.partial(at_entry, record=b"PK\5\6")  # into the record at the end


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: at_entry(d, 24, "<L", 6), "'a.txt' has 5 bytes for 6"),
        (lambda d: (at_entry(d, 24, "<L", 6), at_entry(d, 20, "<L", 6)), "described otherwise"),
        (lambda d: at_entry(d, 16, "<L", 7), "described otherwise"),
        (lambda d: at_entry(d, 10, "<H", 99), r"compressed \(method 99\)"),
        (lambda d: at_entry(d, 8, "<H", 1), "encrypted"),
        (lambda d: at_entry(d, 8, "<H", 1 << 13), "encrypted"),
        (lambda d: at_entry(d, 42, "<L", 1), "described otherwise"),
        (lambda d: at_entry(d, 42, "<L", 0xFFFFFFFF), "begins behind its end"),
        (lambda d: at_entry(d, 34, "<H", 1), "its directory is broken"),
        (lambda d: at_entry(d, 28, "<H", 60_000), "its directory is broken"),
        (lambda d: at_end(d, 8, "<H", 300), "of several parts"),
        (lambda d: (at_end(d, 8, "<H", 300), at_end(d, 10, "<H", 300)), "lists 300 files"),
        (lambda d: (at_end(d, 8, "<H", 3), at_end(d, 10, "<H", 3)), "its directory is cut"),
        (lambda d: (at_end(d, 8, "<H", 1), at_end(d, 10, "<H", 1)), "bytes more than its files"),
        (lambda d: at_end(d, 12, "<L", 1 << 30), "1073741824 bytes"),
        (lambda d: at_end(d, 16, "<L", 1), "not where the end says"),
        (lambda d: at_end(d, 16, "<L", 0xFFFFFFFF), "of 64 bits"),
        (lambda d: at_end(d, 20, "<H", 3), "its comment"),
        (lambda d: d.__setitem__(slice(28, 30), b"\xff\xff"), "reaches into the directory"),
    ],
)
def test_a_zip_whose_records_disagree_is_refused(
    folder: Path, change: Callable[[bytearray], object], message: str
) -> None:
    data = packed_bytes(folder)
    change(data)
    path = folder.with_suffix(".zip")
    path.write_bytes(data)
    with pytest.raises(CorruptArtifactError, match=message):
        open_storage(path)


def test_files_that_lie_over_one_another_are_refused(folder: Path) -> None:
    (folder / "b.bin").write_bytes(b"alpha")
    data = packed_bytes(folder)
    directory = data.index(b"PK\1\2")
    second = data.index(b"PK\1\2", directory + 4)
    # Both entries describe the first file, each under a name of its own in both of its headers.
    inner = bytearray(data[: data.index(b"PK\3\4", 4)])
    inner[30:35] = b"b.bin"
    struct.pack_into("<L", data, second + 42, 35)
    outer = bytearray(data[:35]) + inner
    struct.pack_into("<LL", outer, 18, len(inner), len(inner))
    struct.pack_into("<L", outer, 14, zlib.crc32(inner))
    struct.pack_into("<LLL", data, directory + 16, zlib.crc32(inner), len(inner), len(inner))
    struct.pack_into("<L", data, second + 16, zlib.crc32(b"alpha"))
    tail = data[directory:]
    struct.pack_into("<L", tail, tail.index(b"PK\5\6") + 16, len(outer))
    folder.with_suffix(".zip").write_bytes(outer + tail)
    with pytest.raises(CorruptArtifactError, match=r"lies over 'a\.txt'"):
        open_storage(folder.with_suffix(".zip"))


@given(st.data())
@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_change_of_a_zip_is_refused_or_reads_what_it_says(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    zipped = bytearray(_SMALL_ZIP)
    for _ in range(data.draw(st.integers(1, 4))):
        zipped[data.draw(st.integers(0, len(zipped) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path_factory.mktemp("zip") / "x.zip"
    path.write_bytes(zipped[: data.draw(st.integers(0, len(zipped)) | st.just(len(zipped)))])
    try:
        found = ZipStorage(path)
        for name in found._zip.sizes:
            assert len(found.read(name, 10_000)) == found.size(name)
    except CorruptArtifactError:
        pass


def _small_zip() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("a.txt", b"alpha")
        archive.writestr("b.bin", bytes(40))
    return buffer.getvalue()


_SMALL_ZIP = _small_zip()


def test_a_link_is_followed_and_no_pipe_or_folder_read(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "outside").write_bytes(b"secret")
    (folder / "link").symlink_to(tmp_path / "outside")
    os.mkfifo(folder / "pipe")
    (folder / "folder").mkdir()
    opened = open_storage(folder)
    assert opened.read("link", 100) == b"secret"  # what it holds is hashed like any other file
    for name, found in (("pipe", "a pipe"), ("folder", "a folder")):
        with pytest.raises(CorruptArtifactError, match=f"{name}: found {found}, expected a plain"):
            opened.size(name)
        with pytest.raises(CorruptArtifactError, match=f"{name}: found {found}, expected a plain"):
            opened.read(name, 10)  # and does not wait for a writer


def test_a_folder_that_is_a_link_itself_is_read(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "here").symlink_to(folder)
    assert open_storage(tmp_path / "here").read("a.txt", 100) == b"alpha"


def test_what_the_system_refuses_is_an_error_of_ours(folder: Path) -> None:
    opened = open_storage(folder)
    with pytest.raises(ArtifactError, match="cannot be read: File name too long"):
        opened.size("n" * 300)
    with pytest.raises(ArtifactNotFoundError, match="absent is missing"):
        opened.read("absent", 10)


@pytest.mark.filterwarnings("ignore:Duplicate name:UserWarning")
@pytest.mark.parametrize(
    ("names", "message"),
    [
        *(([name], "inside the folder only")
          for name in ("../a", "/a", "x/../../a", "C:/a", "..\\a", "\\a")),
        (["a", "a"], "'a' twice"),
    ],
)  # fmt: skip
def test_names_that_no_folder_has_are_refused(
    tmp_path: Path, names: list[str], message: str
) -> None:
    path = tmp_path / "bad.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for name in names:
            archive.writestr(zipfile.ZipInfo(name), b"x")
    with pytest.raises(CorruptArtifactError, match=message):
        open_storage(path)


def test_a_broken_zip_is_refused_at_every_truncation(folder: Path) -> None:
    data, path = packed_bytes(folder), folder.with_suffix(".zip")
    for length in range(0, len(data), 7):
        path.write_bytes(data[:length])
        with pytest.raises(CorruptArtifactError, match="not a readable zip"):
            open_storage(path)


def test_a_changed_byte_is_found_by_the_zip_itself(folder: Path) -> None:
    path = folder.with_suffix(".zip")
    path.write_bytes(packed_bytes(folder).replace(b"alpha", b"alphb"))
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

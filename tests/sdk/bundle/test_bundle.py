from __future__ import annotations

import builtins
import contextlib
import errno
import io
import os
import random
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pocketquery.sdk.bundle.bundle import Bundle
from pocketquery.sdk.bundle.signature import key_id, public_key_of
from pocketquery.sdk.bundle.writing import file_entries, pack, write_bundle
from pocketquery.sdk.errors import (
    ArtifactNotFoundError,
    CorruptArtifactError,
    InvalidInputError,
    SignatureError,
)
from tests.kills import killed_process
from tests.sdk.tiny_bundle import tiny_files, tiny_manifest, write_tiny_bundle

ROOT = Path(__file__).parents[3]
PRIVATE = bytes(range(32))
FILES = ["encoder.onnx", "golden.json", "tokenizer.json"]


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    return write_tiny_bundle(tmp_path / "bundle")


def test_what_is_written_is_read(bundle: Path) -> None:
    opened = Bundle.open(bundle)
    assert opened.manifest == tiny_manifest(tiny_files())
    assert {name: opened.read(name) for name in FILES} == tiny_files()
    assert "encoder.onnx" in opened
    assert "adapter.safetensors" not in opened
    opened.check_files()


def test_the_same_input_gives_the_same_bytes(bundle: Path, tmp_path: Path) -> None:
    assert contents(write_tiny_bundle(tmp_path / "again")) == contents(bundle)


def test_a_zip_is_read_as_its_folder(bundle: Path, tmp_path: Path) -> None:
    pack(bundle, tmp_path / "bundle.zip")
    opened = Bundle.open(tmp_path / "bundle.zip")
    assert opened.manifest == Bundle.open(bundle).manifest
    assert {name: opened.read(name) for name in FILES} == tiny_files()


def test_further_files_are_ignored(bundle: Path) -> None:
    (bundle / "README.md").write_text("hello")
    opened = Bundle.open(bundle)
    opened.check_files()
    with pytest.raises(InvalidInputError, match=r"names no file 'README\.md'"):
        opened.read("README.md")


@pytest.mark.parametrize("name", FILES)
def test_a_missing_file_is_named(bundle: Path, name: str) -> None:
    (bundle / name).unlink()
    with pytest.raises(ArtifactNotFoundError, match=f"{name} is missing"):
        Bundle.open(bundle).check_files()


def with_a_bit(data: bytes) -> bytes:
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: b"", "has .* bytes, the manifest says"),
        (lambda data: data[: len(data) // 2], "has .* bytes, the manifest says"),
        (lambda data: data[: int(len(data) * 0.999)], "has .* bytes, the manifest says"),
        (lambda data: data + b" ", "has .* bytes, the manifest says"),
        (with_a_bit, "has SHA-256"),
    ],
)
def test_a_changed_file_is_named(
    bundle: Path, name: str, change: Callable[[bytes], bytes], message: str
) -> None:
    data = change((bundle / name).read_bytes())
    (bundle / name).write_bytes(data)
    opened = Bundle.open(bundle)
    with pytest.raises(CorruptArtifactError, match=f"{name} {message}"):
        opened.check_files()
    if change is with_a_bit:
        assert opened.read(name, verify_hash=False) == data


def test_a_zip_that_lies_about_a_size_is_refused(bundle: Path, tmp_path: Path) -> None:
    path = tmp_path / "bundle.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in contents(bundle).items():
            archive.writestr(name, bytes(10_000_000) if name == "golden.json" else data)
    with pytest.raises(CorruptArtifactError, match=r"golden\.json has 10000000 bytes"):
        Bundle.open(path).check_files()


def test_nothing_there_and_no_manifest_are_told_apart(tmp_path: Path) -> None:
    with pytest.raises(ArtifactNotFoundError, match="found nothing there"):
        Bundle.open(tmp_path / "absent")
    with pytest.raises(ArtifactNotFoundError, match=r"no manifest\.json"):
        Bundle.open(tmp_path)


def test_a_signed_bundle_opens_with_its_key_and_with_none(tmp_path: Path) -> None:
    path = write_tiny_bundle(tmp_path / "bundle", signing_key=PRIVATE)
    public = public_key_of(PRIVATE)
    assert Bundle.open(path, public_key=public).manifest.signature_key_id == key_id(public)
    assert Bundle.open(path).manifest == Bundle.open(path, public_key=public.hex()).manifest
    assert Bundle.open(path, public_key=public).signed_by == key_id(public)
    assert Bundle.open(path).signed_by is None  # whatever the manifest says


def test_what_would_not_be_read_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(CorruptArtifactError, match="'name': found 2000 characters"):
        write_tiny_bundle(tmp_path / "bundle", name="n" * 2000)
    assert not (tmp_path / "bundle").exists()


TAKEN_AWAY = r"says it is signed by the key .* taken away"
OTHER = "was changed, or comes from somebody else"
NOT_MADE_OVER = "not made over this manifest"


@pytest.mark.parametrize(
    ("file", "change", "key", "message"),
    [
        ("signature", lambda data: None, None, TAKEN_AWAY),
        ("signature", lambda data: b"", None, TAKEN_AWAY),
        ("signature", lambda data: b"x" * 65, None, TAKEN_AWAY),
        ("signature", lambda data: data, b"\x07" * 32, OTHER),
        ("signature", lambda data: bytes(10), PRIVATE, "10 bytes, expected 64"),
        ("signature", lambda data: None, PRIVATE, "found no signature"),
        (
            "manifest.json",
            lambda data: data.replace(b'"tiny"', b'"tinz"'),
            PRIVATE,
            "not made over",
        ),
        # It is checked before the manifest is parsed.
        ("manifest.json", lambda data: b"[" * 100_000, PRIVATE, NOT_MADE_OVER),
    ],
)
def test_a_signature_that_is_not_right_is_refused(
    tmp_path: Path,
    file: str,
    change: Callable[[bytes], bytes | None],
    key: bytes | None,
    message: str,
) -> None:
    path = write_tiny_bundle(tmp_path / "bundle", signing_key=PRIVATE)
    data = change((path / file).read_bytes())
    if data is None:
        (path / file).unlink()
    else:
        (path / file).write_bytes(data)
    with pytest.raises(SignatureError, match=message):
        Bundle.open(path, public_key=public_key_of(key) if key else None)


def test_what_is_not_a_bundle_is_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "precious.txt").write_text("mine")
    with pytest.raises(InvalidInputError, match="is not a bundle; it is left alone"):
        write_tiny_bundle(tmp_path)
    assert (tmp_path / "precious.txt").read_text() == "mine"


def test_files_that_are_not_the_manifests_are_refused(tmp_path: Path) -> None:
    files = tiny_files()
    with pytest.raises(InvalidInputError, match="files=file_entries"):
        write_bundle(tmp_path / "b", tiny_manifest(files), files | {"golden.json": b"{}"})
    assert file_entries({"a": b""})["a"].bytes == 0


class FullDisk:
    """Every file opened for writing while it is installed fails at the ``fail_at``-th write."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, fail_at: int) -> None:
        self.writes = 0
        self.fail_at = fail_at
        original = io.open

        def opening(*args: Any, **kwargs: Any) -> Any:
            file = original(*args, **kwargs)
            return self.wrap(file) if file.writable() else file

        monkeypatch.setattr(io, "open", opening)
        monkeypatch.setattr(builtins, "open", opening)

    def wrap(self, file: Any) -> Any:
        disk = self

        class Limited:
            def write(self, data: bytes) -> int:
                disk.writes += 1
                if disk.writes == disk.fail_at:
                    file.write(data[: len(data) // 2])
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                return int(file.write(data))

            def __enter__(self) -> Limited:
                return self

            def __exit__(self, *_: object) -> None:
                file.close()

            def __getattr__(self, name: str) -> Any:
                return getattr(file, name)

        return Limited()


def test_a_disk_that_fills_up_at_any_write_leaves_the_old_bundle(bundle: Path) -> None:
    before = contents(bundle)
    for fail_at in range(1, 20):
        with pytest.MonkeyPatch.context() as patch:
            disk = FullDisk(patch, fail_at)
            with contextlib.suppress(OSError):
                write_tiny_bundle(bundle, name="second", signing_key=PRIVATE)
                break
        assert contents(bundle) == before
        assert [path.name for path in bundle.parent.iterdir()] == ["bundle"]
    assert disk.writes == len(FILES) + 2  # each file, the manifest, the signature
    assert Bundle.open(bundle).manifest.name == "second"


def test_a_disk_that_fills_up_while_packing_leaves_the_old_zip(bundle: Path) -> None:
    path = bundle.with_name("bundle.zip")
    path.write_bytes(b"old")
    with pytest.MonkeyPatch.context() as patch:
        FullDisk(patch, 1)
        with pytest.raises(OSError, match="the disk is full"):
            pack(bundle, path)
    assert path.read_bytes() == b"old"
    assert sorted(p.name for p in bundle.parent.iterdir()) == ["bundle", "bundle.zip"]


WRITER = """
import sys
from pathlib import Path
from tests.sdk.tiny_bundle import tiny_files, tiny_manifest
from pocketquery.sdk.bundle.writing import write_bundle
files = tiny_files()
manifests = [tiny_manifest(files, name=f"version {n}") for n in range(2)]
print("ready", flush=True)
while True:
    for manifest in manifests:
        write_bundle(Path(sys.argv[1]), manifest, files)
"""


def test_a_writer_killed_at_any_moment_leaves_a_whole_bundle(bundle: Path) -> None:
    rng = random.Random(0)
    for _ in range(8):
        killed_process(WRITER, bundle, lines=1, delay=rng.uniform(0.0, 0.05))
        opened = Bundle.open(bundle)
        opened.check_files()
        assert opened.manifest.name in ("tiny", "version 0", "version 1")
    write_tiny_bundle(bundle, name="last")
    assert Bundle.open(bundle).manifest.name == "last"


def test_a_bundle_can_be_copied_and_moved(bundle: Path, tmp_path: Path) -> None:
    shutil.copytree(bundle, tmp_path / "elsewhere")
    Bundle.open(tmp_path / "elsewhere").check_files()

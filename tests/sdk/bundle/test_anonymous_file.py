"""Files in memory, and the models that are opened from them."""

from __future__ import annotations

import contextlib
import gc
import os
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from pocketquery import sdk
from pocketquery.sdk.bundle.bundle import Bundle
from pocketquery.sdk.bundle.writing import pack
from pocketquery.sdk.errors import ArtifactError, CorruptArtifactError
from pocketquery.sdk.onnx_model import AnonymousFile
from tests.sdk.tiny_bundle import tiny_files, trained_adapter, write_tiny_bundle

TEXT = "how do plants make sugar"

on_linux = pytest.mark.skipif(sys.platform != "linux", reason="anonymous files are Linux's")


def as_folder(folder: Path) -> Path:
    return write_tiny_bundle(folder / "bundle")


def as_zip(folder: Path) -> Path:
    pack(as_folder(folder), folder / "bundle.zip")
    return folder / "bundle.zip"


def left_open(name: str) -> int:
    """Anonymous files of this name; by name, for what other tests left may be closed meanwhile."""
    found = 0
    for descriptor in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # the one this folder was listed through
            found += str(descriptor.readlink()).startswith(f"/memfd:{name} ")
    return found


@on_linux
def test_it_holds_what_was_written_and_is_gone_with_the_object() -> None:
    file = AnonymousFile("held and gone")
    assert file.view() == b""
    for piece in (b"one", memoryview(b"and two")):
        file.write(piece)
    assert len(file) == 10
    assert file.view()[:] == Path(file.path).read_bytes() == b"oneand two"
    assert left_open("held and gone") == 1
    del file
    gc.collect()
    assert left_open("held and gone") == 0


@on_linux
@pytest.mark.parametrize("laid_out", [as_folder, as_zip])
def test_a_model_is_what_reading_gives(laid_out: Callable[[Path], Path], tmp_path: Path) -> None:
    model = Bundle.open(laid_out(tmp_path)).model()
    assert isinstance(model, AnonymousFile)
    assert model.view()[:] == tiny_files()["encoder.onnx"]


@pytest.mark.parametrize("laid_out", [as_folder, as_zip])
def test_without_anonymous_files_the_vectors_are_the_same(
    laid_out: Callable[[Path], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = laid_out(tmp_path)
    expected = sdk.load(path).encode(TEXT)
    monkeypatch.delattr(os, "memfd_create", raising=False)
    assert isinstance(Bundle.open(path).model(), bytes)
    np.testing.assert_array_equal(sdk.load(path).encode(TEXT), expected)


@on_linux
def test_without_proc_bytes_are_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = os.open

    def refused(path: str, *options: int) -> int:
        if str(path).startswith("/proc/"):
            raise PermissionError(path)
        return opened(path, *options)

    gc.collect()  # what other tests' encoders held
    held = left_open("encoder.onnx")
    monkeypatch.setattr(os, "open", refused)
    assert isinstance(Bundle.open(as_folder(tmp_path)).model(), bytes)
    gc.collect()
    assert left_open("encoder.onnx") <= held


@on_linux
def test_in_full_memory_bytes_are_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_self: AnonymousFile, _piece: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(AnonymousFile, "write", full)
    assert Bundle.open(as_folder(tmp_path)).model() == tiny_files()["encoder.onnx"]


@pytest.mark.parametrize("laid_out", [as_folder, as_zip])
@pytest.mark.parametrize("without", [True, False])
def test_a_changed_model_is_refused(
    laid_out: Callable[[Path], Path],
    without: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = laid_out(tmp_path)
    inside = path / "encoder.onnx" if path.is_dir() else path
    whole = bytearray(inside.read_bytes())
    at = whole.index(tiny_files()["encoder.onnx"]) + 5
    whole[at] ^= 1
    inside.write_bytes(whole)
    if without:
        monkeypatch.delattr(os, "memfd_create", raising=False)
    with pytest.raises(CorruptArtifactError):
        Bundle.open(path).model()
    if path.is_dir():  # a zip has check sums of its own
        assert len(Bundle.open(path).model(verify_hash=False)) == len(tiny_files()["encoder.onnx"])


@on_linux
def test_what_the_system_refuses_is_an_error_of_ours(tmp_path: Path) -> None:
    path = as_folder(tmp_path)
    (path / "encoder.onnx").unlink()
    os.mkfifo(path / "encoder.onnx")
    with pytest.raises(ArtifactError, match="a pipe"):
        Bundle.open(path).model()


def test_what_was_checked_stays_whatever_becomes_of_the_bundle(tmp_path: Path) -> None:
    path = as_folder(tmp_path)
    encoder = sdk.load(path)
    expected = encoder.encode(TEXT)
    other = sdk.load(path, adapter=trained_adapter()).encode(TEXT)
    model = path / "encoder.onnx"
    model.write_bytes(bytes(model.stat().st_size))  # in place
    np.testing.assert_array_equal(encoder.encode(TEXT), expected)
    encoder.swap_adapter(trained_adapter())  # another session, over what was checked
    np.testing.assert_array_equal(encoder.encode(TEXT), other)

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pocketquery import sdk
from pocketquery.sdk.bundle.signature import key_id, public_key_of
from pocketquery.sdk.bundle.writing import pack, write_bundle
from pocketquery.sdk.errors import (
    ArtifactNotFoundError,
    CorruptArtifactError,
    PocketQueryWarning,
    SignatureError,
)
from tests.sdk.tiny_bundle import (
    DOCUMENTS,
    SPACE_ID,
    encoder_onnx,
    golden_json,
    tiny_files,
    tiny_manifest,
    trained_adapter,
    write_tiny_bundle,
    write_tiny_index,
)

PRIVATE = bytes(range(32))


def test_a_sound_bundle_gives_a_report(tiny_bundle: Path) -> None:
    report = sdk.verify(tiny_bundle)
    assert report.kind == "bundle"
    assert report.name == "tiny"
    assert report.files == 3
    assert report.bytes == sum(len(data) for data in tiny_files().values())
    assert report.signed_by is None
    assert report.golden is not None
    assert report.golden.least_cosine > 0.9999
    assert json.loads(json.dumps(report.to_dict()))["golden"]["texts"] == report.golden.texts


def test_a_zip_is_verified_as_its_folder(tiny_bundle: Path, tmp_path: Path) -> None:
    pack(tiny_bundle, tmp_path / "b.zip")
    assert sdk.verify(tmp_path / "b.zip").golden == sdk.verify(tiny_bundle).golden


def test_an_adapter_is_part_of_what_is_replayed(tmp_path: Path) -> None:
    adapter = trained_adapter()
    assert sdk.verify(write_tiny_bundle(tmp_path / "b", adapter=adapter)).files == 4
    files = tiny_files(adapter) | {"golden.json": golden_json()}  # made without the adapter
    write_bundle(tmp_path / "b", tiny_manifest(files), files)
    with pytest.raises(CorruptArtifactError, match="has cosine"):
        sdk.verify(tmp_path / "b")


def test_the_signature_is_checked_where_a_key_is_given(tmp_path: Path) -> None:
    path = write_tiny_bundle(tmp_path / "b", signing_key=PRIVATE)
    public = public_key_of(PRIVATE)
    assert sdk.verify(path, public_key=public).signed_by == key_id(public)
    assert sdk.verify(path).signed_by is None
    assert sdk.verify(path).claimed_key_id == key_id(public)
    with pytest.raises(SignatureError):
        sdk.verify(path, public_key=public_key_of(b"\x01" * 32))


@pytest.mark.parametrize("name", sorted(tiny_files(trained_adapter())))
def test_a_changed_byte_anywhere_is_found_and_the_file_named(tmp_path: Path, name: str) -> None:
    path = write_tiny_bundle(tmp_path / "b", adapter=trained_adapter())
    data = bytearray((path / name).read_bytes())
    for at in {0, len(data) // 2, len(data) - 1}:
        changed = bytearray(data)
        changed[at] ^= 0x10
        (path / name).write_bytes(changed)
        with pytest.raises(CorruptArtifactError, match=name):
            sdk.verify(path)


def test_a_graph_and_a_manifest_that_disagree_are_found(tmp_path: Path) -> None:
    files = tiny_files() | {"encoder.onnx": encoder_onnx(output="pooled")}
    write_bundle(tmp_path / "b", tiny_manifest(files), files)
    with pytest.raises(CorruptArtifactError, match="expected sentence_embedding"):
        sdk.verify(tmp_path / "b")


def test_a_sound_index_gives_a_report(tiny_index: Path) -> None:
    report = sdk.verify(tiny_index)
    assert report.kind == "index"
    assert report.documents == len(DOCUMENTS)
    assert report.space_id == SPACE_ID
    assert report.golden is None


def test_a_changed_byte_in_any_file_of_an_index_is_found(tmp_path: Path) -> None:
    path = write_tiny_index(tmp_path / "index")
    for file in sorted(file for file in path.iterdir() if file.name != "index.json"):
        data = file.read_bytes()
        file.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
        with pytest.raises(CorruptArtifactError, match=file.name):
            sdk.verify(path)
        file.write_bytes(data)
    assert sdk.verify(path).kind == "index"


def test_an_index_left_aside_by_a_killed_writer_is_found(tmp_path: Path) -> None:
    path = write_tiny_index(tmp_path / "index")
    path.rename(tmp_path / ".index.old")
    assert sdk.verify(path).kind == "index"


def test_a_bundles_name_is_no_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_tiny_index(tmp_path / "default")
    monkeypatch.chdir(tmp_path)
    with pytest.warns(PocketQueryWarning, match="default is taken for the installed one"):
        assert sdk.verify("default").kind == "bundle"
    assert sdk.verify("./default").kind == "index"


def test_nothing_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(ArtifactNotFoundError):
        sdk.verify(tmp_path / "absent")

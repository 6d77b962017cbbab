from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.typing import NDArray

from pocketquery.sdk.bundle.adapter import (
    LARGEST_RELEASE,
    pack_adapter,
    parse_adapter,
    read_adapter,
    write_adapter,
)
from pocketquery.sdk.bundle.adapter_tensors import released, tensors_sha256
from pocketquery.sdk.bundle.manifest import ENCODER_FILE, FileEntry, Manifest, Space
from pocketquery.sdk.bundle.safetensors import parse, parse_metadata, serialize
from pocketquery.sdk.bundle.signature import key_id, public_key_of
from pocketquery.sdk.errors import (
    ArtifactNotFoundError,
    CorruptArtifactError,
    InvalidInputError,
    PocketQueryError,
    SignatureError,
    SpaceMismatchError,
    UnsupportedVersionError,
)
from pocketquery.sdk.files import sha256_bytes
from tests.sdk.tiny_bundle import (
    DOWN,
    PRIVATE,
    PUBLIC,
    UP,
    default_adapter,
    tiny_files,
    tiny_manifest,
)
from tests.sdk.tiny_bundle import trained_adapter as trained

pytest.importorskip("cryptography")  # whoever signs needs it

MANIFEST: Manifest = tiny_manifest(tiny_files(default_adapter()))
PLAIN = pack_adapter(trained(), manifest=MANIFEST, version="2", parent_version="1")
SIGNED = pack_adapter(
    trained(), manifest=MANIFEST, version="2", parent_version="1", signing_key=PRIVATE
)


def reseal(data: bytes, **changes: str | None) -> bytes:
    """``data`` with other metadata and digests that fit it, as a forger would write it."""
    tensors, metadata = parse(data), parse_metadata(data)
    metadata |= {name: value for name, value in changes.items() if value is not None}
    for name in [name for name, value in changes.items() if value is None]:
        metadata.pop(name)
    metadata.pop("content_sha256", None)
    text = json.dumps(metadata, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return serialize(tensors, metadata | {"content_sha256": sha256_bytes(text.encode())})


def test_a_release_says_what_it_is_and_holds_float16_values(tmp_path: Path) -> None:
    path = tmp_path / "adapter-2.safetensors"
    written = write_adapter(path, trained(), manifest=MANIFEST, version="2", parent_version="1")
    assert path.read_bytes() == PLAIN
    release = read_adapter(path, manifest=MANIFEST)
    assert (release.version, release.parent_version) == ("2", "1")
    assert release.space_id == MANIFEST.space.id
    assert release.encoder_sha256 == MANIFEST.files[ENCODER_FILE].sha256
    assert release.sha256 == sha256_bytes(PLAIN) == written.sha256
    assert release.bytes == len(PLAIN)
    assert release.signature_key_id is None
    assert release.tensors_sha256 == tensors_sha256(trained())
    for name, value in trained().items():
        assert release.tensors[name].dtype == np.float32
        assert np.array_equal(release.tensors[name], value.astype(np.float16).astype(np.float32))
        assert np.array_equal(released(trained())[name], release.tensors[name])


def test_what_was_read_is_written_in_the_same_bytes() -> None:
    release = read_adapter(SIGNED, manifest=MANIFEST, public_key=PUBLIC)
    assert release.signature_key_id == key_id(PUBLIC)
    again = pack_adapter(
        release.tensors, manifest=MANIFEST, version="2", parent_version="1", signing_key=PRIVATE
    )
    assert again == SIGNED
    rootless = pack_adapter(trained(), manifest=MANIFEST, version="1")
    assert read_adapter(rootless, manifest=MANIFEST).parent_version is None


def test_the_public_form_of_safetensors_reads_it() -> None:
    from safetensors.numpy import load

    theirs = load(PLAIN)
    assert {name: value.dtype.name for name, value in theirs.items()} == {
        DOWN: "float16",
        UP: "float16",
    }


@pytest.mark.parametrize("data", [PLAIN, SIGNED], ids=["plain", "signed"])
def test_every_changed_byte_is_refused(data: bytes) -> None:
    for position in range(len(data)):
        changed = bytearray(data)
        changed[position] ^= 1
        with pytest.raises(PocketQueryError):
            read_adapter(bytes(changed), manifest=MANIFEST)


@given(
    data=st.sampled_from([PLAIN, SIGNED]),
    position=st.integers(0, len(SIGNED)),
    cut=st.integers(0, 40),
    put=st.binary(max_size=40),
)
@example(data=PLAIN, position=len(PLAIN), cut=0, put=b" ")
@example(data=PLAIN, position=0, cut=len(PLAIN), put=b"")
def test_tampering_is_refused(data: bytes, position: int, cut: int, put: bytes) -> None:
    changed = data[:position] + put + data[position + cut :]
    if changed != data:
        with pytest.raises((CorruptArtifactError, UnsupportedVersionError)):
            parse_adapter(changed)


@given(st.binary(max_size=300))
def test_what_is_no_release_is_refused(data: bytes) -> None:
    with pytest.raises(CorruptArtifactError):
        parse_adapter(data)


def test_the_same_content_in_other_bytes_is_refused() -> None:
    length = int.from_bytes(PLAIN[:8], "little")
    header = json.loads(PLAIN[8 : 8 + length])
    loose = json.dumps(header).encode()  # with spaces after commas and colons
    data = len(loose).to_bytes(8, "little") + loose + PLAIN[8 + length :]
    assert parse(data).keys() == parse(PLAIN).keys()
    with pytest.raises(CorruptArtifactError, match="not in the bytes a release is written in"):
        parse_adapter(data)


def test_half_a_character_is_refused() -> None:
    length = int.from_bytes(PLAIN[:8], "little")
    header = PLAIN[8 : 8 + length].replace(b'"parent_version":"1"', rb'"parent_version":"\ud800"')
    data = len(header).to_bytes(8, "little") + header + PLAIN[8 + length :]
    with pytest.raises(CorruptArtifactError, match="no text"):
        parse_adapter(data)


def test_another_space_is_named_with_both_ids() -> None:
    manifest = tiny_manifest(tiny_files(default_adapter()), space=Space("space-other", 16))
    with pytest.raises(SpaceMismatchError, match=f"{MANIFEST.space.id}.*space-other"):
        read_adapter(PLAIN, manifest=manifest)


def test_another_encoder_is_named_with_both_ids() -> None:
    files = dict(MANIFEST.files) | {ENCODER_FILE: FileEntry("0" * 64, 1)}
    manifest = MANIFEST._replace(files=files)
    expected = f"{MANIFEST.files[ENCODER_FILE].sha256}.*{'0' * 64}"
    with pytest.raises(CorruptArtifactError, match=expected):
        read_adapter(PLAIN, manifest=manifest)


def test_a_key_demands_a_signature_by_it() -> None:
    with pytest.raises(SignatureError, match=f"is not signed.*{key_id(PUBLIC)}"):
        read_adapter(PLAIN, manifest=MANIFEST, public_key=PUBLIC)
    other = public_key_of(b"\x01" * 32)
    with pytest.raises(SignatureError, match=f"not made by the key {key_id(other)}"):
        read_adapter(SIGNED, manifest=MANIFEST, public_key=other)
    with pytest.raises(InvalidInputError, match="neither 64 hexadecimal digits"):
        read_adapter(SIGNED, manifest=MANIFEST, public_key="absent.pem")


@pytest.mark.parametrize(
    "changes",
    [
        {"encoder_version": "3"},
        {"parent_version": "0"},
        {"space_id": "space-mine"},
        {"parent_version": None},
        {"more": "text"},
        {"signature": "00" * 64},
        {"signature": "zz"},
    ],
)
def test_a_forger_who_fits_the_digests_is_stopped_by_the_key(changes: dict[str, Any]) -> None:
    forged = reseal(SIGNED, **changes)
    parse_adapter(forged)  # sound in itself
    with pytest.raises(SignatureError):
        read_adapter(forged, manifest=MANIFEST, public_key=PUBLIC)


def test_tensors_of_another_release_under_a_signature_are_refused() -> None:
    other = {name: value.astype(np.float16) for name, value in trained(1).items()}
    swapped = serialize(other, parse_metadata(SIGNED))
    with pytest.raises(CorruptArtifactError, match="tensors_sha256"):
        parse_adapter(swapped)
    forged = reseal(swapped, tensors_sha256=tensors_sha256(other))
    parse_adapter(forged)
    with pytest.raises(SignatureError):
        read_adapter(forged, manifest=MANIFEST, public_key=PUBLIC)


def test_another_format_or_a_newer_version_is_refused() -> None:
    with pytest.raises(UnsupportedVersionError, match=r"format_version is 2.*up to 1"):
        parse_adapter(reseal(PLAIN, format_version="2"))
    for changes in ({"format_version": "one"}, {"format": "pocketquery-training-step"}):
        with pytest.raises(CorruptArtifactError, match="expected"):
            parse_adapter(reseal(PLAIN, **changes))
    for name in ("format", "encoder_version", "space_id", "encoder_sha256"):
        with pytest.raises(CorruptArtifactError, match=name):
            parse_adapter(reseal(PLAIN, **{name: None}))
    with pytest.raises(CorruptArtifactError, match="format"):
        parse_adapter(serialize(trained()))


@pytest.mark.parametrize(
    ("tensors", "message"),
    [
        ({UP: np.full((16, 2), np.nan, np.float32)}, "NaN, infinity"),
        ({UP: np.full((16, 2), np.inf, np.float16)}, "NaN, infinity"),
        ({UP: np.full((16, 2), 1e5, np.float32)}, "what float16 cannot hold"),
        ({UP: np.zeros((16, 2))}, "is float64"),
        ({UP: np.zeros((16, 2), np.int8)}, "is int8"),
        ({}, "0 adapter tensors"),
        ({UP: np.zeros((400, 200), np.float32)}, r"at most 100000 may travel.*lower adapter rank"),
    ],
)
def test_what_cannot_be_released_is_not_written(
    tensors: Mapping[str, NDArray[Any]], message: str, tmp_path: Path
) -> None:
    path = tmp_path / "adapter"
    with pytest.raises(InvalidInputError, match=message):
        write_adapter(path, tensors, manifest=MANIFEST, version="2")
    assert not path.exists()


def test_only_a_release_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "adapter"
    for old in (b"", b"notes", PLAIN[:-1]):
        path.write_bytes(old)
        with pytest.raises(InvalidInputError, match="not an adapter release; it is left alone"):
            write_adapter(path, trained(), manifest=MANIFEST, version="2")
        assert path.read_bytes() == old
    path.write_bytes(SIGNED)
    write_adapter(path, trained(), manifest=MANIFEST, version="2", parent_version="1")
    assert path.read_bytes() == PLAIN
    with pytest.raises(InvalidInputError, match="is not an adapter release"):
        write_adapter(tmp_path, trained(), manifest=MANIFEST, version="2")


@pytest.mark.parametrize(
    "value", [np.full((16, 2), np.nan, np.float16), np.zeros((16, 2), np.float32)]
)
def test_hostile_tensors_are_refused(value: NDArray[Any]) -> None:
    metadata = parse_metadata(PLAIN)
    tensors = parse(PLAIN) | {UP: value}
    data = reseal(
        serialize(tensors, metadata | {"tensors_sha256": sha256_bytes(serialize(tensors))})
    )
    with pytest.raises(CorruptArtifactError, match=r"up' holds (NaN|float32)"):
        parse_adapter(data)


def test_versions_may_not_be_empty() -> None:
    for versions in ({"version": ""}, {"version": "2", "parent_version": ""}):
        with pytest.raises(InvalidInputError, match="versions that are not empty"):
            pack_adapter(trained(), manifest=MANIFEST, **versions)


def test_a_large_file_is_refused_before_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "large"
    with path.open("wb") as file:
        file.truncate(1 << 34)  # sparse
    with pytest.raises(CorruptArtifactError, match=f"more than {LARGEST_RELEASE} bytes"):
        read_adapter(path, manifest=MANIFEST)


@pytest.mark.parametrize("path", ["absent", ".", "a\0b"])
def test_nothing_there_is_an_error_that_says_so(path: str) -> None:
    with pytest.raises(ArtifactNotFoundError, match="found no adapter release there"):
        read_adapter(path, manifest=MANIFEST)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"encoder_version": "9" * 1025}, "'encoder_version': found 1025 characters"),
        ({"space_id": "s" * 1025}, "'space_id': found 1025 characters"),
        ({"format_version": "9" * 5000}, "'format_version': found 5000 characters"),
        ({"format": "f" * 5000}, "'format': found 5000 characters"),
    ],
)
def test_texts_of_a_release_have_bounds(changes: dict[str, str], message: str) -> None:
    with pytest.raises(CorruptArtifactError, match=message):
        parse_adapter(reseal(PLAIN, **changes))


def test_the_signature_is_checked_before_the_tensors_are_read() -> None:
    broken = SIGNED[:-1]  # no release at all
    with pytest.raises(CorruptArtifactError):
        read_adapter(broken, manifest=MANIFEST, public_key=PUBLIC)
    with pytest.raises(SignatureError):
        read_adapter(broken, manifest=MANIFEST, public_key=public_key_of(b"\x07" * 32))


def test_a_pipe_is_no_release(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ArtifactNotFoundError, match="found a pipe"):
        read_adapter(tmp_path / "pipe", manifest=MANIFEST)

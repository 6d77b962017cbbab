"""An adapter release: the small file that makes a bundle's encoder a newer one, and proves itself.

One safetensors file of at most 100 KB: the adapter's tensors in float16, and metadata that says
which version it is, of which parent, for which space and which ``encoder.onnx``, with digests:

    tensors_sha256   of the tensors: names, shapes and bytes
    content_sha256   of the metadata, ``tensors_sha256`` and the signature among it
    signature        optional: Ed25519 over the metadata without signature and content_sha256

So a changed byte is noticed without a key, and a forger is noticed with one. There is one way to
write a release, byte for byte; a file that says the same in other bytes is refused too.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pocketquery.sdk.bundle.adapter_tensors import Tensors, halves_of, tensors_sha256, widened
from pocketquery.sdk.bundle.manifest import ENCODER_FILE, Manifest
from pocketquery.sdk.bundle.safetensors import parse, parse_metadata, serialize
from pocketquery.sdk.bundle.signature import Key, check_signature, key_id, public_key_of, sign
from pocketquery.sdk.errors import (
    ArtifactNotFoundError,
    CorruptArtifactError,
    InvalidInputError,
    SignatureError,
    SpaceMismatchError,
    UnsupportedVersionError,
)
from pocketquery.sdk.fields import Fields
from pocketquery.sdk.files import sha256_bytes, write_atomic

__all__ = [
    "ADAPTER_FORMAT",
    "LARGEST_RELEASE",
    "AdapterRelease",
    "pack_adapter",
    "parse_adapter",
    "read_adapter",
    "write_adapter",
]

ADAPTER_FORMAT = "pocketquery-adapter"
ADAPTER_VERSION = 1
LARGEST_RELEASE = 100_000
"""Bytes; what a device downloads a round."""

_UNSIGNED = ("signature", "content_sha256")


@dataclass(frozen=True)
class AdapterRelease:
    """A release that was read and is sound in itself.

    Attributes:
        version: of the encoder that results, within its space.
        parent_version: of the encoder it was trained from; None where it has no parent.
        space_id: the space of its vectors.
        encoder_sha256: of the ``encoder.onnx`` it belongs to, hexadecimal.
        tensors: float32, by name; their values are float16's.
        tensors_sha256: the digest of the tensors.
        signature_key_id: which key it says it is signed by; None where it is not signed.
        sha256: of the whole file.
        bytes: size of the file.
    """

    version: str
    parent_version: str | None
    space_id: str
    encoder_sha256: str
    tensors: Mapping[str, NDArray[np.float32]]
    tensors_sha256: str
    signature_key_id: str | None
    sha256: str
    bytes: int


def pack_adapter(
    tensors: Tensors,
    *,
    manifest: Manifest,
    version: str,
    parent_version: str | None = None,
    signing_key: Key | None = None,
) -> bytes:
    """The bytes of a release; the same arguments give the same bytes.

    Args:
        tensors: every adapter tensor of the encoder; rounded to float16.
        manifest: of the bundle it is for.
        version: of the encoder that results, not empty.
        parent_version: of the encoder it was trained from.
        signing_key: an Ed25519 private key: 32 raw bytes, 64 hexadecimal digits or a PEM file.

    Raises:
        InvalidInputError: no tensors; NaN, infinity or what float16 cannot hold; another dtype;
            an empty version; above 100 KB.
    """
    halves = halves_of(tensors)
    if not halves or not version or parent_version == "":
        raise InvalidInputError(
            f"{len(halves)} adapter tensors, version {version!r}, parent {parent_version!r}: "
            "expected at least one tensor and versions that are not empty"
        )
    metadata = {
        "format": ADAPTER_FORMAT,
        "format_version": str(ADAPTER_VERSION),
        "encoder_version": version,
        "space_id": manifest.space.id,
        "encoder_sha256": manifest.files[ENCODER_FILE].sha256,
        "tensors_sha256": tensors_sha256(halves),
    }
    if parent_version is not None:
        metadata["parent_version"] = parent_version
    if signing_key is not None:
        metadata["signature_key_id"] = key_id(public_key_of(signing_key))
        metadata["signature"] = sign(_canonical(metadata), signing_key).hex()
    metadata["content_sha256"] = sha256_bytes(_canonical(metadata))
    data = serialize(halves, metadata)
    if len(data) > LARGEST_RELEASE:
        raise InvalidInputError(
            f"the adapter release has {len(data)} bytes, at most {LARGEST_RELEASE} may travel; "
            "export the bundle with a lower adapter rank"
        )
    return data


def write_adapter(
    path: Path | str,
    tensors: Tensors,
    *,
    manifest: Manifest,
    version: str,
    parent_version: str | None = None,
    signing_key: Key | None = None,
) -> AdapterRelease:
    """Write a release to ``path`` in one step. Arguments and errors as :func:`pack_adapter`.

    Raises:
        OSError: the disk is full or not writable; ``path`` is as it was before.
    """
    data = pack_adapter(
        tensors,
        manifest=manifest,
        version=version,
        parent_version=parent_version,
        signing_key=signing_key,
    )
    write_atomic(path, data)
    return parse_adapter(data, str(path))


def read_adapter(
    source: Path | str | bytes,
    *,
    manifest: Manifest,
    public_key: Key | None = None,
    name: str = "the adapter",
) -> AdapterRelease:
    """The release in ``source``, where it is sound and made for the bundle of ``manifest``.

    Whether the encoder has tensors of these names and shapes is known when it is bound.

    Args:
        source: a path, or the file's bytes.
        manifest: of the bundle.
        public_key: where given, the release must be signed by its private half.
        name: how to call it in an error where ``source`` are bytes.

    Raises:
        ArtifactNotFoundError: nothing is there.
        CorruptArtifactError: it was changed, is no release, or is for another ``encoder.onnx``.
        UnsupportedVersionError: written in a newer format version.
        SpaceMismatchError: it lives in another space.
        SignatureError: a key is given and the signature is absent or not made by it.
    """
    data = source if isinstance(source, bytes) else _read(Path(source))
    name = name if isinstance(source, bytes) else str(source)
    release = parse_adapter(data, name)
    if public_key is not None:
        _check_signed(parse_metadata(data, name), public_key, name)
    _check_fits(release, manifest, name)
    return release


def parse_adapter(data: bytes, name: str = "the adapter") -> AdapterRelease:
    """The release in ``data``, where it is sound in itself; of any bundle, by whomever signed.

    Raises:
        CorruptArtifactError: it was changed or is no release.
        UnsupportedVersionError: written in a newer format version.
    """
    if len(data) > LARGEST_RELEASE:
        raise CorruptArtifactError(
            f"{name}: more than {LARGEST_RELEASE} bytes, which no adapter release has"
        )
    halves, metadata = parse(data, name), parse_metadata(data, name)
    fields = Fields(metadata, name)
    _check_format(fields, name)
    try:
        _check_digests(data, halves, metadata, name)
    except UnicodeEncodeError as error:  # JSON can hold half of a character, UTF-8 cannot
        raise CorruptArtifactError(f"{name}: a text in it is no text: {error}") from error
    return AdapterRelease(
        version=fields.text("encoder_version"),
        parent_version=fields.text_or_none("parent_version"),
        space_id=fields.text("space_id"),
        encoder_sha256=fields.text("encoder_sha256"),
        tensors=widened(halves, name),
        tensors_sha256=metadata["tensors_sha256"],
        signature_key_id=fields.text_or_none("signature_key_id"),
        sha256=sha256_bytes(data),
        bytes=len(data),
    )


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(LARGEST_RELEASE + 1)
    except (FileNotFoundError, IsADirectoryError, ValueError) as error:  # ValueError: a NUL in it
        raise ArtifactNotFoundError(
            f"{os.fspath(path)!r}: found no adapter release there, expected a file that rounds or "
            "pocketquery releases wrote"
        ) from error


def _canonical(metadata: Mapping[str, str]) -> bytes:
    return json.dumps(
        dict(metadata), ensure_ascii=False, sort_keys=True, separators=(",", ":")
    ).encode("utf-8")


def _without(metadata: Mapping[str, str], *names: str) -> dict[str, str]:
    return {name: value for name, value in metadata.items() if name not in names}


def _check_format(fields: Fields, name: str) -> None:
    if fields.text("format") != ADAPTER_FORMAT:
        raise CorruptArtifactError(
            f"{name}: found {fields.text('format')!r}, expected an adapter release "
            f"({ADAPTER_FORMAT!r})"
        )
    version = fields.text("format_version")
    if version == str(ADAPTER_VERSION):
        return
    if version.isdecimal() and int(version) > ADAPTER_VERSION:
        raise UnsupportedVersionError(
            f"{name}: format_version is {version}, this release reads up to {ADAPTER_VERSION}; "
            "update pocketquery"
        )
    raise CorruptArtifactError(
        f"{name}: format_version is {version!r}, expected {ADAPTER_VERSION!r}"
    )


def _check_digests(data: bytes, halves: Tensors, metadata: Mapping[str, str], name: str) -> None:
    found = {
        "content_sha256": sha256_bytes(_canonical(_without(metadata, "content_sha256"))),
        "tensors_sha256": sha256_bytes(serialize(halves)),
    }
    for digest, value in found.items():
        if metadata.get(digest) != value:
            raise CorruptArtifactError(
                f"{name}: {digest} is {metadata.get(digest)!r}, its content gives {value!r}; it "
                "was changed. Fetch it again"
            )
    if serialize(halves, metadata) != data:
        raise CorruptArtifactError(
            f"{name}: not in the bytes a release is written in; it was changed. Fetch it again"
        )


def _check_signed(metadata: Mapping[str, str], public_key: Key, name: str) -> None:
    if "signature" not in metadata:
        raise SignatureError(
            f"{name}: the adapter is not signed, expected a signature by the key "
            f"{key_id(public_key)}"
        )
    try:
        signature = bytes.fromhex(metadata["signature"])
        check_signature(_canonical(_without(metadata, *_UNSIGNED)), signature, public_key)
    except (ValueError, SignatureError) as error:
        if isinstance(error, InvalidInputError):  # the key is none
            raise
        raise SignatureError(
            f"{name}: the adapter's signature was not made by the key {key_id(public_key)} (it "
            f"names {metadata.get('signature_key_id')!r}); it was changed, or comes from somebody "
            "else. Fetch it from its publisher"
        ) from error


def _check_fits(release: AdapterRelease, manifest: Manifest, name: str) -> None:
    bundle = f"the bundle {manifest.name!r}"
    if release.space_id != manifest.space.id:
        raise SpaceMismatchError(
            f"{name}: the adapter is of space {release.space_id}, {bundle} lives in space "
            f"{manifest.space.id}; fetch the adapter of this bundle"
        )
    expected = manifest.files[ENCODER_FILE].sha256
    if release.encoder_sha256 != expected:
        raise CorruptArtifactError(
            f"{name}: the adapter is for the {ENCODER_FILE} with SHA-256 "
            f"{release.encoder_sha256}, {bundle} has {expected}; fetch the adapter of this bundle"
        )

"""An adapter release: a small file that updates a bundle's encoder, and proves its origin.

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
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from pocketquery.sdk.arrays import NDArray, Tensors
from pocketquery.sdk.bundle.adapter_tensors import halves_of, tensors_sha256, widened
from pocketquery.sdk.bundle.manifest import ADAPTER_FILE, ENCODER_FILE, Manifest
from pocketquery.sdk.bundle.safetensors import parse, parse_metadata, serialize
from pocketquery.sdk.bundle.signature import Key, check_signature, key_id, public_key_of, sign
from pocketquery.sdk.bundle.storage import read_file
from pocketquery.sdk.errors import (
    ArtifactError,
    ArtifactNotFoundError,
    CorruptArtifactError,
    InvalidInputError,
    SignatureError,
    SpaceMismatchError,
    UnsupportedVersionError,
)
from pocketquery.sdk.fields import Fields, shortened
from pocketquery.sdk.files import check_file_replaceable, checked_path, sha256_bytes, write_atomic

if TYPE_CHECKING:
    from pathlib import Path

__all__ = [
    "ADAPTER_FORMAT",
    "LARGEST_RELEASE",
    "AdapterRelease",
    "check_adapter_place",
    "check_belongs",
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
_MOST_CHARACTERS = 1024  # of a version, an id
_MOST_DIGITS = 20


class AdapterRelease(NamedTuple):
    """A release that was read and is sound in itself.

    Attributes:
        version: of the encoder that results, within its space.
        parent_version: of the encoder it was trained from; None where it has no parent.
        space_id: the space of its vectors.
        encoder_sha256: of the ``encoder.onnx`` it belongs to, hexadecimal.
        tensors: float32, by name; their values are float16's.
        tensors_sha256: the digest of the tensors.
        signature_key_id: which key it says it is signed by; None where it is not signed.
        signed_by: the id of the key its signature was checked with; None where no key was given.
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
    signed_by: str | None = None

    def check_belongs(self, manifest: Manifest, name: str, mend: str) -> None:
        """See that it is for the bundle of ``manifest``.

        Args:
            manifest: of the bundle.
            name: how to call the release, or what holds it, in an error.
            mend: what to do where it is for another.

        Raises:
            SpaceMismatchError: it lives in another space; names both.
            CorruptArtifactError: it is for another ``encoder.onnx``; names both.
        """
        check_belongs(self.space_id, self.encoder_sha256, manifest, name, mend)


def check_belongs(
    space_id: str, encoder_sha256: str, manifest: Manifest, name: str, mend: str
) -> None:
    """See that what is of this space and ``encoder.onnx`` is for the bundle of ``manifest``. The
    rest as :meth:`AdapterRelease.check_belongs`."""
    bundle = f"the bundle {manifest.name!r}"
    if space_id != manifest.space.id:
        raise SpaceMismatchError(
            f"{name}: the adapter is of space {space_id}, {bundle} lives in space "
            f"{manifest.space.id}; {mend}"
        )
    expected = manifest.files[ENCODER_FILE].sha256
    if encoder_sha256 != expected:
        raise CorruptArtifactError(
            f"{name}: the adapter is for the {ENCODER_FILE} with SHA-256 {encoder_sha256}, "
            f"{bundle} has {expected}; {mend}"
        )


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
        InvalidInputError: also where ``path`` holds something else than a release.
        OSError: the disk is full or not writable; ``path`` is as it was before.
    """
    check_adapter_place(path)
    data = pack_adapter(
        tensors,
        manifest=manifest,
        version=version,
        parent_version=parent_version,
        signing_key=signing_key,
    )
    write_atomic(path, data)
    return parse_adapter(data, str(path))


def check_adapter_place(path: Path | str) -> None:
    """See that :func:`write_adapter` can write to ``path`` and would destroy nothing.

    Raises:
        InvalidInputError: ``path`` is there and no release, or its folder is not there or not
            writable.
    """
    place = checked_path(path, "the adapter")
    check_file_replaceable(
        place, "an adapter release", lambda path: parse_adapter(_read(path), str(path))
    )
    folder = place.parent
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        state = "is not writable" if folder.is_dir() else "is not a folder"
        raise InvalidInputError(
            f"{folder} {state}, expected one to write {place.name} to; make it or name another"
        )


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
    data = source if isinstance(source, bytes) else _read(source)
    name = name if isinstance(source, bytes) else str(source)
    signed_by = None if public_key is None else _check_signed(data, public_key, name)
    release = parse_adapter(data, name)._replace(signed_by=signed_by)
    release.check_belongs(manifest, name, "fetch the adapter of this bundle")
    return release


def parse_adapter(data: bytes, name: str = "the adapter") -> AdapterRelease:
    """The release in ``data``, where it is sound in itself; of any bundle, by whomever signed.

    Raises:
        CorruptArtifactError: it was changed or is no release.
        UnsupportedVersionError: written in a newer format version.
    """
    metadata = _metadata(data, name)
    fields = Fields(metadata, name)
    _check_format(fields, name)
    halves = parse(data, name)
    try:
        _check_digests(data, halves, metadata, name)
    except UnicodeEncodeError as error:  # JSON can hold half of a character, UTF-8 cannot
        raise CorruptArtifactError(f"{name}: a text in it is no text: {error}") from error
    return AdapterRelease(
        version=fields.text("encoder_version", _MOST_CHARACTERS),
        parent_version=fields.text_or_none("parent_version", _MOST_CHARACTERS),
        space_id=fields.text("space_id", _MOST_CHARACTERS),
        encoder_sha256=fields.text("encoder_sha256", _MOST_CHARACTERS),
        tensors=widened(halves, name),
        tensors_sha256=metadata["tensors_sha256"],
        signature_key_id=fields.text_or_none("signature_key_id", _MOST_CHARACTERS),
        sha256=sha256_bytes(data),
        bytes=len(data),
    )


def _read(path: Path | str) -> bytes:
    try:
        return read_file(path, LARGEST_RELEASE + 1)
    except (ArtifactError, ValueError) as error:  # ValueError: a NUL in it
        raise ArtifactNotFoundError(
            f"{os.fspath(path)!r}: found no adapter release there, expected a file that rounds or "
            f"pocketquery releases wrote ({error})"
        ) from error


def _metadata(data: bytes, name: str) -> dict[str, str]:
    if len(data) > LARGEST_RELEASE:
        raise CorruptArtifactError(
            f"{name}: more than {LARGEST_RELEASE} bytes, which no adapter release has"
        )
    return parse_metadata(data, name)


def _canonical(metadata: Mapping[str, str]) -> bytes:
    return json.dumps(
        dict(metadata), ensure_ascii=False, sort_keys=True, separators=(",", ":")
    ).encode("utf-8")


def _without(metadata: Mapping[str, str], *names: str) -> dict[str, str]:
    return {name: value for name, value in metadata.items() if name not in names}


def _check_format(fields: Fields, name: str) -> None:
    if "format" not in fields:
        raise CorruptArtifactError(
            f"{name}: tensors without a format, expected an adapter release ({ADAPTER_FORMAT!r}); "
            f"a bundle's own {ADAPTER_FILE} is none, and is loaded with its bundle"
        )
    format = fields.text("format", _MOST_CHARACTERS)
    if format != ADAPTER_FORMAT:
        raise CorruptArtifactError(
            f"{name}: found {format!r}, expected an adapter release ({ADAPTER_FORMAT!r})"
        )
    version = fields.text("format_version", _MOST_DIGITS)
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
    digests = {
        "content_sha256": sha256_bytes(_canonical(_without(metadata, "content_sha256"))),
        "tensors_sha256": sha256_bytes(serialize(halves)),
    }
    for digest, value in digests.items():
        if metadata.get(digest) != value:
            recorded = shortened(str(metadata.get(digest)))
            raise CorruptArtifactError(
                f"{name}: {digest} is {recorded!r}, its content gives {value!r}; it was changed. "
                "Fetch it again"
            )
    if serialize(halves, metadata) != data:
        raise CorruptArtifactError(
            f"{name}: not in the bytes a release is written in; it was changed. Fetch it again"
        )


def _check_signed(data: bytes, public_key: Key, name: str) -> str:
    """The id of ``public_key``, where the metadata, which holds the tensors' digest, is signed by
    it; before anything else of the file is read."""
    metadata, expected = _metadata(data, name), key_id(public_key)
    if "signature" not in metadata:
        raise SignatureError(
            f"{name}: the adapter is not signed, expected a signature by the key {expected}"
        )
    try:
        signature = bytes.fromhex(metadata["signature"])
        check_signature(_canonical(_without(metadata, *_UNSIGNED)), signature, public_key)
    except (ValueError, SignatureError) as error:
        if isinstance(error, InvalidInputError):  # the key is none
            raise
        raise SignatureError(
            f"{name}: the adapter's signature was not made by the key {expected} (it "
            f"names {shortened(str(metadata.get('signature_key_id')))!r}); it was changed, or "
            "comes from somebody else. Fetch it from its publisher"
        ) from error
    return expected

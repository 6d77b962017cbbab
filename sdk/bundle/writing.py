"""Writing a bundle, and packing a folder into a zip without compression."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path

from pocketquery.sdk.bundle.manifest import (
    FORMAT,
    MANIFEST_FILE,
    SIGNATURE_FILE,
    FileEntry,
    Manifest,
)
from pocketquery.sdk.bundle.signature import Key, key_id, public_key_of, sign
from pocketquery.sdk.errors import ArtifactNotFoundError, InvalidInputError
from pocketquery.sdk.files import checked_path, sha256_bytes, write_atomic
from pocketquery.sdk.folders import FolderKind, check_replaceable, replace_folder

__all__ = ["BUNDLE_FOLDER", "file_entries", "pack", "pack_files", "write_bundle"]

BUNDLE_FOLDER = FolderKind(
    "a bundle",
    MANIFEST_FILE,
    FORMAT,
    # README.md: a model card, which the bundle does not name.
    (MANIFEST_FILE, SIGNATURE_FILE, "*.onnx", "*.safetensors", "*.json", "*.model", "README.md"),
)

# The earliest date a zip can hold: no timestamp of ours in the bytes.
_EPOCH = (1980, 1, 1, 0, 0, 0)


def file_entries(files: Mapping[str, bytes]) -> dict[str, FileEntry]:
    """The manifest's ``files`` for these contents."""
    return {name: FileEntry(sha256_bytes(data), len(data)) for name, data in files.items()}


def write_bundle(
    folder: Path | str,
    manifest: Manifest,
    files: Mapping[str, bytes],
    *,
    signing_key: Key | None = None,
) -> Manifest:
    """Write a bundle; a crash at any moment leaves the old one or the new one, whole.

    Args:
        folder: where; an existing bundle there is replaced.
        manifest: with ``files=file_entries(files)``; ``signature_key_id`` is filled in here.
        files: the content of every file but manifest.json and signature.
        signing_key: an Ed25519 private key: 32 raw bytes, 64 hexadecimal digits or a PEM file.

    Returns:
        The manifest as written.

    Raises:
        InvalidInputError: ``manifest.files`` is not of ``files``, ``folder`` holds something that
            is not a bundle, or the key is none.
        CorruptArtifactError: a field of the manifest is out of its bounds.
        OSError: the disk is full or not writable; ``folder`` is as it was before.
    """
    folder = checked_path(folder, "the bundle")
    if dict(manifest.files) != file_entries(files):
        raise InvalidInputError(
            f"{folder}: the manifest's files are not the files given; "
            "build it with files=file_entries(files)"
        )
    check_replaceable(folder, BUNDLE_FOLDER)
    signer = None if signing_key is None else key_id(public_key_of(signing_key))
    manifest = manifest._replace(signature_key_id=signer)
    data = manifest.to_json()
    Manifest.from_json(data)  # nothing is written that would not be read
    signature = None if signing_key is None else sign(data, signing_key)
    with replace_folder(folder) as temporary:
        for name, content in files.items():
            (temporary / name).write_bytes(content)
        (temporary / MANIFEST_FILE).write_bytes(data)
        if signature is not None:
            (temporary / SIGNATURE_FILE).write_bytes(signature)
    return manifest


def pack(folder: Path | str, zip_path: Path | str) -> None:
    """Zip the files of ``folder`` without compression; the same files give the same bytes.

    Weights do not compress, and stored files can be read in place. Written to a temporary file
    and renamed.

    Raises:
        ArtifactNotFoundError: there is no such folder.
        OSError: the disk is full or not writable; an older ``zip_path`` is as it was before.
    """
    folder = checked_path(folder, "the folder")
    if not folder.is_dir():
        raise ArtifactNotFoundError(f"{folder}: found no folder there, expected one to pack")
    files = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    pack_files(files, zip_path)


def pack_files(files: Mapping[str, bytes], zip_path: Path | str, *, mode: int = 0o666) -> None:
    """Zip ``files`` by name as :func:`pack` does. ``mode``: as for :func:`write_atomic`. Raises
    OSError as :func:`pack` does."""
    write_atomic(zip_path, _zip_bytes(files), mode=mode)


def _zip_bytes(files: Mapping[str, bytes]) -> bytes:
    import zipfile  # here: most bundles are written as folders

    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name, data in sorted(files.items()):
            entry = zipfile.ZipInfo(name, _EPOCH)
            entry.create_system = 3  # Unix, wherever it is packed
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, data)
    return buffer.getvalue()

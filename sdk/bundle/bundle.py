"""A query encoder on disk: a folder, or the same folder zipped.

    manifest.json                        what it is; the hash and size of every other file
    encoder.onnx                         ids -> sentence_embedding
    tokenizer.json | tokenizer.model     text -> ids
    golden.json                          texts with their ids and vectors, replayed by verify
    adapter.safetensors                  optional: values for the adapter's tensors
    signature                            optional: Ed25519 over the bytes of manifest.json

Each file is checked on the very bytes that are then used, so nothing can change in between: with a
key, first the signature of the manifest's bytes, then what they say. Files the manifest does not
name are ignored and never read.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from pocketquery.sdk.bundle.manifest import (
    ADAPTER_FILE,
    ENCODER_FILE,
    MANIFEST_FILE,
    MOST_MANIFEST_BYTES,
    FileEntry,
    Manifest,
)
from pocketquery.sdk.bundle.safetensors import parse
from pocketquery.sdk.bundle.storage import Storage, open_storage
from pocketquery.sdk.errors import (
    ArtifactError,
    ArtifactNotFoundError,
    CorruptArtifactError,
    InvalidInputError,
)
from pocketquery.sdk.onnx_model import AnonymousFile

if TYPE_CHECKING:
    from pathlib import Path

    from pocketquery.sdk.arrays import NDArray
    from pocketquery.sdk.bundle.signature import Key

__all__ = ["Bundle"]

_OTHER_ARTIFACTS = {  # artefacts that are taken for a bundle, by a file of theirs
    "delta.json": "this is a delta: pocketquery delta show checks it",
    "index.json": "this is an index",
}


class Bundle:
    """An opened bundle: its manifest is checked, its files are checked as they are read.

    Attributes:
        storage: its files.
        manifest: what it says of itself; ``manifest.signature_key_id`` is who it says signed it.
        manifest_bytes: the bytes of ``manifest.json``.
        public_key: whose signature of them was checked, 32 raw bytes; None where no key was given.
    """

    def __init__(
        self,
        storage: Storage,
        manifest: Manifest,
        manifest_bytes: bytes,
        public_key: bytes | None = None,
    ) -> None:
        self.storage = storage
        self.manifest = manifest
        self.manifest_bytes = manifest_bytes
        self.public_key = public_key

    @classmethod
    def open(cls, path: Path | str, *, public_key: Key | None = None) -> Bundle:
        """The bundle at ``path``, a folder or a zip.

        Args:
            path: the folder or zip.
            public_key: where given, the bundle must be signed by its private half: 32 raw bytes,
                64 hexadecimal digits or the path of a PEM file.

        Raises:
            ArtifactNotFoundError: nothing is there, or no manifest in it.
            CorruptArtifactError: the zip or the manifest is not as described.
            UnsupportedVersionError: written in a newer format version.
            SignatureError: a key is given and the signature is absent or not made by it; or the
                manifest names a key and there is no signature.
        """
        storage = open_storage(path)
        if storage.size(MANIFEST_FILE) is None:
            other = next(
                (kind for name, kind in _OTHER_ARTIFACTS.items() if storage.size(name)), None
            )
            raise ArtifactNotFoundError(
                f"{path}: found no {MANIFEST_FILE} in it, expected a bundle "
                f"({other or 'pocketquery export writes one; an index has an index.json'})"
            )
        data = storage.read(MANIFEST_FILE, MOST_MANIFEST_BYTES + 1)
        checked = None if public_key is None else _check_signature(storage, data, public_key)
        manifest = Manifest.from_json(data)
        if manifest.signature_key_id is not None:
            from pocketquery.sdk.bundle.signature import check_present

            check_present(storage, manifest.signature_key_id)
        return cls(storage, manifest, data, checked)

    @property
    def path(self) -> Path:
        """The bundle's folder or zip."""
        from pathlib import Path  # here: it takes 4 ms

        return Path(self.storage)

    @property
    def signed_by(self) -> str | None:
        """The id of the key the signature was checked with; None where no key was given, whatever
        the manifest says of itself."""
        if self.public_key is None:
            return None
        from pocketquery.sdk.bundle.signature import key_id

        return key_id(self.public_key)

    def __contains__(self, name: str) -> bool:
        return name in self.manifest.files

    def read(self, name: str, *, verify_hash: bool = True) -> bytes:
        """The bytes of the file ``name``, checked against the manifest.

        Args:
            name: a file the manifest names.
            verify_hash: False checks the size alone.

        Raises:
            InvalidInputError: the manifest names no such file.
            ArtifactNotFoundError: the file is not there.
            CorruptArtifactError: its size or hash differs from the manifest's.
        """
        entry = self._entry(name)
        data = self.storage.read(name, entry.bytes + 1)
        sha256 = hashlib.sha256(data).hexdigest() if verify_hash else None
        self._check(name, entry, len(data), sha256)
        return data

    def model(self, *, verify_hash: bool = True) -> bytes | AnonymousFile:
        """encoder.onnx as :func:`pocketquery.sdk.onnx_model.open_session` takes it soonest.

        Where the system has anonymous files it is one, else bytes. Argument and errors as
        :meth:`read`.
        """
        entry = self._entry(ENCODER_FILE)
        try:
            model = AnonymousFile(ENCODER_FILE)
            digest = hashlib.sha256()
            for piece in self.storage.pieces(ENCODER_FILE, entry.bytes + 1):
                if verify_hash:
                    digest.update(piece)
                model.write(piece)
        except ArtifactError:  # some are an OSError too
            raise
        except OSError:
            return self.read(ENCODER_FILE, verify_hash=verify_hash)
        self._check(ENCODER_FILE, entry, len(model), digest.hexdigest() if verify_hash else None)
        return model

    def _entry(self, name: str) -> FileEntry:
        """What the manifest says of a file that is there, and of that size."""
        entry = self.manifest.files.get(name)
        if entry is None:
            known = ", ".join(sorted(self.manifest.files))
            raise InvalidInputError(
                f"{self.path}: the manifest names no file {name!r}, only {known}"
            )
        size = self.storage.size(name)
        if size is None:
            raise ArtifactNotFoundError(
                f"{self.path}: {name} is missing; fetch or export the bundle again"
            )
        self._check(name, entry, size, None)
        return entry

    def _check(self, name: str, entry: FileEntry, size: int, sha256: str | None) -> None:
        """Compare what was found with the manifest's, by size and, unless None, by hash."""
        if size != entry.bytes:
            raise CorruptArtifactError(
                f"{self.path}: {name} has {size} bytes, the manifest says {entry.bytes}; it is "
                "truncated or was changed. Fetch or export the bundle again"
            )
        if sha256 not in (None, entry.sha256):
            raise CorruptArtifactError(
                f"{self.path}: {name} has SHA-256 {sha256}, the manifest says {entry.sha256}; it "
                "was changed. Fetch or export the bundle again"
            )

    def adapter(
        self, *, verify_hash: bool = True, required: bool = False
    ) -> dict[str, NDArray[Any]]:
        """The adapter it was shipped with: tensors by name, as the file has them.

        Args:
            verify_hash: as for :meth:`read`.
            required: whether it must have one; else there are no tensors where it has none.

        Raises:
            InvalidInputError: it is required, and the bundle has none.
            ArtifactNotFoundError, CorruptArtifactError: as :meth:`read`, or the file is none.
        """
        if ADAPTER_FILE in self:
            return parse(self.read(ADAPTER_FILE, verify_hash=verify_hash), ADAPTER_FILE)
        if required:
            raise InvalidInputError(
                f"{self.path} has no {ADAPTER_FILE}; export it again with an adapter"
            )
        return {}

    def check_files(self) -> None:
        """Read and check every file the manifest names. Raises as :meth:`read`."""
        for name in self.manifest.files:
            self.read(name)

    def checked_by(self, public_key: Key) -> Bundle:
        """The same bundle, as if it had been opened with ``public_key``.

        Raises:
            SignatureError: there is no signature, or it was not made by that key.
        """
        checked = _check_signature(self.storage, self.manifest_bytes, public_key)
        return Bundle(self.storage, self.manifest, self.manifest_bytes, checked)


def _check_signature(storage: Storage, manifest: bytes, public_key: Key) -> bytes:
    """The key's 32 bytes, where it signed the bytes of the manifest."""
    from pocketquery.sdk.bundle.signature import check_detached  # here: few bundles are signed

    return check_detached(storage, manifest, public_key)

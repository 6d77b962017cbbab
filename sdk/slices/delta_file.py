"""A delta: one file with what changed from an index to the next version of it.

A zip without compression of ``delta.json``, its signature where it has one, and four parts, each
packed by zlib: ``order`` says which rows of the old index and which new documents follow one
another, ``removed`` has the ids that go, ``documents`` and ``vectors`` what comes.
docs/formats/search-index.md has them byte by byte.
"""

from __future__ import annotations

import hashlib
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NoReturn

import numpy as np

from pocketquery.sdk.arrays import NDArray, Rows
from pocketquery.sdk.bundle.manifest import SIGNATURE_FILE
from pocketquery.sdk.bundle.signature import (
    Key,
    check_detached,
    check_present,
    key_id,
    public_key_of,
    sign,
)
from pocketquery.sdk.bundle.storage import ZipStorage
from pocketquery.sdk.bundle.writing import pack_files
from pocketquery.sdk.errors import CorruptArtifactError, InvalidInputError
from pocketquery.sdk.index.contents import StoredTexts, packed_texts
from pocketquery.sdk.index.delta_manifest import (
    DELTA_FILE,
    MOST_DELTA_BYTES,
    PARTS,
    DeltaManifest,
    PartRecord,
    manifest_bytes,
    parse_manifest,
)
from pocketquery.sdk.index.documents import Document, check_document, stored_document
from pocketquery.sdk.index.vector_file import Codes
from pocketquery.sdk.plain_files import plain_size

__all__ = ["NEW", "Changes", "Delta", "write_delta"]

NEW = (1 << 32) - 1
"""In the place of an old row: the next of the new documents."""

_RUN = np.dtype([("first", "<u4"), ("count", "<u4")])
_LENGTH = struct.Struct("<I")
_SIGNATURE_BYTES = 64


@dataclass(frozen=True)
class Changes:
    """What a delta's parts say.

    Attributes:
        order: int64 (n,), for each row of the new index the old one's row, or -1 for the next of
            ``documents``. Applying a delta checks that the rows left out are those removed or
            changed, and that no row comes twice.
        removed: the ids that go.
        documents: those that come or change, in the order of the new index.
        codes: their vectors, uint8 (m, dimension + 4).
    """

    order: Rows
    removed: list[str]
    documents: list[Document]
    codes: Codes


def write_delta(
    path: Path | str,
    manifest: DeltaManifest,
    order: Rows,
    removed: list[str],
    documents: list[StoredTexts],
    codes: Codes,
    signing_key: Key | None,
    *,
    mode: int,
) -> DeltaManifest:
    """Write the delta at ``path`` in one step, with the permissions ``mode`` less the umask;
    ``manifest`` with its parts and its signer.

    Raises:
        InvalidInputError: a part is larger than a device reads.
        OSError: the disk is full or not writable; an older file is as it was before.
    """
    plain = {
        "order": _runs(order).tobytes(),
        "removed": packed_texts(*removed),
        "documents": b"".join(packed_texts(*one) for one in documents),
        "vectors": codes.tobytes(),
    }
    files = {name: zlib.compress(data, 9) for name, data in plain.items()}
    parts = {
        name: PartRecord(hashlib.sha256(data).hexdigest(), len(data), len(plain[name]))
        for name, data in files.items()
    }
    signer = None if signing_key is None else key_id(public_key_of(signing_key))
    manifest = replace(manifest, parts=parts, signature_key_id=signer)
    files[DELTA_FILE] = manifest_bytes(manifest)
    try:
        parse_manifest(files[DELTA_FILE], DELTA_FILE)
    except CorruptArtifactError as error:
        raise InvalidInputError(
            f"no device could read the delta {path} ({error}); publish the whole index"
        ) from error
    if signing_key is not None:
        files[SIGNATURE_FILE] = sign(files[DELTA_FILE], signing_key)
    pack_files(files, path, mode=mode)
    return manifest


class Delta:
    """The delta in the file at ``path``.

    Args:
        path: the file.
        public_key: the delta must be signed by its private half: 32 raw bytes, 64 hexadecimal
            digits or a PEM file.

    Attributes:
        manifest: what it says of itself; nothing else is parsed before it is asked for.
        signed_by: the id of the key that was checked; None where none was given.

    Raises:
        ArtifactNotFoundError: no such file.
        CorruptArtifactError, UnsupportedVersionError: not a delta, or a newer version's.
        SignatureError: a key is given and it is not signed by it; or it says it is signed and is
            not.
        InvalidInputError: the key is none.
    """

    def __init__(self, path: Path | str, public_key: Key | None = None) -> None:
        self.path = Path(path)
        mend = "expected a delta, which pocketquery delta make writes"
        plain_size(self.path, mend)  # a pipe would be waited on
        self._storage = ZipStorage(self.path)
        self._description = self._file(DELTA_FILE, MOST_DELTA_BYTES + 1)
        self.signed_by: str | None = None
        if public_key is not None:
            raw = check_detached(self._storage, self._description, public_key, DELTA_FILE)
            self.signed_by = key_id(raw)
        self.manifest = parse_manifest(self._description, f"{path}: {DELTA_FILE}")
        check_present(self._storage, self.manifest.signature_key_id)

    def proof(self) -> dict[str, bytes]:
        """What is beside an index whose contents are signed through this delta, by name."""
        if self.manifest.signature_key_id is None:
            return {}
        signature = self._file(SIGNATURE_FILE, _SIGNATURE_BYTES)
        return {DELTA_FILE: self._description, SIGNATURE_FILE: signature}

    def check(self) -> None:
        """Compare size and SHA-256 of every part.

        Raises:
            CorruptArtifactError: names the part.
        """
        for name in PARTS:
            self._packed(name)

    def read(self) -> Changes:
        """What the parts say.

        Raises:
            CorruptArtifactError: a part is not what the description names, or can be of no delta.
        """
        manifest = self.manifest
        count = manifest.added + manifest.changed
        width = manifest.dimension + 4
        vectors = self._part("vectors")
        if len(vectors) != count * width:
            self._refuse("vectors", f"{len(vectors)} bytes, expected {count} rows of {width}")
        documents = [self._document(*texts) for texts in self._texts("documents", count, 3)]
        return Changes(
            order=self._order(count),
            removed=[texts[0] for texts in self._texts("removed", manifest.removed, 1)],
            documents=documents,
            codes=np.frombuffer(vectors, np.uint8).reshape(count, width),
        )

    def _document(self, identifier: str, metadata: str, text: str) -> Document:
        document = stored_document(identifier, text, metadata)
        check_document(document, f"a document of {self.path}")
        return document

    def _order(self, count: int) -> Rows:
        data, manifest = self._part("order"), self.manifest
        if len(data) % _RUN.itemsize:
            self._refuse("order", f"{len(data)} bytes, expected runs of {_RUN.itemsize}")
        runs = np.frombuffer(data, _RUN)
        first, counts = runs["first"].astype(np.int64), runs["count"].astype(np.int64)
        new = first == NEW
        unchanged = manifest.old.documents - manifest.removed - manifest.changed
        inside = (first + counts <= manifest.old.documents)[~new].all()
        if not inside or counts[new].sum() != count or counts[~new].sum() != unchanged:
            self._refuse("order", f"other rows than {unchanged} old and {count} new ones")
        # From here on it is no longer than the two indexes.
        starts = np.repeat(np.where(new, -1, first), counts)
        within = np.arange(len(starts)) - np.repeat(np.cumsum(counts) - counts, counts)
        return np.where(starts < 0, -1, starts + within)

    def _texts(self, name: str, count: int, each: int) -> Iterator[list[str]]:
        """``count`` times ``each`` texts of a part, and nothing behind them."""
        data, at = self._part(name), 0
        for _ in range(count):
            texts = []
            for _ in range(each):
                start = at + _LENGTH.size
                if start > len(data):
                    self._refuse(name, "an end within a text")
                at = start + int(_LENGTH.unpack_from(data, start - _LENGTH.size)[0])
                if at > len(data):
                    self._refuse(name, "an end within a text")
                try:
                    texts.append(data[start:at].decode("utf-8"))
                except UnicodeDecodeError:
                    self._refuse(name, "a text that is not UTF-8")
            yield texts
        if at != len(data):
            self._refuse(name, f"{len(data) - at} bytes behind the last text")

    def _part(self, name: str) -> bytes:
        """A part, unpacked to what the description says and no further."""
        record, unpacker = self.manifest.parts[name], zlib.decompressobj()
        try:
            data = unpacker.decompress(self._packed(name), record.unpacked_bytes + 1)
        except zlib.error as error:
            self._refuse(name, f"no zlib stream ({error})")
        if len(data) != record.unpacked_bytes or not unpacker.eof or unpacker.unused_data:
            self._refuse(name, f"another size than {record.unpacked_bytes} bytes unpacked")
        return data

    def _packed(self, name: str) -> bytes:
        record = self.manifest.parts[name]
        data = self._file(name, record.bytes + 1)
        if len(data) != record.bytes or hashlib.sha256(data).hexdigest() != record.sha256:
            self._refuse(name, "another size or SHA-256 than its description names")
        return data

    def _file(self, name: str, limit: int) -> bytes:
        if self._storage.size(name) is None:
            raise CorruptArtifactError(
                f"{self.path} lacks {name}; it is no delta, or a part was taken away. Fetch it anew"
            )
        return self._storage.read(name, limit)

    def _refuse(self, part: str, found: str) -> NoReturn:
        raise CorruptArtifactError(
            f"{self.path}: the part {part!r} has {found}; fetch the delta anew, or the whole index"
        )


def _runs(order: Rows) -> NDArray[np.void]:
    """``order`` as runs of rows that follow one another."""
    new = order < 0
    if not len(order):
        return np.zeros(0, _RUN)
    follows = np.where(new[1:], new[:-1], ~new[:-1] & (np.diff(order) == 1))
    starts = np.concatenate([[0], 1 + np.flatnonzero(~follows)])
    runs = np.zeros(len(starts), _RUN)
    runs["first"] = np.where(new[starts], NEW, order[starts])
    runs["count"] = np.diff(np.concatenate([starts, [len(order)]]))
    return runs

"""``delta.json``: the contents of an index that a delta starts from, and those it leads to.

It describes a delta, and is signed where the delta is. With its signature it stays beside an index
that the delta was applied to. The publisher signed the hash of the contents (see
:mod:`pocketquery.sdk.index.contents`), which the device's files have though their bytes may differ.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from pocketquery.sdk.errors import CorruptArtifactError
from pocketquery.sdk.fields import Fields
from pocketquery.sdk.index.vector_file import MOST_DIMENSIONS

__all__ = [
    "DELTA_FILE",
    "MOST_DELTA_BYTES",
    "PARTS",
    "Contents",
    "DeltaManifest",
    "PartRecord",
    "manifest_bytes",
    "parse_manifest",
]

DELTA_FILE = "delta.json"
PARTS = ("order", "removed", "documents", "vectors")
MOST_DELTA_BYTES = 1 << 16  # of delta.json, which has a thousand
_MOST_PART = 1 << 30  # bytes, unpacked; a delta of more is no smaller than its index
_MOST_DOCUMENTS = (1 << 32) - 1
_FORMAT = "pocketquery-delta"
_VERSION = 2


@dataclass(frozen=True)
class Contents:
    """What an index holds: its hash, and how many documents."""

    sha256: str
    documents: int


@dataclass(frozen=True)
class PartRecord:
    """A part of a delta: hash and size in the file, and its size unpacked."""

    sha256: str
    bytes: int
    unpacked_bytes: int


@dataclass(frozen=True)
class DeltaManifest:
    """What ``delta.json`` says.

    Attributes:
        space_id: of both indexes.
        dimension: of their vectors.
        old: what the delta was made from.
        new: what it leads to.
        removed: how many documents go.
        added: how many come.
        changed: how many have another text, other metadata or another vector under their id.
        parts: the parts of the delta by name.
        signature_key_id: of the key it says it is signed by; None where it is not signed.
    """

    space_id: str
    dimension: int
    old: Contents
    new: Contents
    removed: int
    added: int
    changed: int
    parts: Mapping[str, PartRecord]
    signature_key_id: str | None = None


def parse_manifest(data: bytes, source: str) -> DeltaManifest:
    """What ``data``, the bytes of a ``delta.json`` that errors call ``source``, say.

    Raises:
        CorruptArtifactError: not a delta's.
        UnsupportedVersionError: of another version.
    """
    fields = Fields.of_json(data, source, most_bytes=MOST_DELTA_BYTES)
    rebuild = "make a new one of two indexes of this release: pocketquery delta"
    fields.check_format(_FORMAT, _VERSION, _VERSION, rebuild)
    space, parts = fields.child("space"), fields.child("parts")
    counts = [fields.integer(name, 0, _MOST_DOCUMENTS) for name in ("removed", "added", "changed")]
    manifest = DeltaManifest(
        space_id=space.text("id"),
        dimension=space.integer("dimension", 1, MOST_DIMENSIONS),
        old=_contents(fields.child("from")),
        new=_contents(fields.child("to")),
        removed=counts[0],
        added=counts[1],
        changed=counts[2],
        parts={name: _part(parts.child(name)) for name in PARTS},
        signature_key_id=fields.text_or_none("signature_key_id"),
    )
    if manifest.old.documents - manifest.removed + manifest.added != manifest.new.documents:
        raise CorruptArtifactError(
            f"{source}: {manifest.old.documents} documents less {manifest.removed} and "
            f"{manifest.added} more are not {manifest.new.documents}; fetch the delta anew"
        )
    return manifest


def manifest_bytes(manifest: DeltaManifest) -> bytes:
    """The bytes of ``delta.json``."""
    signer = manifest.signature_key_id
    fields = {
        "format": _FORMAT,
        "format_version": _VERSION,
        "space": {"id": manifest.space_id, "dimension": manifest.dimension},
        "from": {"contents_sha256": manifest.old.sha256, "documents": manifest.old.documents},
        "to": {"contents_sha256": manifest.new.sha256, "documents": manifest.new.documents},
        "removed": manifest.removed,
        "added": manifest.added,
        "changed": manifest.changed,
        "parts": {
            name: {
                "sha256": part.sha256,
                "bytes": part.bytes,
                "unpacked_bytes": part.unpacked_bytes,
            }
            for name, part in manifest.parts.items()
        },
        **({} if signer is None else {"signature_key_id": signer}),
    }
    return (json.dumps(fields, indent=2) + "\n").encode("utf-8")


def _contents(fields: Fields) -> Contents:
    return Contents(
        fields.hexadecimal("contents_sha256", 64), fields.integer("documents", 0, _MOST_DOCUMENTS)
    )


def _part(fields: Fields) -> PartRecord:
    return PartRecord(
        fields.hexadecimal("sha256", 64),
        fields.integer("bytes", 0, _MOST_PART),
        fields.integer("unpacked_bytes", 0, _MOST_PART),
    )

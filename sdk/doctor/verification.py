"""``verify``: check that a bundle or an index is as published, and that it works here."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path

from pocketquery.sdk.bundle.bundle import Bundle
from pocketquery.sdk.bundle.golden import GoldenAgreement, parse_golden, replay
from pocketquery.sdk.bundle.installed import installed_bundle, warn_of_shadow
from pocketquery.sdk.bundle.manifest import GOLDEN_FILE
from pocketquery.sdk.bundle.signature import Key, key_id
from pocketquery.sdk.encoder import Encoder
from pocketquery.sdk.folders import present_folder

__all__ = ["VerificationReport", "verify", "verify_index"]

_INDEX_FILE = "index.json"


@dataclass(frozen=True)
class VerificationReport:
    """What was checked and found right. That a report exists means that nothing was wrong.

    ``golden`` is None for an index, ``documents`` for a bundle. ``signed_by`` is the id of the key
    the signature was checked with; None where no key was given, whatever the artefact says of
    itself, which is ``claimed_key_id``.
    """

    path: str
    kind: str
    space_id: str
    dimension: int
    files: int
    bytes: int
    name: str | None = None
    version: str | None = None
    signed_by: str | None = None
    claimed_key_id: str | None = None
    golden: GoldenAgreement | None = None
    documents: int | None = None
    languages: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, object]:
        """The fields as JSON can hold them."""
        return dataclasses.asdict(self)


def verify(path: Path | str, *, public_key: Key | None = None) -> VerificationReport:
    """Check a bundle (folder or zip) or an index folder, whole. An installed bundle's name means
    that bundle, as everywhere.

    A bundle: the manifest, its signature where a key is given, the size and hash of every file,
    the graph's inputs and output, and the golden texts: equal ids, cosine at least 0.999. An index:
    its own check of hashes and counts.

    Args:
        path: the bundle, or the name of an installed one, or the index.
        public_key: an Ed25519 public key it must be signed with: 32 raw bytes, 64
            hexadecimal digits or the path of a PEM file.

    Raises:
        ArtifactNotFoundError, CorruptArtifactError, UnsupportedVersionError, SignatureError: the
            first thing found wrong; a file is named.
        InvalidInputError: the key is none.
    """
    if installed_bundle(path) is not None:
        warn_of_shadow(path, _INDEX_FILE)
    else:
        folder = present_folder(Path(path))  # a writer killed between its renames leaves it beside
        if (folder / _INDEX_FILE).is_file():
            return verify_index(folder, public_key)
    bundle = Bundle.open(path, public_key=public_key)
    bundle.check_files()
    manifest = bundle.manifest
    # The hashes were checked just now; a file changed since would fail its golden texts.
    encoder = Encoder.of_bundle(bundle, verify_hashes=False)
    agreement = replay(encoder, parse_golden(bundle.read(GOLDEN_FILE)))
    return VerificationReport(
        path=str(bundle.path),
        kind="bundle",
        space_id=manifest.space.id,
        dimension=manifest.space.dimension,
        name=manifest.name,
        version=manifest.encoder_version,
        files=len(manifest.files),
        bytes=sum(entry.bytes for entry in manifest.files.values()),
        signed_by=bundle.signed_by,
        claimed_key_id=manifest.signature_key_id,
        golden=agreement,
        languages=manifest.languages,
    )


def verify_index(path: Path | str, public_key: Key | None = None) -> VerificationReport:
    """As :func:`verify`, of what must be an index."""
    from pocketquery.sdk.index import index as indexes

    with indexes.open_index(path, public_key=public_key) as index:
        info = indexes.verify_index(path)
        return VerificationReport(
            path=str(path),
            kind="index",
            space_id=info.space_id,
            dimension=info.dimension,
            files=len(info.files),
            bytes=sum(record.bytes for record in info.files.values()),
            signed_by=None if public_key is None else key_id(public_key),
            claimed_key_id=info.signature_key_id,
            documents=len(index),
        )

"""A publisher's signature of an index, checked before the index is used.

``signature`` is Ed25519 over the exact bytes of ``index.json``, which holds the SHA-256 of every
file as it was sealed. It is made when an index is built with a key. To check it, all files must be
read and hashed, which takes a second or more a gigabyte; so only a caller that passes a key pays
for it. An index that a signed delta was applied to keeps the delta's description and signature in
their place. ``delta.json`` names the hash of the contents, which is compared with what is read, row
by row. SQLite itself checks how it finds a row, its index of ids among it.
A change on the device (add, delete, compact) rewrites ``index.json``: what was changed here is this
device's own, no longer the publisher's, and is refused where a key is given.
"""

from __future__ import annotations

import os
from pathlib import Path

from pocketquery.sdk.bundle.manifest import SIGNATURE_FILE
from pocketquery.sdk.bundle.signature import Key, check_detached, check_present
from pocketquery.sdk.bundle.storage import FolderStorage, read_file
from pocketquery.sdk.errors import (
    ArtifactError,
    CorruptArtifactError,
    InvalidInputError,
    SignatureError,
    SpaceMismatchError,
)
from pocketquery.sdk.index.contents import contents_sha256
from pocketquery.sdk.index.database import Database, check_structure, generation_of
from pocketquery.sdk.index.delta_manifest import (
    DELTA_FILE,
    MOST_DELTA_BYTES,
    DeltaManifest,
    parse_manifest,
)
from pocketquery.sdk.index.folder import check_hashes
from pocketquery.sdk.index.info import (
    DATABASE,
    INFO,
    MOST_INFO_BYTES,
    IndexInfo,
    parse_info,
    read_info,
)
from pocketquery.sdk.index.segments import SCHEMA

__all__ = ["check_claim", "check_signed", "check_space"]


def check_signed(folder: Path, public_key: Key) -> IndexInfo:
    """What ``index.json`` says, where it is signed by the private half of ``public_key`` and every
    file is the one it names.

    Raises:
        SignatureError: not signed, by another key, or changed since, also on this device.
        CorruptArtifactError: a journal is beside the database, which would be played back into it
            after it was compared.
        ArtifactNotFoundError, CorruptArtifactError, UnsupportedVersionError: name the file.
        InvalidInputError: the key is none.
    """
    journal = folder / f"{DATABASE}-journal"
    if os.path.lexists(journal):
        raise CorruptArtifactError(
            f"{journal} is beside a database that must be as it was signed; expected no journal: "
            "nobody writes to it. Copy the index anew"
        )
    if FolderStorage(folder).size(DELTA_FILE) is not None:
        return _check_contents(folder, public_key)
    data = read_file(folder / INFO, MOST_INFO_BYTES + 1)
    try:
        check_detached(FolderStorage(folder), data, public_key, INFO)
    except SignatureError as error:
        if _was_changed_here(folder):
            raise _changed_here(folder) from error
        raise
    info = parse_info(data, folder / INFO)
    check_hashes(folder, info)
    return info


def _check_contents(folder: Path, public_key: Key) -> IndexInfo:
    """As :func:`check_signed` for an index that a delta was applied to."""
    data = read_file(folder / DELTA_FILE, MOST_DELTA_BYTES + 1)
    check_detached(FolderStorage(folder), data, public_key, DELTA_FILE)
    manifest = parse_manifest(data, str(folder / DELTA_FILE))
    database = Database(folder / DATABASE, schema=SCHEMA)
    try:
        with database.reading() as connection:
            info = read_info(folder)
            if info.signature_key_id is None or generation_of(connection) != info.generation:
                raise _changed_here(folder)
            check_space(folder, info, manifest)
            check_structure(connection, folder / DATABASE)  # what the contents' hash cannot know
            try:
                sha256 = contents_sha256(connection, folder, info.dimension)
            except InvalidInputError as error:  # deleted documents, and index.json hides it
                raise _changed_here(folder) from error
    finally:
        database.close()
    if sha256 != manifest.new.sha256:
        raise CorruptArtifactError(
            f"{folder} was changed after it was written: its contents have the SHA-256 {sha256}, "
            f"expected {manifest.new.sha256}, which {DELTA_FILE} names; fetch it anew"
        )
    return info


def check_space(folder: Path, info: IndexInfo, manifest: DeltaManifest) -> None:
    """Raise SpaceMismatchError where a delta is of another space than the index."""
    if (info.space_id, info.dimension) != (manifest.space_id, manifest.dimension):
        raise SpaceMismatchError.between(
            f"the index {folder}",
            f"{info.space_id} of {info.dimension} dimensions",
            "the delta",
            f"{manifest.space_id} of {manifest.dimension} dimensions",
        )


def _changed_here(folder: Path) -> SignatureError:
    return SignatureError(
        f"{folder} was signed and then changed on this device (add, delete or compact), so "
        "it is no longer what its publisher signed; open it without a key, or fetch it anew"
    )


def _was_changed_here(folder: Path) -> bool:
    """Whether the signature is one that a change on the device left behind; only to say so."""
    try:
        return (folder / SIGNATURE_FILE).exists() and read_info(folder).signature_key_id is None
    except ArtifactError:  # nobody signed it, so what is wrong with it is no matter
        return False


def check_claim(folder: Path, info: IndexInfo) -> None:
    """Raise SignatureError where ``index.json`` names a key and there is no signature."""
    check_present(FolderStorage(folder), info.signature_key_id)

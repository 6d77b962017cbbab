"""A publisher's signature of an index, checked before the index is used.

``signature`` is Ed25519 over the exact bytes of ``index.json``, which holds the SHA-256 of every
file as it was sealed. It is made when an index is built with a key. To check it, all files must be
read and hashed, which takes a second or more a gigabyte; so only whoever passes a key pays for it.
A change on the device (add, delete, compact) rewrites ``index.json``: what was changed here is this
device's own, no longer the publisher's, and is refused where a key is given.
"""

from __future__ import annotations

from pathlib import Path

from pocketquery.sdk.bundle.signature import SIGNATURE_FILE, Key, check_detached, check_present
from pocketquery.sdk.bundle.storage import FolderStorage, read_file
from pocketquery.sdk.errors import SignatureError
from pocketquery.sdk.index.folder import (
    INFO,
    MOST_INFO_BYTES,
    IndexInfo,
    check_hashes,
    parse_info,
    read_info,
)

__all__ = ["check_claim", "check_signed"]


def check_signed(folder: Path, public_key: Key) -> IndexInfo:
    """What ``index.json`` says, where it is signed by the private half of ``public_key`` and every
    file is the one it names.

    Raises:
        SignatureError: not signed, by another key, or changed since, also on this device.
        ArtifactNotFoundError, CorruptArtifactError, UnsupportedVersionError: name the file.
        InvalidInputError: the key is none.
    """
    data = read_file(folder / INFO, MOST_INFO_BYTES + 1)
    try:
        check_detached(FolderStorage(folder), data, public_key, INFO)
    except SignatureError as error:
        if (folder / SIGNATURE_FILE).exists() and read_info(folder).signature_key_id is None:
            raise SignatureError(
                f"{folder} was signed and then changed on this device (add, delete or compact), so "
                "it is no longer what its publisher signed; open it without a key, or fetch it anew"
            ) from error
        raise
    info = parse_info(data, folder / INFO)
    check_hashes(folder, info)
    return info


def check_claim(folder: Path, info: IndexInfo) -> None:
    """Raise SignatureError where ``index.json`` names a key and there is no signature."""
    check_present(FolderStorage(folder), info.signature_key_id)

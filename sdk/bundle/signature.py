"""Ed25519 signatures over an artefact's description (RFC 8032), with the package ``cryptography``.

The description (a bundle's manifest, an index's ``index.json``) holds the hash of every file, so
one signature over its exact bytes, in the file ``signature`` beside it, covers the artefact. The
package is needed only where a key is used: extra ``sign``.
"""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING, Protocol, TypeAlias

from pocketquery.sdk.bundle.manifest import SIGNATURE_FILE
from pocketquery.sdk.errors import InvalidInputError, MissingExtraError, SignatureError

if TYPE_CHECKING:
    from pathlib import Path

    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

__all__ = [
    "Key",
    "check_detached",
    "check_present",
    "check_signature",
    "key_id",
    "public_key_bytes",
    "public_key_of",
    "sign",
]

# 32 raw bytes, 64 hexadecimal digits, or the path of a PEM file.
Key: TypeAlias = "bytes | str | Path"

_KEY_BYTES = 32
_SIGNATURE_BYTES = 64


class _Files(Protocol):
    """An artefact's files: :class:`pocketquery.sdk.bundle.storage.Storage`."""

    def __fspath__(self) -> str: ...

    def size(self, name: str) -> int | None: ...

    def read(self, name: str, limit: int) -> bytes: ...


def sign(message: bytes, private_key: Key) -> bytes:
    """The 64 raw bytes of the signature of ``message``.

    Raises:
        InvalidInputError: the key is not an Ed25519 private key.
        MissingExtraError: ``cryptography`` is not installed.
    """
    return _private(private_key).sign(message)


def check_signature(
    message: bytes, signature: bytes, public_key: Key, what: str = "manifest"
) -> None:
    """Return where ``signature`` was made over ``message``, which an error calls ``what``, by the
    private half of ``public_key``.

    Raises:
        SignatureError: it was not.
        InvalidInputError: the key is not an Ed25519 public key.
        MissingExtraError: ``cryptography`` is not installed.
    """
    raw = public_key_bytes(public_key)
    if len(signature) != _SIGNATURE_BYTES:
        raise SignatureError(
            f"the signature has {len(signature)} bytes, expected {_SIGNATURE_BYTES} (raw Ed25519)"
        )
    try:
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    except ImportError as error:
        raise MissingExtraError.of("cryptography", "sign") from error
    try:
        Ed25519PublicKey.from_public_bytes(raw).verify(signature, message)
    except InvalidSignature as error:
        raise SignatureError(
            f"the signature was not made over this {what} by the key {key_id(raw)}; "
            "what it describes was changed, or comes from somebody else"
        ) from error


def check_detached(files: _Files, message: bytes, public_key: Key, what: str = "manifest") -> bytes:
    """The 32 raw bytes of ``public_key``, where ``files`` has its signature of ``message``.

    Args:
        files: the artefact.
        message: the exact bytes of its description, not parsed yet.
        public_key: whom to trust.
        what: how an error calls the description.

    Raises:
        SignatureError: there is none, or another one.
        InvalidInputError, MissingExtraError: as :func:`check_signature`.
    """
    raw = public_key_bytes(public_key)  # once: the file it comes from may change
    if files.size(SIGNATURE_FILE) is None:
        raise SignatureError(
            f"{os.fspath(files)}: found no signature, expected one by the key {key_id(raw)}"
        )
    try:
        signature = files.read(SIGNATURE_FILE, _SIGNATURE_BYTES + 1)
        check_signature(message, signature, raw, what)
    except SignatureError as error:
        raise SignatureError(f"{os.fspath(files)}: {error}") from error
    return raw


def check_present(files: _Files, claimed: str | None) -> None:
    """Without a key nobody can tell who signed; that the signature is there, anybody can.

    Raises:
        SignatureError: ``files`` says that the key ``claimed`` signed it, and has no signature.
    """
    if claimed is not None and files.size(SIGNATURE_FILE) != _SIGNATURE_BYTES:
        raise SignatureError(
            f"{os.fspath(files)} says it is signed by the key {claimed!r} and has no signature of "
            f"{_SIGNATURE_BYTES} bytes; it was taken away. Fetch it from its publisher"
        )


def public_key_of(private_key: Key) -> bytes:
    """The 32 raw bytes of the public half of ``private_key``. Raises as :func:`sign`."""
    return _private(private_key).public_key().public_bytes_raw()


def key_id(public_key: Key) -> str:
    """The short name of a public key: the first 16 hexadecimal digits of its SHA-256."""
    return hashlib.sha256(public_key_bytes(public_key)).hexdigest()[:16]


def _private(key: Key) -> Ed25519PrivateKey:
    try:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        from cryptography.hazmat.primitives.serialization import load_pem_private_key
    except ImportError as error:
        raise MissingExtraError.of("cryptography", "sign") from error
    raw = _raw(key)
    if raw is not None:
        return Ed25519PrivateKey.from_private_bytes(raw)
    try:
        loaded = load_pem_private_key(_pem(key), password=None)
    except (ValueError, TypeError) as error:  # TypeError: the file is encrypted
        raise InvalidInputError(f"{key!r}: not a readable private key in PEM: {error}") from error
    if not isinstance(loaded, Ed25519PrivateKey):
        raise InvalidInputError(
            f"{key!r}: found a {type(loaded).__name__}, expected an Ed25519 key"
        )
    return loaded


def public_key_bytes(key: Key) -> bytes:
    """The 32 raw bytes of a public key, however it is given. Raises as :func:`check_signature`."""
    raw = _raw(key)
    if raw is not None:
        return raw
    try:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
        from cryptography.hazmat.primitives.serialization import load_pem_public_key
    except ImportError as error:
        raise MissingExtraError.of("cryptography", "sign") from error
    try:
        loaded = load_pem_public_key(_pem(key))
    except ValueError as error:
        raise InvalidInputError(f"{key!r}: not a readable public key in PEM: {error}") from error
    if not isinstance(loaded, Ed25519PublicKey):
        raise InvalidInputError(
            f"{key!r}: found a {type(loaded).__name__}, expected an Ed25519 key"
        )
    return loaded.public_bytes_raw()


def _raw(key: Key) -> bytes | None:
    """The key's 32 bytes where it is given raw or in hexadecimal; None where it is a path."""
    if isinstance(key, bytes):
        if len(key) != _KEY_BYTES:
            raise InvalidInputError(
                f"a raw Ed25519 key has {_KEY_BYTES} bytes, found {len(key)}; "
                "a PEM file is given by its path"
            )
        return key
    if isinstance(key, str) and len(key) == 2 * _KEY_BYTES:
        try:
            return bytes.fromhex(key)
        except ValueError:
            return None
    return None


def _pem(key: Key) -> bytes:
    assert not isinstance(key, bytes)
    try:
        with open(key, "rb") as file:
            return file.read()
    except OSError as error:
        raise InvalidInputError(
            f"the key {str(key)!r} is neither {2 * _KEY_BYTES} hexadecimal digits nor a readable "
            f"PEM file ({error.strerror})"
        ) from error

"""Ed25519 signatures over a bundle's manifest (RFC 8032), with the package ``cryptography``.

The manifest holds the hash of every file, so one signature over its exact bytes covers the bundle.
The package is needed only where a key is used: extra ``sign``.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

from pocketquery.sdk.errors import InvalidInputError, MissingExtraError, SignatureError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

__all__ = ["Key", "sign", "check_signature", "public_key_of", "key_id"]

# 32 raw bytes, 64 hexadecimal digits, or the path of a PEM file.
Key = bytes | str | Path

_KEY_BYTES = 32
_SIGNATURE_BYTES = 64


def sign(message: bytes, private_key: Key) -> bytes:
    """The 64 raw bytes of the signature of ``message``.

    Raises:
        InvalidInputError: the key is not an Ed25519 private key.
        MissingExtraError: ``cryptography`` is not installed.
    """
    return _private(private_key).sign(message)


def check_signature(message: bytes, signature: bytes, public_key: Key) -> None:
    """Return where ``signature`` was made over ``message`` by the private half of ``public_key``.

    Raises:
        SignatureError: it was not.
        InvalidInputError: the key is not an Ed25519 public key.
        MissingExtraError: ``cryptography`` is not installed.
    """
    raw = _public_bytes(public_key)
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
            f"the signature was not made over this manifest by the key {key_id(raw)}; "
            "the bundle was changed, or comes from somebody else"
        ) from error


def public_key_of(private_key: Key) -> bytes:
    """The 32 raw bytes of the public half of ``private_key``. Raises as :func:`sign`."""
    return _private(private_key).public_key().public_bytes_raw()


def key_id(public_key: Key) -> str:
    """The short name of a public key: the first 16 hexadecimal digits of its SHA-256."""
    return hashlib.sha256(_public_bytes(public_key)).hexdigest()[:16]


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


def _public_bytes(key: Key) -> bytes:
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
        return Path(key).read_bytes()
    except OSError as error:
        raise InvalidInputError(
            f"the key {str(key)!r} is neither {2 * _KEY_BYTES} hexadecimal digits nor a readable "
            f"PEM file ({error.strerror})"
        ) from error

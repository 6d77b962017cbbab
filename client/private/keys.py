"""Keys of private rounds: the device's, its certificate, a round's secret and what derives from it.

A device is known to others by an X25519 key (RFC 7748) that an *enrolment authority* certified with
an Ed25519 signature; the authority is not the server. Whatever two devices share is derived from
the agreement of their keys by HKDF-SHA-256 (RFC 5869) under a label that names the round's binding
and both keys. So nothing of one round, pair or direction is of use in another.

Everything that is random on a device in a round derives from one *round secret*: the same question
gets the same bytes, no key encrypts two plaintexts, and erasing the secret erases the round.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Self

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from pocketquery.client.private.masks import Keystream
from pocketquery.client.private.sharing import MODULUS
from pocketquery.sdk.bundle.signature import Key, check_signature, sign
from pocketquery.sdk.errors import (
    ArtifactNotFoundError,
    CorruptArtifactError,
    InvalidInputError,
    SignatureError,
)
from pocketquery.sdk.files import write_atomic

__all__ = [
    "CERTIFICATE_BYTES",
    "DEVICE_KEY",
    "FEDERATION_BYTES",
    "KEY_BYTES",
    "MARK_BYTES",
    "PROTOCOL",
    "AgreementKey",
    "Certificate",
    "DeviceKey",
    "RoundSecret",
    "box_label",
    "check_agreement_key",
    "check_certificate",
    "confirm_label",
    "derive",
    "federation_id",
    "held_label",
    "is_mark",
    "mark",
    "mask_label",
    "ready_label",
    "self_label",
    "sign_certificate",
]

PROTOCOL = "pocketquery-secure-1"
DEVICE_KEY = "device.key"  # the file in a device's state folder
KEY_BYTES = 32
FEDERATION_BYTES = 16
CERTIFICATE_BYTES = 100
MARK_BYTES = 16

_INFO = PROTOCOL.encode() + b" "
_ENROLMENT = b"pocketquery-enrolment-1\n"
_EXPIRY_BYTES = 4
_FIELD = 2**255 - 19  # of Curve25519
# The points of small order; the secret agreed with one is zero, whoever agrees (RFC 7748, 6.1).
_SMALL_ORDER = frozenset(
    {
        0,
        1,
        _FIELD - 1,
        325606250916557431795983626356110631294008115727848805560023387167927233504,
        39382357235489614581723060781553021112529911719440698176882885853963445705823,
    }
)


class AgreementKey:
    """The private half of an X25519 key pair.

    Args:
        private: its 32 bytes.

    Raises:
        InvalidInputError: it has another length.

    Attributes:
        public: the public half, 32 bytes.
    """

    def __init__(self, private: bytes) -> None:
        _check_length("a private key", private, KEY_BYTES)
        self._private = bytes(private)
        self._key = X25519PrivateKey.from_private_bytes(self._private)
        self.public: bytes = self._key.public_key().public_bytes_raw()

    @property
    def private(self) -> bytes:
        """The 32 bytes that :class:`AgreementKey` takes."""
        return self._private

    def agree(self, public: bytes) -> bytes:
        """The 32 secret bytes that this key and the private half of ``public`` share.

        Raises:
            InvalidInputError: ``public`` is no key, or one with which every secret is zero.
        """
        check_agreement_key(public)
        return self._key.exchange(X25519PublicKey.from_public_bytes(public))


class DeviceKey(AgreementKey):
    """A device's own key: made on it, kept in a file of 32 bytes, for its owner alone (0600)."""

    @classmethod
    def create(cls, path: Path | str, *, replace: bool = False) -> Self:
        """Draw a new key and write it to ``path``, in one step.

        Args:
            path: the file.
            replace: whether a key that is there may go, and with it what its certificate is worth.

        Raises:
            InvalidInputError: there is a file already, and it may not go.
            OSError: it cannot be written.
        """
        if not replace and Path(path).exists():
            raise InvalidInputError(
                f"{path} is there already, and a new key would make its certificate worthless; "
                "renew both with: pocketquery enrol key --replace"
            )
        key = cls(os.urandom(KEY_BYTES))
        write_atomic(path, key.private, mode=0o600)
        return key

    @classmethod
    def open(cls, path: Path | str) -> Self:
        """Read the key that :meth:`create` wrote.

        Raises:
            ArtifactNotFoundError: there is none.
            CorruptArtifactError: the file is something else.
            OSError: it cannot be read.
        """
        try:
            with Path(path).open("rb") as file:
                private = file.read(KEY_BYTES + 1)
        except FileNotFoundError as error:
            raise ArtifactNotFoundError(
                f"{path}: no device key; make one with: pocketquery enrol key"
            ) from error
        if len(private) != KEY_BYTES:
            raise CorruptArtifactError(
                f"{path} is no device key: expected {KEY_BYTES} bytes; remove it, make a new one "
                "with: pocketquery enrol key, and have it certified"
            )
        return cls(private)


def check_agreement_key(public: bytes) -> None:
    """Raise unless ``public`` is the one encoding of an X25519 public key of large order.

    Raises:
        InvalidInputError: it is not. Other encodings of a key are refused, for one device might
            pass for two with them.
    """
    _check_length("a public key", public, KEY_BYTES)
    value = int.from_bytes(public, "little")
    if value >= _FIELD:
        raise InvalidInputError(
            f"the public key {public.hex()} is above the field of Curve25519, expected the reduced "
            "encoding that every implementation writes"
        )
    if value in _SMALL_ORDER:
        raise InvalidInputError(
            f"the public key {public.hex()} is a point of small order: everybody can tell what is "
            "agreed with it; expected a key made by: pocketquery enrol key"
        )


@dataclass(frozen=True)
class Certificate:
    """An authority's word that a device key belongs to a federation until some time.

    Attributes:
        key: the device's public key, 32 bytes.
        expiry: Unix seconds, from which on it counts no more.
        signature: 64 bytes.
    """

    key: bytes
    expiry: int
    signature: bytes

    def to_bytes(self) -> bytes:
        """100 bytes: key, expiry as big-endian uint32, signature."""
        return self.key + self.expiry.to_bytes(_EXPIRY_BYTES, "big") + self.signature

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """The certificate of :meth:`to_bytes`, not checked yet.

        Raises:
            InvalidInputError: it has not 100 bytes.
        """
        _check_length("a certificate", data, CERTIFICATE_BYTES)
        data = bytes(data)
        end = KEY_BYTES + _EXPIRY_BYTES
        return cls(data[:KEY_BYTES], int.from_bytes(data[KEY_BYTES:end], "big"), data[end:])


def sign_certificate(
    authority_private: Key, federation: bytes, key: bytes, expiry: int
) -> Certificate:
    """Certify a device key; this is the authority's part.

    Args:
        authority_private: an Ed25519 private key: 32 bytes, 64 hexadecimal digits or a PEM's path.
        federation: 16 bytes.
        key: the device's public key, 32 bytes.
        expiry: Unix seconds.

    Raises:
        InvalidInputError: one of them is not that.
    """
    check_agreement_key(key)
    if not 0 < expiry < 2 ** (8 * _EXPIRY_BYTES):
        raise InvalidInputError(
            f"the expiry is {expiry}, expected Unix seconds that fit into 32 bits"
        )
    return Certificate(key, expiry, sign(_certified(federation, key, expiry), authority_private))


def check_certificate(
    certificate: Certificate, authority_public: Key, federation: bytes, now: float
) -> None:
    """Raise unless the authority certified this key for this federation and the time ``now``.

    Args:
        certificate: a device's, from anywhere.
        authority_public: the pinned Ed25519 public key of the authority.
        federation: 16 bytes.
        now: Unix seconds.

    Raises:
        InvalidInputError: it did not, the certificate has expired, or its key is none.
    """
    check_agreement_key(certificate.key)
    if now >= certificate.expiry:
        raise InvalidInputError(
            f"the certificate of the device key {certificate.key.hex()} expired at "
            f"{certificate.expiry} (Unix seconds), and it is {int(now)}; have a new one signed"
        )
    message = _certified(federation, certificate.key, certificate.expiry)
    try:
        check_signature(message, certificate.signature, authority_public, "certificate")
    except SignatureError as error:
        raise InvalidInputError(
            f"the certificate of the device key {certificate.key.hex()} is not by this authority "
            f"for the federation {federation.hex()}: {error}"
        ) from error


def federation_id(name: str) -> bytes:
    """The 16 bytes that stand for a federation.

    Args:
        name: 32 hexadecimal digits, which are the id; or a name, whose id is the first 16 bytes of
            its SHA-256 (as UTF-8).

    Raises:
        InvalidInputError: the name is empty.
    """
    if re.fullmatch(r"[0-9A-Fa-f]{32}", name):
        return bytes.fromhex(name)
    if not name:
        raise InvalidInputError(
            "the federation's name is empty, expected a name or 32 hexadecimal digits"
        )
    return hashlib.sha256(name.encode()).digest()[:FEDERATION_BYTES]


def ready_label(federation: bytes, device: bytes, announced: bytes) -> bytes:
    """Of the key of the mark with which ``device`` proves to the holder of the ``announced`` key
    that it holds its own. There is no binding yet that the label could name."""
    return b"ready " + federation + device + announced


def box_label(beta: bytes, sender: bytes, receiver: bytes) -> bytes:
    """Of the key that encrypts what the device ``sender`` gives ``receiver`` to hold."""
    return _pair_label(b"box ", beta, sender, receiver)


def held_label(beta: bytes, sender: bytes, receiver: bytes) -> bytes:
    """Of the key of ``sender``'s mark that it holds the box of ``receiver``."""
    return _pair_label(b"held ", beta, sender, receiver)


def confirm_label(beta: bytes, sender: bytes, receiver: bytes) -> bytes:
    """Of the key of the mark with which ``sender`` tells ``receiver`` the survivors it saw."""
    return _pair_label(b"confirm ", beta, sender, receiver)


def mask_label(beta: bytes) -> bytes:
    """Of the mask that two devices share; goes with the agreement of their *mask* keys."""
    return b"mask " + beta


def self_label(beta: bytes) -> bytes:
    """Of a device's own mask; goes with its self seed."""
    return b"self " + beta


def derive(secret: bytes, label: bytes) -> bytes:
    """The 32 bytes that HKDF-SHA-256 makes of ``secret`` under ``label``, without salt."""
    return HKDF(hashes.SHA256(), KEY_BYTES, None, _INFO + label).derive(secret)


def mark(key: bytes, message: bytes) -> bytes:
    """A message authentication code: the first 16 bytes of HMAC-SHA-256."""
    return hmac.digest(key, message, "sha256")[:MARK_BYTES]


def is_mark(key: bytes, message: bytes, candidate: bytes) -> bool:
    """Whether ``candidate`` is :func:`mark` of both; takes as long for every ``candidate``."""
    return hmac.compare_digest(mark(key, message), candidate)


class RoundSecret:
    """The 32 random bytes that decide what a device draws in one round.

    Args:
        secret: drawn by ``os.urandom``, and on disk before anything derived from it leaves.

    Raises:
        InvalidInputError: they are not 32.
    """

    def __init__(self, secret: bytes) -> None:
        _check_length("a round secret", secret, KEY_BYTES)
        self._secret = bytes(secret)

    def derive(self, purpose: bytes, beta: bytes) -> bytes:
        """32 bytes: HMAC-SHA-256 over the protocol's name, ``purpose`` and the binding's digest."""
        return hmac.digest(self._secret, _INFO + purpose + b" " + beta, "sha256")

    def self_seed(self, beta: bytes) -> bytes:
        """The secret behind the device's own mask, 32 bytes."""
        return self.derive(b"self", beta)

    def mask_key(self, beta: bytes) -> AgreementKey:
        """The key with which the round's pairwise masks are agreed."""
        return AgreementKey(self.derive(b"mask", beta))

    def coefficient(self, beta: bytes, part: Literal["self", "mask"], index: int) -> int:
        """Coefficient ``index`` (1 for x, 2 for x squared, ...) of the polynomial that shares the
        self seed or the mask key, below :data:`~pocketquery.client.private.sharing.MODULUS`."""
        key = self.derive(b"coefficients", beta)
        digest = hashlib.sha512(key + part.encode() + index.to_bytes(4, "big")).digest()
        return int.from_bytes(digest, "little") % MODULUS

    def coins(self, beta: bytes) -> Keystream:
        """The bits that round a change to codes; from the start at each call."""
        return Keystream(self.derive(b"coins", beta))

    def noise_stream(self, beta: bytes) -> Keystream:
        """The bits that the noise is drawn with; from the start at each call."""
        return Keystream(self.derive(b"noise", beta))


def _pair_label(kind: bytes, beta: bytes, sender: bytes, receiver: bytes) -> bytes:
    return kind + beta + sender + receiver


def _certified(federation: bytes, key: bytes, expiry: int) -> bytes:
    _check_length("a federation's id", federation, FEDERATION_BYTES)
    return _ENROLMENT + federation + key + expiry.to_bytes(_EXPIRY_BYTES, "big")


def _check_length(what: str, data: bytes, expected: int) -> None:
    if len(data) != expected:
        raise InvalidInputError(f"{what} has {expected} bytes, found {len(data)}")

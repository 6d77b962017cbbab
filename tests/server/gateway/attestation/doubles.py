"""Google's and Apple's side of attestation, for tests: tokens that a server here reads, and
certificates of a root made here.
"""

from __future__ import annotations

import base64
import copy
import datetime
import hashlib
import json
import struct
from collections.abc import Mapping
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from pocketquery.sdk.bundle.signature import public_key_of
from pocketquery.server.gateway.attestation import AttestationError, binding
from tests.server.gateway.small_gateway import SmallDevice, SmallGateway

PACKAGE = "org.example.app"
CERTIFICATE = hashlib.sha256(b"the publisher's certificate").digest()
APP_ID = "A1B2C3D4E5.org.example.app"
NOW = 1_800_000_000.0


def challenge_of(small: SmallGateway, device: SmallDevice) -> tuple[str, bytes]:
    """A challenge, and what evidence of a device is made over."""
    challenge = small.client.post("/v1/challenge").json()["challenge"]
    raw = base64.urlsafe_b64decode(challenge + "=" * (-len(challenge) % 4))
    return challenge, binding(raw, public_key_of(device.key))


def with_evidence(challenge: str, evidence: object) -> bytes:
    """The body of a registration."""
    return json.dumps({"challenge": challenge, "attestation": evidence}).encode()


class PlayServer:
    """Google's server: it knows what it said of each token."""

    def __init__(self) -> None:
        self._said: dict[str, dict[str, Any]] = {}

    def token(self, bound: bytes, changes: Mapping[str, Any] | None = None) -> str:
        """A token of a genuine app on a genuine device, but for ``changes``: by "part.name"."""
        payload: dict[str, Any] = {
            "requestDetails": {
                "requestPackageName": PACKAGE,
                "requestHash": base64.urlsafe_b64encode(bound).decode().rstrip("="),
                "timestampMillis": "1800000000000",
            },
            "appIntegrity": {
                "appRecognitionVerdict": "PLAY_RECOGNIZED",
                "packageName": PACKAGE,
                "certificateSha256Digest": [
                    base64.urlsafe_b64encode(CERTIFICATE).decode().rstrip("=")
                ],
                "versionCode": "42",
            },
            "deviceIntegrity": {"deviceRecognitionVerdict": ["MEETS_DEVICE_INTEGRITY"]},
            "accountDetails": {"appLicensingVerdict": "LICENSED"},
        }
        for place, value in (changes or {}).items():
            part, _, name = place.partition(".")
            if name:
                payload[part][name] = value
            else:
                payload[part] = value
        token = f"token-{len(self._said)}"
        self._said[token] = payload
        return token

    def decode(self, token: str) -> Mapping[str, Any]:
        """What ``decodeIntegrityToken`` answers."""
        if token not in self._said:
            raise AttestationError("Play Integrity does not know this token")
        return {"tokenPayloadExternal": copy.deepcopy(self._said[token])}


class Apple:
    """Apple's authority, and devices whose keys it attests."""

    def __init__(self) -> None:
        self._root_key = ec.generate_private_key(ec.SECP384R1())
        self._middle_key = ec.generate_private_key(ec.SECP384R1())
        self._root = _certificate("Root", self._root_key, None, self._root_key, is_ca=True)
        self._middle = self.issue(is_ca=True)

    @property
    def root(self) -> bytes:
        """The root's certificate, PEM."""
        return self._root.public_bytes(Encoding.PEM)

    def issue(self, *, is_ca: bool) -> x509.Certificate:
        """The intermediate certificate."""
        return _certificate("CA 1", self._middle_key, self._root, self._root_key, is_ca=is_ca)

    def attest(
        self,
        bound: bytes,
        *,
        app_id: str = APP_ID,
        environment: bytes = b"appattest\0\0\0\0\0\0\0",
        counter: int = 0,
        credential: bytes | None = None,
        format_: str = "apple-appattest",
        days: tuple[int, int] = (-1, 2),
        middle: x509.Certificate | None = None,
        curve: ec.EllipticCurve | None = None,
        nonce: bytes | None = None,
    ) -> dict[str, str]:
        """The evidence of a genuine app on a genuine device, but for what is given."""
        key = ec.generate_private_key(curve or ec.SECP256R1())
        point = key.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
        key_id = hashlib.sha256(point).digest()
        credential = key_id if credential is None else credential
        data = hashlib.sha256(app_id.encode()).digest() + struct.pack(">BI", 0x40, counter)
        data += environment + struct.pack(">H", len(credential)) + credential
        data += cbor({1: 2, 3: -7, -1: 1, -2: point[1:33], -3: point[33:]})
        signed = hashlib.sha256(data + bound).digest() if nonce is None else nonce
        leaf = _certificate(
            key_id.hex(), key, self._middle, self._middle_key, is_ca=False, days=days, nonce=signed
        )
        chain = [one.public_bytes(Encoding.DER) for one in (leaf, middle or self._middle)]
        statement = {"x5c": chain, "receipt": b"of " + 500 * b"x"}
        made = cbor({"fmt": format_, "attStmt": statement, "authData": data})
        return {
            "keyId": base64.b64encode(key_id).decode(),
            "attestationObject": base64.b64encode(made).decode(),
        }


def cbor(value: Any) -> bytes:
    """A value as CBOR."""

    def head(kind: int, number: int) -> bytes:
        if number < 24:
            return bytes([kind << 5 | number])
        size = next(size for size in (0, 1, 2, 3) if number < 1 << (8 << size))
        return bytes([kind << 5 | 24 + size]) + number.to_bytes(1 << size, "big")

    if isinstance(value, int):
        return head(0, value) if value >= 0 else head(1, -1 - value)
    if isinstance(value, bytes):
        return head(2, len(value)) + value
    if isinstance(value, str):
        return head(3, len(value.encode())) + value.encode()
    if isinstance(value, list):
        return head(4, len(value)) + b"".join(map(cbor, value))
    return head(5, len(value)) + b"".join(cbor(one) for pair in value.items() for one in pair)


def _certificate(
    name: str,
    key: ec.EllipticCurvePrivateKey,
    issuer: x509.Certificate | None,
    issuer_key: ec.EllipticCurvePrivateKey,
    *,
    is_ca: bool,
    days: tuple[int, int] = (-1000, 1000),
    nonce: bytes | None = None,
) -> x509.Certificate:
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    now = datetime.datetime.fromtimestamp(NOW, datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject if issuer is None else issuer.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now + datetime.timedelta(days[0]))
        .not_valid_after(now + datetime.timedelta(days[1]))
        .add_extension(x509.BasicConstraints(is_ca, None), critical=True)
    )
    if nonce is not None:
        oid = x509.ObjectIdentifier("1.2.840.113635.100.8.2")
        body = bytes([0x04, len(nonce)]) + nonce
        body = bytes([0xA1, len(body)]) + body
        body = bytes([0x30, len(body)]) + body
        made = made.add_extension(x509.UnrecognizedExtension(oid, body), critical=False)
    return made.sign(issuer_key, hashes.SHA256())

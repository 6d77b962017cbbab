"""App Attest: checks that an iOS app and its key are genuine.

The app makes a key (``DCAppAttestService.generateKey``), has Apple attest it with the 32 bytes of
:func:`pocketquery_gateway.attestation.binding` as ``clientDataHash`` (``attestKey``), and
registers with

    {"challenge": "...", "attestation": {"keyId": "<as generateKey gives it>",
                                         "attestationObject": "<base64 of what attestKey gives>"}}

The attestation object is CBOR: ``fmt`` is "apple-appattest", ``attStmt`` has ``x5c``, the
certificate of that key and Apple's intermediate one, and ``authData`` says of which app it is. All
of it is checked here, offline, by the nine steps that Apple lists; the receipt, with which Apple
can be asked for a measure of fraud, is not looked at. That key signs nothing for us: the device's
own, which ``binding`` holds, does.

Source: https://developer.apple.com/documentation/devicecheck/validating-apps-that-connect-to-your-server
"""

from __future__ import annotations

import base64
import datetime
import hashlib
import hmac
import itertools
import time
from collections.abc import Callable, Mapping
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from pocketquery.sdk.errors import InvalidInputError
from pocketquery_attestation.cbor import read_cbor
from pocketquery_gateway.attestation import AttestationError

__all__ = ["AppAttest"]

_NONCE = x509.ObjectIdentifier("1.2.840.113635.100.8.2")
_NONCE_DER = bytes.fromhex("3024a1220420")  # a sequence of [1], an octet string of 32 bytes
_PRODUCTION = b"appattest".ljust(16, b"\0")
_DEVELOPMENT = b"appattestdevelop"
_ID_BYTES = 32
_HEAD_BYTES = 55  # of authData, before the key's id
_LONGEST = 32_768  # bytes of an attestation object, of which a receipt is most


class AppAttest:
    """Takes registrations of one iOS app.

    Args:
        app_id: the team's id, a full stop, and the bundle's: "A1B2C3D4E5.org.example.app".
        root: Apple's "App Attestation Root CA", PEM, from
            https://www.apple.com/certificateauthority/private/.
        production: False takes what apps under development have, and nothing else.
        clock: seconds since 1970, for the time that certificates hold.

    Raises:
        InvalidInputError: ``root`` is no certificate.
    """

    def __init__(
        self,
        *,
        app_id: str,
        root: bytes | str,
        production: bool = True,
        clock: Callable[[], float] = time.time,
    ) -> None:
        try:
            self._root = x509.load_pem_x509_certificate(
                root.encode() if isinstance(root, str) else root
            )
        except ValueError as error:
            raise InvalidInputError(
                f"the root of App Attest is no certificate in PEM: {error}"
            ) from error
        self._app = hashlib.sha256(app_id.encode()).digest()
        self._environment = _PRODUCTION if production else _DEVELOPMENT
        self._clock = clock

    def check(self, binding: bytes, evidence: Mapping[str, Any]) -> None:
        """See that Apple attested the app in ``evidence``.

        Args:
            binding: 32 bytes, the ``clientDataHash`` that it was attested with.
            evidence: ``keyId`` and ``attestationObject``, base64.

        Raises:
            AttestationError: it did not; the text says what was found.
        """
        key_id = _decoded(evidence, "keyId")
        certificates, data = _read(_decoded(evidence, "attestationObject"))
        leaf = self._trusted(certificates)
        if not hmac.compare_digest(_nonce(leaf), hashlib.sha256(data + binding).digest()):
            raise AttestationError("the attestation was not made over this challenge and key")
        key = leaf.public_key()
        if not isinstance(key, ec.EllipticCurvePublicKey):
            raise AttestationError("the attested key is of another kind")
        point = key.public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
        if hashlib.sha256(point).digest() != key_id:
            raise AttestationError("the attestation is of another key than keyId says")
        self._check_data(data, key_id)

    def _trusted(self, certificates: list[bytes]) -> x509.Certificate:
        """The first certificate, where the chain goes from it to the root and holds now."""
        now = datetime.datetime.fromtimestamp(self._clock(), datetime.UTC)
        try:
            chain = [*map(x509.load_der_x509_certificate, certificates), self._root]
            for one, issuer in itertools.pairwise(chain):
                one.verify_directly_issued_by(issuer)
                if not issuer.extensions.get_extension_for_class(x509.BasicConstraints).value.ca:
                    raise ValueError("an issuer is no authority")
            if not all(one.not_valid_before_utc <= now <= one.not_valid_after_utc for one in chain):
                raise ValueError("one of them does not hold now")
        except Exception as error:  # cryptography's exceptions share no base class
            raise AttestationError(
                "the attestation's certificates are not Apple's of now"
            ) from error
        return chain[0]

    def _check_data(self, data: bytes, key_id: bytes) -> None:
        """See that the authenticator data is of this app, and of a key that is new."""
        length = int.from_bytes(data[_HEAD_BYTES - 2 : _HEAD_BYTES], "big")
        credential = data[_HEAD_BYTES : _HEAD_BYTES + length]
        if len(data) < _HEAD_BYTES + _ID_BYTES or data[:32] != self._app:
            raise AttestationError("the attestation is another app's")
        if data[33:37] != bytes(4):
            raise AttestationError("the attested key was used before")
        if data[37:53] != self._environment:
            raise AttestationError("the attestation is of another environment (development?)")
        if credential != key_id:
            raise AttestationError("the attestation's credential is another than keyId says")


def _decoded(evidence: Mapping[str, Any], name: str) -> bytes:
    """What is base64 in the evidence."""
    text = evidence.get(name)
    try:
        return base64.b64decode(text, validate=True) if isinstance(text, str) else b""
    except ValueError:
        return b""


def _read(data: bytes) -> tuple[list[bytes], bytes]:
    """Certificates and authenticator data of an attestation object."""
    try:
        if len(data) > _LONGEST:
            raise ValueError("it is too long")
        content = read_cbor(data)
        if content["fmt"] != "apple-appattest":
            raise ValueError("it is of another format")
        certificates, auth_data = content["attStmt"]["x5c"], content["authData"]
        parts = [*certificates, auth_data]
        if len(parts) != 3 or not all(isinstance(one, bytes) for one in parts):
            raise ValueError("it lacks certificates or data")
    except (KeyError, TypeError, ValueError) as error:
        raise AttestationError(
            "expected keyId and attestationObject in the attestation, base64; the latter is none "
            "of App Attest"
        ) from error
    return list(certificates), auth_data


def _nonce(leaf: x509.Certificate) -> bytes:
    """What Apple signed: the 32 bytes in the certificate."""
    for extension in leaf.extensions:
        if extension.oid == _NONCE and isinstance(extension.value, x509.UnrecognizedExtension):
            value = extension.value.value
            if len(value) == len(_NONCE_DER) + 32 and value.startswith(_NONCE_DER):
                return value[len(_NONCE_DER) :]
    raise AttestationError("the attestation's certificate has no nonce")

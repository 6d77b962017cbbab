"""Apple's steps, each broken alone, over certificates of a root made here."""

from __future__ import annotations

import base64
import datetime
import hashlib
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from attestation.evidence import challenge_of, with_evidence
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given
from hypothesis import strategies as st
from small_gateway import SmallDevice, opened

from pocketquery.sdk.errors import InvalidInputError
from pocketquery_attestation.app_attest import AppAttest
from pocketquery_attestation.cbor import read_cbor
from pocketquery_gateway.attestation import AttestationError

APP_ID = "A1B2C3D4E5.org.example.app"
NOW = 1_800_000_000.0


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


BOUND = bytes(range(32))
APPLE = Apple()
DEVELOPMENT = b"appattestdevelop"


def checker(apple: Apple = APPLE, **how: Any) -> AppAttest:
    given: dict[str, Any] = {"app_id": APP_ID, "root": apple.root, "clock": lambda: NOW} | how
    return AppAttest(**given)


def test_a_genuine_app_is_taken() -> None:
    checker().check(BOUND, APPLE.attest(BOUND))
    checker(production=False).check(BOUND, APPLE.attest(BOUND, environment=DEVELOPMENT))


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"app_id": "A1B2C3D4E5.org.example.other"}, "another app's"),
        ({"environment": DEVELOPMENT}, "another environment"),
        ({"counter": 1}, "used before"),
        ({"credential": bytes(32)}, "credential is another"),
        ({"credential": b""}, "credential is another"),
        ({"format_": "packed"}, "none of App Attest"),
        ({"nonce": bytes(32)}, "not made over"),
        ({"nonce": bytes(31)}, "has no nonce"),
        ({"days": (-4, -1)}, "not Apple's of now"),
        ({"days": (1, 4)}, "not Apple's of now"),
        ({"middle": APPLE.issue(is_ca=False)}, "not Apple's of now"),
    ],
)
def test_another_app_key_or_time_is_refused(how: dict[str, Any], said: str) -> None:
    with pytest.raises(AttestationError, match=said):
        checker().check(BOUND, APPLE.attest(BOUND, **how))


def test_what_was_made_over_something_else_is_refused() -> None:
    with pytest.raises(AttestationError, match="not made over"):
        checker().check(BOUND[::-1], APPLE.attest(BOUND))


def test_another_root_is_refused() -> None:
    other = Apple()
    with pytest.raises(AttestationError, match="not Apple's of now"):
        checker().check(BOUND, other.attest(BOUND))
    checker(other).check(BOUND, other.attest(BOUND))
    with pytest.raises(InvalidInputError, match="no certificate"):
        checker(root=b"-----BEGIN CERTIFICATE-----")


def test_a_key_id_is_that_of_the_key_that_was_attested() -> None:
    evidence = APPLE.attest(BOUND) | {"keyId": base64.b64encode(bytes(32)).decode()}
    with pytest.raises(AttestationError, match="another key than keyId"):
        checker().check(BOUND, evidence)


@pytest.mark.parametrize(
    "evidence",
    [
        {},
        {"keyId": 3, "attestationObject": 4},
        {"keyId": "é", "attestationObject": "?"},
        {"keyId": "AAAA", "attestationObject": base64.b64encode(cbor([1])).decode()},
        {"keyId": "AAAA", "attestationObject": base64.b64encode(bytes(40_000)).decode()},
    ],
)
def test_evidence_that_is_none_is_refused(evidence: dict[str, Any]) -> None:
    with pytest.raises(AttestationError, match="expected keyId and attestationObject"):
        checker().check(BOUND, evidence)


def damaged(
    change: Callable[[bytearray], None], sound: dict[str, str] | None = None
) -> dict[str, str]:
    evidence = sound or APPLE.attest(BOUND)
    body = bytearray(base64.b64decode(evidence["attestationObject"]))
    change(body)
    return evidence | {"attestationObject": base64.b64encode(bytes(body)).decode()}


@given(at=st.integers(0, 10_000), bit=st.integers(0, 7), cut=st.booleans())
def test_a_damaged_attestation_is_refused(at: int, bit: int, cut: bool) -> None:
    """But for what says nothing: the receipt, and how many bits of a signature are unused."""
    sound = APPLE.attest(BOUND)

    def change(body: bytearray) -> None:
        place, receipt = at % len(body), body.index(b"of xxx")
        if receipt - 3 <= place < receipt + 503:
            place = 0
        if cut:
            del body[place:]
        else:
            body[place] ^= 1 << bit

    evidence = damaged(change, sound)
    try:
        checker().check(BOUND, evidence)
    except AttestationError:
        return
    assert said(evidence) == said(sound)


def said(evidence: dict[str, str]) -> list[bytes]:
    """What is signed in ``evidence``, and the signatures."""
    found = read_cbor(base64.b64decode(evidence["attestationObject"]))
    chain = [x509.load_der_x509_certificate(one) for one in found["attStmt"]["x5c"]]
    parts = [part for one in chain for part in (one.tbs_certificate_bytes, one.signature)]
    return [found["authData"], *parts]


def test_a_certificate_of_no_known_version_is_refused() -> None:
    def change(body: bytearray) -> None:
        body[body.index(b"\xa0\x03\x02\x01\x02") + 4] = 3  # the fourth, of which there is none

    with pytest.raises(AttestationError, match="not Apple's of now"):
        checker().check(BOUND, damaged(change))


def depth(value: Any) -> int:
    inner = [*value.values()] if isinstance(value, dict) else value
    return 1 + max(map(depth, inner), default=-1) if isinstance(inner, list) else 0


@given(st.recursive(
    st.integers(-2**63, 2**63) | st.binary(max_size=300) | st.text(max_size=30),
    lambda inner: st.lists(inner, max_size=4)
    | st.dictionaries(st.integers(-9, 9) | st.text(max_size=3), inner, max_size=4),
    max_leaves=8,
))  # fmt: skip
def test_cbor_is_read_as_it_was_written(value: Any) -> None:
    if depth(value) <= 8:
        assert read_cbor(cbor(value)) == value
    else:  # deeper than any attestation
        with pytest.raises(ValueError, match="in each other"):
            read_cbor(cbor(value))


@given(st.binary(max_size=40))
def test_any_bytes_are_a_value_or_a_value_error(data: bytes) -> None:
    try:
        read_cbor(data)
    except ValueError:
        return


@pytest.mark.parametrize(
    "data",
    [b"", b"\x18", b"\x42a", b"\x1c", b"\x5f", b"\xc0\x00", b"\x00\x00", b"\x9a\xff\xff\xff\xff",
     b"\xbb" + 8 * b"\xff", b"\xa2\x01\x01\x01\x02", b"\xa1\x40\x01", b"\x81" * 12, b"\x61\xff"],
)  # fmt: skip
def test_what_is_no_cbor_of_ours_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"found|ends|decode"):
        read_cbor(data)


def test_a_device_registers_with_an_attestation_for_its_own_key(tmp_path: Path) -> None:
    with opened(tmp_path, attestation=checker()) as small:
        device, other = SmallDevice(small), SmallDevice(small)
        challenge, bound = challenge_of(small, device)
        body = with_evidence(challenge, APPLE.attest(bound))
        assert other.register(body).status_code == 403
        assert device.register(body).status_code == 201


def test_a_key_of_another_curve_is_attested_by_its_point() -> None:
    """Apple's are of P-256; nothing here depends on that."""
    checker().check(BOUND, APPLE.attest(BOUND, curve=ec.SECP384R1()))

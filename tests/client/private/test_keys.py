"""Keys of private rounds: known answers, certificates, and what a round's secret decides."""

from __future__ import annotations

import os
import stat
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketquery.client.private import keys
from pocketquery.client.private.keys import (
    AgreementKey,
    Certificate,
    DeviceKey,
    RoundSecret,
    box_label,
    check_certificate,
    confirm_label,
    derive,
    held_label,
    is_mark,
    mark,
    mask_label,
    sign_certificate,
)
from pocketquery.client.private.masks import keystream
from pocketquery.client.private.sharing import MODULUS
from pocketquery.sdk.bundle.signature import public_key_of
from pocketquery.sdk.errors import (
    ArtifactNotFoundError,
    CorruptArtifactError,
    InvalidInputError,
)

BETA = sha256(b"binding").digest()
FEDERATION = sha256(b"a federation").digest()[:16]
AUTHORITY = sha256(b"authority").digest()
EXPIRY = 1_800_000_000
P = 2**255 - 19


def static(index: int) -> AgreementKey:
    return AgreementKey(sha256(f"static {index}".encode()).digest())


def certificate(key: bytes | None = None, expiry: int = EXPIRY) -> Certificate:
    return sign_certificate(AUTHORITY, FEDERATION, key or static(0).public, expiry)


def test_known_answers() -> None:
    zero, one = static(0), static(1)
    assert zero.public.hex().startswith("7a2ec2aa")
    assert zero.public.hex().endswith("9c05")
    assert one.public.hex().startswith("63ecbc10")
    assert one.public.hex().endswith("3045")
    shared = zero.agree(one.public)
    assert shared == one.agree(zero.public)
    mask = derive(shared, mask_label(BETA))
    assert mask.hex() == "6fd7ab0eb76532c6b631231e1e009789079726d9081f3bab9563bf8366b61e2e"
    assert list(keystream(mask, 4, 16)) == [9775, 6211, 34307, 38396]
    box = derive(shared, box_label(BETA, zero.public, one.public))
    assert box.hex() == "a152917ce9afe6837948db7bdb3a277a1542e96075fcd58f3c79f1143e17d5ac"
    confirm = derive(shared, confirm_label(BETA, zero.public, one.public))
    found = mark(confirm, sha256(b"alive").digest())
    assert found.hex() == "bbb285446a7eb97ff55a121e2154d26a"
    assert is_mark(confirm, sha256(b"alive").digest(), found)


def test_every_label_and_direction_has_a_key_of_its_own() -> None:
    secret, sender, receiver = bytes(32), b"s" * 32, b"r" * 32
    labels = [
        label(beta, *pair)
        for label in (box_label, held_label, confirm_label)
        for beta in (BETA, sha256(BETA).digest())
        for pair in ((sender, receiver), (receiver, sender))
    ]
    labels += [mask_label(BETA), keys.self_label(BETA)]
    assert len({derive(secret, label) for label in labels}) == len(labels)


@pytest.mark.parametrize("wrong", [b"", bytes(16), bytes(15), bytes(17)])
def test_a_wrong_mark_is_none(wrong: bytes) -> None:
    assert not is_mark(b"key", b"message", wrong)


# -- the device key's file ------------------------------------------------------------------------


def test_a_device_key_is_for_its_owner_alone_and_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "device.key"
    made = DeviceKey.create(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert DeviceKey.open(path).public == made.public
    assert list(tmp_path.iterdir()) == [path]


def test_the_file_is_private_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    sync = os.fsync

    def watching(descriptor: int) -> None:
        status = os.fstat(descriptor)
        if stat.S_ISREG(status.st_mode):
            seen.append(stat.S_IMODE(status.st_mode))
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", watching)
    DeviceKey.create(tmp_path / "device.key")
    assert seen == [0o600]


def test_a_key_that_is_there_is_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "device.key"
    made = DeviceKey.create(path)
    with pytest.raises(InvalidInputError, match="there already"):
        DeviceKey.create(path)
    assert DeviceKey.open(path).public == made.public


def test_an_absent_or_cut_key_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "device.key"
    with pytest.raises(ArtifactNotFoundError, match="pocketquery enrol key"):
        DeviceKey.open(path)
    for size in (0, 31, 33):
        path.write_bytes(bytes(size))
        with pytest.raises(CorruptArtifactError, match="expected 32 bytes"):
            DeviceKey.open(path)


# -- points that agree on nothing secret ----------------------------------------------------------

SMALL_ORDER = [0, 1, P - 1, *sorted(keys._SMALL_ORDER - {0, 1, P - 1})]


@pytest.mark.parametrize("value", [*SMALL_ORDER, P, P + 1, 2**255 - 1, 2**255, 2**256 - 1])
def test_points_of_small_order_and_second_encodings_are_refused(value: int) -> None:
    public = value.to_bytes(32, "little")
    with pytest.raises(InvalidInputError, match=r"small order|reduced encoding"):
        static(0).agree(public)
    with pytest.raises(InvalidInputError):
        sign_certificate(AUTHORITY, FEDERATION, public, EXPIRY)
    with pytest.raises(InvalidInputError):
        check_certificate(Certificate(public, EXPIRY, bytes(64)), AUTHORITY, FEDERATION, 0)


@pytest.mark.parametrize("value", SMALL_ORDER)
def test_with_each_of_them_the_agreement_would_be_zero(value: int) -> None:
    """The table is right: the library, which looks at the result alone, refuses each of them."""
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

    private = X25519PrivateKey.from_private_bytes(static(0).private)
    with pytest.raises(ValueError, match=r"."):
        private.exchange(X25519PublicKey.from_public_bytes(value.to_bytes(32, "little")))


@pytest.mark.parametrize("size", [0, 31, 33])
def test_keys_of_other_lengths_are_refused(size: int) -> None:
    with pytest.raises(InvalidInputError, match=f"32 bytes, found {size}"):
        static(0).agree(bytes(size))
    with pytest.raises(InvalidInputError, match=f"32 bytes, found {size}"):
        AgreementKey(bytes(size))
    with pytest.raises(InvalidInputError, match=f"32 bytes, found {size}"):
        RoundSecret(bytes(size))


# -- certificates ---------------------------------------------------------------------------------


def test_a_certificate_has_100_bytes_and_holds_until_its_expiry() -> None:
    data = certificate().to_bytes()
    assert len(data) == keys.CERTIFICATE_BYTES == 100
    assert data[:32] == static(0).public
    assert data[32:36] == EXPIRY.to_bytes(4, "big")
    found = Certificate.parse(data)
    assert found == certificate()
    check_certificate(found, public_key_of(AUTHORITY), FEDERATION, EXPIRY - 1)
    with pytest.raises(InvalidInputError, match="expired"):
        check_certificate(found, public_key_of(AUTHORITY), FEDERATION, EXPIRY)


def test_what_the_authority_signs_is_fixed() -> None:
    message = b"pocketquery-enrolment-1\n" + FEDERATION + static(0).public
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    signature = Ed25519PrivateKey.from_private_bytes(AUTHORITY).sign(
        message + EXPIRY.to_bytes(4, "big")
    )
    assert certificate().signature == signature


def test_another_authority_or_federation_certifies_nothing() -> None:
    other = public_key_of(sha256(b"another authority").digest())
    with pytest.raises(InvalidInputError, match="not by this authority"):
        check_certificate(certificate(), other, FEDERATION, 0)
    with pytest.raises(InvalidInputError, match="not by this authority"):
        check_certificate(certificate(), public_key_of(AUTHORITY), bytes(16), 0)
    with pytest.raises(InvalidInputError, match="16 bytes, found 4"):
        check_certificate(certificate(), public_key_of(AUTHORITY), b"name", 0)


@given(st.integers(0, 799))
def test_no_bit_of_a_certificate_can_be_changed(bit: int) -> None:
    data = bytearray(certificate().to_bytes())
    data[bit // 8] ^= 1 << bit % 8
    with pytest.raises(InvalidInputError):
        check_certificate(Certificate.parse(bytes(data)), public_key_of(AUTHORITY), FEDERATION, 0)


@given(st.binary(max_size=300).filter(lambda data: len(data) != 100))
def test_a_certificate_of_another_length_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidInputError, match="certificate has 100 bytes"):
        Certificate.parse(data)


@pytest.mark.parametrize("expiry", [-1, 0, 2**32])
def test_an_expiry_that_four_bytes_do_not_hold_is_refused(expiry: int) -> None:
    with pytest.raises(InvalidInputError, match="Unix seconds"):
        certificate(expiry=expiry)


# -- the round's secret ---------------------------------------------------------------------------


def test_a_round_secret_gives_the_same_again_and_something_else_in_another_round() -> None:
    def drawn(secret: bytes, beta: bytes) -> list[bytes]:
        source = RoundSecret(secret)
        return [
            source.self_seed(beta),
            source.mask_key(beta).private,
            source.mask_key(beta).public,
            source.coefficient(beta, "self", 1).to_bytes(32, "little"),
            source.coefficient(beta, "self", 2).to_bytes(32, "little"),
            source.coefficient(beta, "mask", 1).to_bytes(32, "little"),
            source.coins(beta).read(32),
            source.noise_stream(beta).read(32),
        ]

    first = drawn(bytes(32), BETA)
    assert first == drawn(bytes(32), BETA)
    others = drawn(bytes(31) + b"\1", BETA) + drawn(bytes(32), sha256(BETA).digest())
    assert len({*first, *others}) == 3 * len(first)


def test_coefficients_are_field_elements_of_all_sizes() -> None:
    source = RoundSecret(bytes(32))
    found = [source.coefficient(BETA, "mask", index) for index in range(1, 200)]
    assert all(0 <= value < MODULUS for value in found)
    assert len(set(found)) == len(found)
    assert max(found) > MODULUS * 0.95
    assert min(found) < MODULUS * 0.05

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from pocketquery.sdk.bundle.signature import Key, check_signature, key_id, public_key_of, sign
from pocketquery.sdk.errors import InvalidInputError, SignatureError

PRIVATE = bytes(range(32))


def pem_files(folder: Path) -> tuple[Path, Path]:
    key = Ed25519PrivateKey.from_private_bytes(PRIVATE)
    private, public = folder / "private.pem", folder / "public.pem"
    private.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    public.write_bytes(
        key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    )
    return private, public


def test_the_vector_of_rfc_8032() -> None:
    # RFC 8032, section 7.1, test 2.
    private = "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb"
    public = "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c"
    assert public_key_of(private).hex() == public
    assert sign(b"\x72", private).hex() == (
        "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da"
        "085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00"
    )


def test_raw_hexadecimal_and_pem_are_the_same_key(tmp_path: Path) -> None:
    private_pem, public_pem = pem_files(tmp_path)
    public = public_key_of(PRIVATE)
    privates: list[Key] = [PRIVATE, PRIVATE.hex(), private_pem, str(private_pem)]
    publics: list[Key] = [public, public.hex(), public_pem, str(public_pem)]
    assert len({sign(b"m", key) for key in privates}) == 1
    assert len({key_id(key) for key in publics}) == 1
    for key in publics:
        check_signature(b"m", sign(b"m", PRIVATE), key)


def test_another_message_another_key_or_a_changed_signature_is_refused() -> None:
    signature, public = sign(b"m", PRIVATE), public_key_of(PRIVATE)
    changed = bytes([signature[0] ^ 1]) + signature[1:]
    cases = [(b"n", signature, public), (b"m", changed, public)]
    cases.append((b"m", signature, public_key_of(b"\x01" * 32)))
    for message, found, key in cases:
        with pytest.raises(SignatureError, match=key_id(key)):
            check_signature(message, found, key)


def test_a_signature_of_another_length_is_refused() -> None:
    with pytest.raises(SignatureError, match="63 bytes, expected 64"):
        check_signature(b"m", b"\x00" * 63, public_key_of(PRIVATE))


def test_what_is_no_key_is_refused(tmp_path: Path) -> None:
    private_pem, public_pem = pem_files(tmp_path)
    text = tmp_path / "text.pem"
    text.write_text("hello")
    other = tmp_path / "x25519.pem"
    other.write_bytes(
        X25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    )
    wrong: list[tuple[Key, str]] = [
        (b"\x00" * 31, "32 bytes, found 31"),
        ("g" * 64, "neither 64 hexadecimal digits nor a readable PEM"),
        (tmp_path / "absent.pem", "neither"),
        (text, "not a readable private key"),
        (public_pem, "not a readable private key"),
        (other, "expected an Ed25519 key"),
    ]
    for key, message in wrong:
        with pytest.raises(InvalidInputError, match=message):
            sign(b"m", key)
    with pytest.raises(InvalidInputError, match="not a readable public key"):
        key_id(private_pem)


def test_without_the_package_the_error_names_the_extra() -> None:
    code = (
        "import sys; sys.modules['cryptography'] = None\n"
        "from pocketquery.sdk.bundle.signature import sign\n"
        "sign(b'm', bytes(32))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert 'pip install "pocketquery[sign]"' in result.stderr

"""Signed requests: what is written is read, and nothing else passes."""

from __future__ import annotations

import base64
import hashlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pocketquery.client.gateway.signing import read_signature, signed_headers
from pocketquery.sdk.bundle.signature import public_key_of
from pocketquery.sdk.errors import SignatureError

KEY = bytes(range(32))
CREATED = 1_700_000_000
NONCE = bytes(range(16))


def signed(**changes: object) -> dict[str, str]:
    given: dict[str, object] = {"created": CREATED, "nonce": NONCE, "figures": None} | changes
    return signed_headers(KEY, "PUT", "Gateway.test:8443", "/v1/x", b"body", **given)  # type: ignore[arg-type]


@pytest.mark.parametrize("figures", [None, '{"loss": 0.5}'])
def test_what_is_signed_is_read_and_checked(figures: str | None) -> None:
    found = read_signature(signed(figures=figures), "PUT", "gateway.test:8443", "/v1/x")
    found.check()
    assert found.key == public_key_of(KEY)
    assert (found.created, found.nonce) == (CREATED, NONCE)
    assert found.digest == hashlib.sha256(b"body").digest()


def test_the_lines_that_are_signed_are_those_of_the_documentation() -> None:
    """RFC 9421, section 2.5, written out by hand: what another implementation must sign."""
    found = read_signature(signed(), "PUT", "gateway.test:8443", "/v1/x")
    digest = base64.b64encode(hashlib.sha256(b"body").digest()).decode()
    assert found.base.decode().split("\n") == [
        '"@method": PUT',
        '"@authority": gateway.test:8443',
        '"@path": /v1/x',
        f'"content-digest": sha-256=:{digest}:',
        '"@signature-params": ("@method" "@authority" "@path" "content-digest");created=1700000000'
        ';nonce="000102030405060708090a0b0c0d0e0f"'
        f';keyid="{public_key_of(KEY).hex()}";alg="ed25519"',
    ]


@pytest.mark.parametrize(
    ("method", "authority", "path"),
    [("GET", "gateway.test:8443", "/v1/x"), ("PUT", "other.test", "/v1/x"),
     ("PUT", "gateway.test:8443", "/v1/y")],
)  # fmt: skip
def test_it_holds_for_nothing_else(method: str, authority: str, path: str) -> None:
    with pytest.raises(SignatureError):
        read_signature(signed(), method, authority, path).check()


def test_figures_that_are_not_signed_are_refused() -> None:
    headers = signed() | {"pocketquery-figures": "{}"}
    with pytest.raises(SignatureError, match="covers other parts"):
        read_signature(headers, "PUT", "gateway.test:8443", "/v1/x")
    headers = signed(figures="{}")
    del headers["pocketquery-figures"]
    with pytest.raises(SignatureError, match="covers other parts"):
        read_signature(headers, "PUT", "gateway.test:8443", "/v1/x")


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_no_headers_raise_anything_else(data: st.DataObject) -> None:
    headers = signed(figures='{"loss": 1}')
    name = data.draw(st.sampled_from(sorted(headers)))
    text = headers[name]
    place = data.draw(st.integers(0, len(text)))
    with_text = text[:place] + data.draw(st.text(max_size=3)) + text[place + 1 :]
    changed = headers | {name: data.draw(st.sampled_from([with_text, text[:place], ""]))}
    try:
        read_signature(changed, "PUT", "gateway.test:8443", "/v1/x").check()
    except SignatureError:
        return
    assert changed == headers

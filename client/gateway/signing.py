"""Requests that a device's key signed: HTTP Message Signatures (RFC 9421), one profile of them.

Covered are method, authority (the host), path, the body's digest (RFC 9530) and, where a request
has it, the header with a training's figures; with the time, a nonce and the key itself:

    Content-Digest: sha-256=:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=:
    Signature-Input: sig1=("@method" "@authority" "@path" "content-digest");\
created=1700000000;nonce="<32 hex>";keyid="<64 hex>";alg="ed25519"
    Signature: sig1=:<base64 of 64 bytes>:

What is signed are these lines, joined by line feeds and with none at the end:

    "@method": PUT
    "@authority": gateway.example.org
    "@path": /v1/rounds/3/update
    "content-digest": sha-256=:...:
    "@signature-params": ("@method" ... "content-digest");created=...;alg="ed25519"

A request is written in one way alone, so what reads it is a pattern and no parser.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass

from pocketquery.sdk.bundle.signature import Key, check_signature, public_key_of, sign
from pocketquery.sdk.errors import SignatureError

__all__ = ["FIGURES_HEADER", "SignedRequest", "content_digest", "read_signature", "signed_headers"]

FIGURES_HEADER = "pocketquery-figures"

_COVERED = '("@method" "@authority" "@path" "content-digest")'
_WITH_FIGURES = _COVERED[:-1] + f' "{FIGURES_HEADER}")'
_INPUT = re.compile(
    r"sig1=(\([a-z@\" -]{10,100}\)"
    r';created=([1-9][0-9]{0,10});nonce="([0-9a-f]{32})";keyid="([0-9a-f]{64})";alg="ed25519")'
)
_SIGNATURE = re.compile(r"sig1=:([A-Za-z0-9+/]{86}==):")
_DIGEST = re.compile(r"sha-256=:([A-Za-z0-9+/]{43}=):")


@dataclass(frozen=True)
class SignedRequest:
    """What a request says of who signed it; :meth:`check` tells whether that is so.

    Attributes:
        key: the device's public key, 32 bytes.
        created: when it was signed, in seconds since 1970 by the device's clock.
        nonce: 16 bytes.
        digest: SHA-256 of the body, 32 bytes, as the request says.
        base: what was signed.
        signature: 64 bytes.
    """

    key: bytes
    created: int
    nonce: bytes
    digest: bytes
    base: bytes
    signature: bytes

    def check(self) -> None:
        """Return where the key signed it.

        Raises:
            SignatureError: it did not.
        """
        check_signature(self.base, self.signature, self.key, "request")


def content_digest(body: bytes) -> str:
    """The value of ``Content-Digest`` for ``body``."""
    return f"sha-256=:{base64.b64encode(hashlib.sha256(body).digest()).decode()}:"


def signed_headers(
    private_key: Key,
    method: str,
    authority: str,
    path: str,
    body: bytes = b"",
    *,
    created: int,
    nonce: bytes,
    figures: str | None = None,
) -> dict[str, str]:
    """The headers that sign a request.

    Args:
        private_key: the device's.
        method: "GET", "PUT" and so on.
        authority: the host, with the port where the URL names one, in small letters.
        path: as it is sent, without a query.
        body: what is sent.
        created: the time, in whole seconds since 1970.
        nonce: 16 random bytes, for this request alone.
        figures: the value of the header of :data:`FIGURES_HEADER`, where it is sent.

    Raises:
        InvalidInputError: the key is none.
        MissingExtraError: ``cryptography`` is not installed.
    """
    key = public_key_of(private_key).hex()
    covered = _COVERED if figures is None else _WITH_FIGURES
    parameters = f'{covered};created={created};nonce="{nonce.hex()}";keyid="{key}";alg="ed25519"'
    digest = content_digest(body)
    base = _base(method, authority, path, digest, figures, parameters)
    signature = base64.b64encode(sign(base, private_key)).decode()
    headers = {
        "content-digest": digest,
        "signature-input": f"sig1={parameters}",
        "signature": f"sig1=:{signature}:",
    }
    return headers if figures is None else headers | {FIGURES_HEADER: figures}


def read_signature(
    headers: Mapping[str, str], method: str, authority: str, path: str
) -> SignedRequest:
    """What ``headers``, by names in small letters, say of who signed the request.

    Raises:
        SignatureError: they are not those of :func:`signed_headers`.
    """
    signature_input = _INPUT.fullmatch(headers.get("signature-input", ""))
    signature = _SIGNATURE.fullmatch(headers.get("signature", ""))
    digest = _DIGEST.fullmatch(headers.get("content-digest", ""))
    figures = headers.get(FIGURES_HEADER)
    if signature_input is None or signature is None or digest is None:
        missing = [
            name
            for name, value in (
                ("signature-input", signature_input),
                ("signature", signature),
                ("content-digest", digest),
            )
            if value is None
        ]
        raise SignatureError(
            f"the request lacks {', '.join(missing)} in the form of docs/gateway.md; sign it"
        )
    covered = _COVERED if figures is None else _WITH_FIGURES
    if not signature_input[1].startswith(covered + ";"):
        raise SignatureError(f"the signature covers other parts than {covered}; sign these")
    try:
        raw = base64.b64decode(signature[1], validate=True), base64.b64decode(digest[1])
    except binascii.Error as error:
        raise SignatureError(f"signature or digest is no base64: {error}") from error
    return SignedRequest(
        key=bytes.fromhex(signature_input[4]),
        created=int(signature_input[2]),
        nonce=bytes.fromhex(signature_input[3]),
        digest=raw[1],
        base=_base(method, authority, path, headers["content-digest"], figures, signature_input[1]),
        signature=raw[0],
    )


def _base(
    method: str, authority: str, path: str, digest: str, figures: str | None, parameters: str
) -> bytes:
    lines = [
        f'"@method": {method}',
        f'"@authority": {authority.lower()}',
        f'"@path": {path}',
        f'"content-digest": {digest}',
        *([] if figures is None else [f'"{FIGURES_HEADER}": {figures}']),
        f'"@signature-params": {parameters}',
    ]
    return "\n".join(lines).encode()

"""Play Integrity: checks that an Android app and its device are genuine.

The app asks for an integrity token with URL-safe base64 without padding of the 32 bytes of
:func:`pocketquery_gateway.attestation.binding` as its ``requestHash`` (standard requests) or
``nonce`` (classic ones), and registers with

    {"challenge": "...", "attestation": {"token": "<the integrity token>"}}

A token is encrypted; Google's server reads it for the app's publisher alone
(``POST https://playintegrity.googleapis.com/v1/PACKAGE:decodeIntegrityToken``). That question, with
the publisher's account, is ``decode``; what is looked at in its answer is here. The app is trusted
as far as Google is.

Source: https://developer.android.com/google/play/integrity/verdicts
"""

from __future__ import annotations

import base64
import hmac
from collections.abc import Callable, Collection, Mapping
from typing import Any

from pocketquery.sdk.errors import InvalidInputError
from pocketquery_gateway.attestation import AttestationError, import_function

__all__ = ["PlayIntegrity", "make_play_integrity"]

_DIGEST_BYTES = 32


class PlayIntegrity:
    """Takes registrations of one Android app as Play distributes it.

    Args:
        decode: what Google answers for a token: the JSON object, whole or its
            ``tokenPayloadExternal``. It raises AttestationError where Google says that this is no
            token; any other error says that Google could not be asked. Called in several threads.
        package_name: the app's, "org.example.app".
        certificates: SHA-256 of those that it may be signed with, 64 hexadecimal digits each, with
            colons or without, as the Play Console shows them.
        device_verdict: that the device must meet besides; "" for none.
        licensed: whether the user must have the app from Play.

    Raises:
        InvalidInputError: a certificate's digest is none, or there is no certificate.
    """

    def __init__(
        self,
        decode: Callable[[str], Mapping[str, Any]],
        *,
        package_name: str,
        certificates: Collection[str],
        device_verdict: str = "MEETS_DEVICE_INTEGRITY",
        licensed: bool = False,
    ) -> None:
        self._decode = decode
        self._package = package_name
        self._certificates = frozenset(map(_digest, certificates))
        if isinstance(certificates, str) or not self._certificates:
            raise InvalidInputError(
                f"certificates is {certificates!r}, expected the SHA-256 of at least one, in a list"
            )
        self._device_verdict = device_verdict
        self._licensed = licensed

    def check(self, binding: bytes, evidence: Mapping[str, Any]) -> None:
        """See that Google says so of the token in ``evidence``.

        Args:
            binding: 32 bytes, that the token was asked for with.
            evidence: ``token``, a text.

        Raises:
            AttestationError: it does not; the text says what was found.
        """
        token = evidence.get("token")
        if not isinstance(token, str) or not token:
            raise AttestationError("expected token in the attestation, an integrity token")
        answer = self._decode(token)
        payload = answer.get("tokenPayloadExternal", answer)
        request, app = _part(payload, "requestDetails"), _part(payload, "appIntegrity")
        made_for = request.get("requestHash") or request.get("nonce")
        wanted = base64.urlsafe_b64encode(binding).rstrip(b"=")
        if not isinstance(made_for, str) or not hmac.compare_digest(
            made_for.rstrip("=").encode(), wanted
        ):
            raise AttestationError("the token was not made over this challenge and key")
        for where, name in ((request, "requestPackageName"), (app, "packageName")):
            if where.get(name) != self._package:
                raise AttestationError("the token is another app's")
        if app.get("appRecognitionVerdict") != "PLAY_RECOGNIZED":
            raise AttestationError("Play does not know this version of the app")
        digests = app.get("certificateSha256Digest")
        if not isinstance(digests, list) or not self._certificates.intersection(
            map(_read, digests)
        ):
            raise AttestationError("the app is signed with another certificate")
        verdicts = _part(payload, "deviceIntegrity").get("deviceRecognitionVerdict")
        if self._device_verdict and (
            not isinstance(verdicts, list) or self._device_verdict not in verdicts
        ):
            raise AttestationError(f"the device is not what {self._device_verdict} says")
        account = _part(payload, "accountDetails")
        if self._licensed and account.get("appLicensingVerdict") != "LICENSED":
            raise AttestationError("the user does not have the app from Play")


def make_play_integrity(*, decode: str, **options: Any) -> PlayIntegrity:
    """The checker for settings in a file, where ``decode`` is "module:function".

    Raises:
        InvalidInputError: there is no such function, or as :class:`PlayIntegrity`.
    """
    return PlayIntegrity(import_function(decode), **options)


def _digest(text: str) -> bytes:
    """The 32 bytes of a certificate's digest."""
    try:
        digest = bytes.fromhex(text.replace(":", ""))
    except (AttributeError, ValueError):
        digest = b""
    if len(digest) != _DIGEST_BYTES:
        raise InvalidInputError(f"found the certificate {text!r:.80}, expected SHA-256 in hex")
    return digest


def _read(text: object) -> bytes:
    """The same as Google writes it; nothing where it is something else."""
    try:
        return base64.urlsafe_b64decode(str(text) + "==")
    except ValueError:
        return b""


def _part(payload: object, name: str) -> Mapping[str, Any]:
    """A part of the payload, empty where there is none."""
    part = payload.get(name) if isinstance(payload, Mapping) else None
    return part if isinstance(part, Mapping) else {}

"""Whether a key belongs to a genuine app on a genuine device: for a plug-in to say.

A gateway takes any key unless it is given an :class:`Attestation`. One for Android asks Play
Integrity's server to decode the token that the app got for :func:`binding`; one for iOS checks App
Attest's certificate chain over the same bytes. Neither is in this package: they need accounts and
keys of the app's publisher. What they must do is small:

    class PlayIntegrity:
        def check(self, binding: bytes, evidence: Mapping[str, Any]) -> None:
            ...  # raise AttestationError where evidence["token"] was not made over binding

and ``attestation = "my_module:make_checker"`` in the gateway's configuration names what makes one.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import importlib
import os
from collections.abc import Mapping
from typing import Any, Protocol

from pocketquery.sdk.errors import InvalidInputError, PocketQueryError

__all__ = ["Attestation", "AttestationError", "Challenges", "binding", "load_attestation"]

_MAC_BYTES = 16
_RANDOM_BYTES = 16
_TIME_BYTES = 8


class AttestationError(PocketQueryError):
    """The evidence does not show a genuine app with this key."""


class Attestation(Protocol):
    """What looks at a device's evidence when it registers; called in a thread of its own."""

    def check(self, binding: bytes, evidence: Mapping[str, Any]) -> None:
        """Return where ``evidence``, JSON values from the device, was made over ``binding`` (32
        bytes, see :func:`binding`) by a genuine app.

        Raises:
            AttestationError: it was not; its text goes to the device.
        """


class Challenges:
    """Challenges that are recognised without being kept, by a secret of this process.

    Args:
        seconds: how long one holds.
        secret: 32 bytes; by default drawn from the system.
    """

    def __init__(self, seconds: int = 300, secret: bytes | None = None) -> None:
        self.seconds = seconds
        self._secret = secret or os.urandom(32)

    def make(self, now: float) -> str:
        """A new one, in URL-safe base64 without padding."""
        body = int(now + self.seconds).to_bytes(_TIME_BYTES, "big") + os.urandom(_RANDOM_BYTES)
        return base64.urlsafe_b64encode(body + self._mac(body)).decode().rstrip("=")

    def check(self, challenge: str, now: float) -> bytes:
        """The bytes of a challenge that was made here and still holds.

        Raises:
            AttestationError: it was not, or holds no longer.
        """
        try:
            data = base64.b64decode(challenge + "=" * (-len(challenge) % 4), b"-_", validate=True)
        except ValueError as error:
            raise AttestationError("the challenge is no base64; ask for a new one") from error
        body, mac = data[:-_MAC_BYTES], data[-_MAC_BYTES:]
        if len(body) != _TIME_BYTES + _RANDOM_BYTES or not hmac.compare_digest(
            mac, self._mac(body)
        ):
            raise AttestationError("the challenge was not made by this gateway; ask for a new one")
        if int.from_bytes(body[:_TIME_BYTES], "big") < now:
            raise AttestationError("the challenge has expired; ask for a new one")
        return data

    def _mac(self, body: bytes) -> bytes:
        return hmac.digest(self._secret, body, hashlib.sha256)[:_MAC_BYTES]


def binding(challenge: bytes, key: bytes) -> bytes:
    """What evidence is made over: SHA-256 of challenge and public key, 32 bytes. Evidence so holds
    for this key alone, and for this registration."""
    return hashlib.sha256(challenge + key).digest()


def load_attestation(name: str) -> Attestation:
    """What ``name``, "module:function", makes.

    Raises:
        InvalidInputError: there is none, or what it makes cannot check.
    """
    module, _, function = name.partition(":")
    try:
        made = getattr(importlib.import_module(module), function)()
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        raise InvalidInputError(
            f"attestation is {name!r}, expected module:function that makes a checker: {error}"
        ) from error
    if not callable(getattr(made, "check", None)):
        raise InvalidInputError(f"what {name!r} makes is {made!r:.80}, expected a method check()")
    checker: Attestation = made
    return checker

"""Challenges that a device's evidence must contain; none is stored."""

from __future__ import annotations

import base64
import hashlib
import hmac
import os

from pocketquery_gateway.attestation.interface import AttestationError

__all__ = ["Challenges"]

_MAC_BYTES = 16
_RANDOM_BYTES = 16
_TIME_BYTES = 8


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

"""A binding of private rounds with noise on devices."""

from __future__ import annotations

from pocketquery.client.private.binding import Binding, Privacy
from pocketquery.client.private.encoding import Encoding

__all__ = ["noisy_binding"]


def noisy_binding(federation: bytes, number: int) -> Binding:
    """Of round ``number`` in the season "spring", 100 devices."""
    return Binding(
        federation=federation,
        round=number,
        nonce=bytes(32),
        group=0,
        size=100,
        neighbours=84,
        threshold=51,
        ring_seed=bytes(32),
        roster_sha256="0" * 64,
        release_sha256="0" * 64,
        settings_sha256="0" * 64,
        encoding=Encoding(2_304, 32, 10, 0.0125, 1.0),
        privacy=Privacy("devices", 2.4, 64, "spring", 1),
        expiry=1,
    )

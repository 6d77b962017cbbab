"""Devices of the federation "clinics" that say they are ready, rightly and not."""

from __future__ import annotations

from typing import Any

from pocketquery.client.private.keys import (
    AgreementKey,
    Certificate,
    federation_id,
    sign_certificate,
)
from pocketquery.client.private.replies import Ready
from pocketquery.sdk.bundle.signature import public_key_of
from pocketquery.server.private.secure_round import SecureRound
from pocketquery.server.private.settings import SecureSettings

__all__ = ["NOW", "PLAIN", "certificate", "key_of", "ready_of"]

NOW = 1_800_000_000.0
PLAIN = SecureSettings(
    federation="clinics", enrolment=public_key_of(bytes(range(32))).hex(), least=3, groups=3
)


def key_of(number: int) -> AgreementKey:
    """The key of a device."""
    return AgreementKey(bytes([number + 1]) * 32)


def certificate(number: int, **changes: Any) -> Certificate:
    """The authority's word for it, valid for ten seconds."""
    given: dict[str, Any] = {
        "authority_private": bytes(range(32)),
        "federation": federation_id("clinics"),
        "key": key_of(number).public,
        "expiry": int(NOW) + 10,
    }
    return sign_certificate(**given | changes)


def ready_of(
    found: SecureRound, number: int, round_: int = 0, *, key: AgreementKey | None = None,
    **changes: Any,
) -> bytes:  # fmt: skip
    """What a device answers to the announcement of ``found``, the round ``round_``; with another
    ``key`` than its own, what somebody else can make of its certificate."""
    said = Ready.prove(
        key or key_of(number),
        certificate(number, **changes),
        found.key.public,
        found.settings.federation_id,
        round_,
    )
    return said.to_bytes()

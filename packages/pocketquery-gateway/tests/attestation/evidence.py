"""What a device sends to a gateway that asks for an attestation."""

from __future__ import annotations

import base64
import json

from small_gateway import SmallDevice, SmallGateway

from pocketquery.sdk.bundle.signature import public_key_of
from pocketquery_gateway.attestation import binding

__all__ = ["challenge_of", "with_evidence"]


def challenge_of(small: SmallGateway, device: SmallDevice) -> tuple[str, bytes]:
    """A challenge, and what evidence of a device is made over."""
    challenge = small.client.post("/v1/challenge").json()["challenge"]
    raw = base64.urlsafe_b64decode(challenge + "=" * (-len(challenge) % 4))
    return challenge, binding(raw, public_key_of(device.key))


def with_evidence(challenge: str, evidence: object) -> bytes:
    """The body of a registration."""
    return json.dumps({"challenge": challenge, "attestation": evidence}).encode()

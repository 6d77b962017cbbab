"""A gateway's answer to a device that asks for an offer, as JSON.

    {"offer": {...} or null, "retry_after": 0}

``offer`` is the encoding of client/offer.py, or null where there is none for this device now;
``retry_after`` are seconds until asking again is of use. The release is fetched by its hash.
"""

from __future__ import annotations

from typing import Any

from pocketquery.client.offer import LARGEST_OFFER, Offer
from pocketquery.sdk.fields import Fields

__all__ = ["STAGE_HEADER", "offer_message", "read_offer_message"]

STAGE_HEADER = "pocketquery-stage"
"""The header that says in which stage of a private round a message is."""

_SOURCE = "the gateway's offer"
_LONGEST_WAIT = 86_400  # seconds


def offer_message(offer: Offer | None, retry_after: int) -> dict[str, Any]:
    """The answer as JSON values."""
    return {"offer": None if offer is None else offer.to_dict(), "retry_after": retry_after}


def read_offer_message(data: bytes) -> tuple[Offer | None, int]:
    """What is offered, its release still to be fetched, and in how many seconds asking again is of
    use.

    Raises:
        CorruptArtifactError: not what a gateway writes.
        UnusableOfferError: settings out of range.
    """
    fields = Fields.of_json(data, _SOURCE, most_bytes=LARGEST_OFFER)
    wait = fields.integer("retry_after", 0, _LONGEST_WAIT)
    if fields.is_null("offer"):
        return None, wait
    return Offer.of_fields(fields.child("offer")), wait

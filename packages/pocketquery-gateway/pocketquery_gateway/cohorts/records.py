"""What goes between ServerApp and gateways, as Flower's records of one array of bytes.

``train.gateway``   a CohortOffer; the reply is the cohort's sum (cohort_sum.py), or of a private
                    round who is ready (stage_bundle.py)
``train.relay``     one later stage of a private round, for all devices of the gateway; the reply
                    has theirs (stage_bundle.py)
``query.gateway``   the release in force, for the gateway to serve; the reply is empty
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from flwr.app import ArrayRecord, Message, RecordDict

from pocketquery.client.records import byte_array, content_bytes
from pocketquery.sdk.errors import CorruptArtifactError
from pocketquery_gateway.cohorts.announced_release import AnnouncedRelease
from pocketquery_gateway.cohorts.cohort_offer import CohortOffer
from pocketquery_gateway.cohorts.stage_bundle import StageBundle

__all__ = [
    "ANNOUNCE",
    "RELAY",
    "STAGE",
    "SUM",
    "TRAIN",
    "GatewayReply",
    "byte_records",
    "read_cohort_reply",
    "read_part",
    "read_relay_reply",
    "records_of",
]

TRAIN = "train.gateway"
RELAY = "train.relay"
ANNOUNCE = "query.gateway"
SUM, STAGE = "sum", "stage"
"""The records of replies."""

Part = TypeVar("Part", CohortOffer, StageBundle, AnnouncedRelease)
T = TypeVar("T")
_NAMES: dict[type, str] = {CohortOffer: "cohort", StageBundle: STAGE, AnnouncedRelease: "release"}


@dataclass(frozen=True)
class GatewayReply(Generic[T]):
    """A gateway's reply as the server sees it.

    Attributes:
        content: a cohort's sum as bytes, or the bundle of its devices' replies; None where the
            gateway failed.
        failed: why it did.
    """

    content: T | None
    failed: str | None = None


def byte_records(name: str, data: bytes) -> RecordDict:
    """``data`` as the content of a message, in one record."""
    return RecordDict({name: ArrayRecord({name: byte_array(data)})})


def records_of(part: CohortOffer | StageBundle | AnnouncedRelease) -> RecordDict:
    """``part`` as the content of a message."""
    return byte_records(_NAMES[type(part)], part.to_bytes())


def read_part(message: Message, kind: type[Part]) -> Part:
    """What :func:`records_of` wrote of such a part.

    Raises:
        CorruptArtifactError: the message holds none.
        InvalidInputError: an offer's settings are out of range.
    """
    return kind.from_bytes(content_bytes(message, _NAMES[kind]) or b"")


def read_cohort_reply(message: Message) -> GatewayReply[bytes]:
    """What is in a gateway's reply. Nothing raises."""
    if message.has_error():
        return GatewayReply(None, message.error.reason or "the gateway failed")
    return GatewayReply(content_bytes(message, SUM) or b"")


def read_relay_reply(message: Message) -> GatewayReply[StageBundle]:
    """What is in a gateway's reply in a private round. Nothing raises."""
    if message.has_error():
        return GatewayReply(None, message.error.reason or "the gateway failed")
    try:
        return GatewayReply(read_part(message, StageBundle))
    except CorruptArtifactError as error:
        return GatewayReply(None, str(error))

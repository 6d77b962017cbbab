"""What goes between ServerApp and gateways, as Flower's records of one array of bytes.

``train.gateway``   a CohortOffer; the reply is the cohort's sum (cohort_sum.py), or of a private
                    round who is ready (stage_bundle.py)
``train.relay``     one later stage of a private round, for all devices of the gateway; the reply
                    has theirs (stage_bundle.py)
``query.gateway``   the release in force, for the gateway to serve; the reply is empty
"""

from __future__ import annotations

from dataclasses import dataclass

from flwr.app import ArrayRecord, Message, RecordDict

from pocketquery.client.records import byte_array, content_bytes
from pocketquery.sdk.errors import CorruptArtifactError
from pocketquery.server.federation.cohorts.announced_release import AnnouncedRelease
from pocketquery.server.federation.cohorts.cohort_offer import CohortOffer
from pocketquery.server.federation.cohorts.stage_bundle import StageBundle

__all__ = [
    "ANNOUNCE",
    "RELAY",
    "TRAIN",
    "CohortReply",
    "RelayReply",
    "announcement_records",
    "bundle_records",
    "cohort_records",
    "read_announcement",
    "read_bundle",
    "read_cohort_offer",
    "read_cohort_reply",
    "read_relay_reply",
    "sum_records",
]

TRAIN = "train.gateway"
RELAY = "train.relay"
ANNOUNCE = "query.gateway"


@dataclass(frozen=True)
class CohortReply:
    """A gateway's reply as the server sees it.

    Attributes:
        sum: its bytes; None where the gateway failed.
        failed: why it did.
    """

    sum: bytes | None
    failed: str | None = None


@dataclass(frozen=True)
class RelayReply:
    """A gateway's reply in a private round, as the server sees it.

    Attributes:
        bundle: of its devices; None where the gateway failed.
        failed: why it did.
    """

    bundle: StageBundle | None
    failed: str | None = None


def byte_records(name: str, data: bytes) -> RecordDict:
    """``data`` as the content of a message, in one record."""
    return RecordDict({name: ArrayRecord({name: byte_array(data)})})


def cohort_records(asked: CohortOffer) -> RecordDict:
    """``asked`` as the content of a message."""
    return byte_records("cohort", asked.to_bytes())


def read_cohort_offer(message: Message) -> CohortOffer:
    """What :func:`cohort_records` wrote.

    Raises:
        CorruptArtifactError: it holds no such offer.
        InvalidInputError: its settings are out of range.
    """
    return CohortOffer.from_bytes(content_bytes(message, "cohort") or b"")


def sum_records(data: bytes) -> RecordDict:
    """A cohort's sum as the content of a reply."""
    return byte_records("sum", data)


def read_cohort_reply(message: Message) -> CohortReply:
    """What is in a gateway's reply. Nothing raises."""
    if message.has_error():
        return CohortReply(None, message.error.reason or "the gateway failed")
    return CohortReply(content_bytes(message, "sum") or b"")


def bundle_records(data: bytes) -> RecordDict:
    """A stage bundle's bytes as the content of a message, down or up."""
    return byte_records("stage", data)


def read_bundle(message: Message) -> StageBundle:
    """What is in a message of :func:`bundle_records`.

    Raises:
        CorruptArtifactError: no such bundle.
    """
    return StageBundle.from_bytes(content_bytes(message, "stage") or b"")


def read_relay_reply(message: Message) -> RelayReply:
    """What is in a gateway's reply in a private round. Nothing raises."""
    if message.has_error():
        return RelayReply(None, message.error.reason or "the gateway failed")
    try:
        return RelayReply(read_bundle(message))
    except CorruptArtifactError as error:
        return RelayReply(None, str(error))


def announcement_records(announced: AnnouncedRelease) -> RecordDict:
    """A release in force as the content of a message."""
    return byte_records("release", announced.to_bytes())


def read_announcement(message: Message) -> AnnouncedRelease:
    """What :func:`announcement_records` wrote.

    Raises:
        CorruptArtifactError: it holds none.
    """
    return AnnouncedRelease.from_bytes(content_bytes(message, "release") or b"")

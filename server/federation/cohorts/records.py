"""What goes between ServerApp and gateways, as Flower's records.

``train.gateway``   an offer, as devices get it, with what a gateway must know to sum as the server
                    would; the reply is the cohort's sum (cohort_sum.py). Of a private round: who is
                    ready (stage_bundle.py). During a roll-out with the release that it leaves to
                    the other devices, in a record that gateways of before do not look for
``train.relay``     one later stage of a private round, for all devices of the gateway; the reply
                    has theirs (stage_bundle.py)
``query.gateway``   the release in force and its lineage, for the gateway to serve, and during a
                    roll-out the other one; the reply is empty
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, RecordDict

from pocketquery.client.records import array_bytes, offer_records, read_offer
from pocketquery.sdk.errors import CorruptArtifactError, InvalidInputError
from pocketquery.server.federation.cohorts.cohort_offer import CohortOffer, read_bases
from pocketquery.server.federation.cohorts.stage_bundle import StageBundle
from pocketquery.server.federation.rounds.settings import RoundSettings
from pocketquery.server.private.settings import SecureSettings

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

_LARGEST_SETTINGS = 100_000  # characters


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


def cohort_records(asked: CohortOffer) -> RecordDict:
    """``asked`` as the content of a message."""
    records = offer_records(asked.offer)
    records["cohort"] = ConfigRecord(
        {
            "settings": json.dumps(asked.settings.to_dict()),
            "asked": asked.asked,
            "wanted": asked.wanted,
            "seconds": float(asked.seconds),
        }
    )
    if asked.bases:
        named = json.dumps({str(number): version for number, version in asked.bases.items()})
        records["bases"] = ConfigRecord({"releases": named})
    if asked.secure is not None:
        records["private"] = ConfigRecord({"settings": json.dumps(asked.secure.to_dict())})
    _add_left(records, asked.left_release)
    return records


def read_cohort_offer(message: Message) -> CohortOffer:
    """What :func:`cohort_records` wrote.

    Raises:
        CorruptArtifactError: it holds no such offer.
        InvalidInputError: its settings are out of range.
    """
    offer = read_offer(message)
    try:
        found = message.content.config_records["cohort"]
        settings = RoundSettings.from_dict(_settings(found))
        private = message.content.config_records.get("private")
        secure = None if private is None else SecureSettings.from_dict(_settings(private))
        older = message.content.config_records.get("bases")
        bases = {} if older is None else read_bases(_settings(older, "releases"))
        numbers = (found["asked"], found["wanted"], found["seconds"])
        left = _read_left(message)
        return CohortOffer(offer, settings, *numbers, secure, bases, left)  # type: ignore[arg-type]
    except InvalidInputError:
        raise
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise CorruptArtifactError(
            f"the message holds no offer for a gateway ({error!s:.200}); upgrade the older of "
            "server and gateway"
        ) from error


def _settings(record: ConfigRecord, name: str = "settings") -> dict[str, Any]:
    text = record[name]
    if not isinstance(text, str) or len(text) > _LARGEST_SETTINGS:
        raise ValueError("the settings are no text of this length")
    return dict(json.loads(text))


def sum_records(data: bytes) -> RecordDict:
    """A cohort's sum as the content of a reply."""
    return RecordDict({"sum": ArrayRecord({"sum": Array(np.frombuffer(data, np.uint8))})})


def read_cohort_reply(message: Message) -> CohortReply:
    """What is in a gateway's reply. Nothing raises."""
    if message.has_error():
        return CohortReply(None, message.error.reason or "the gateway failed")
    array = message.content.array_records.get("sum", ArrayRecord()).get("sum")
    return CohortReply(b"" if array is None else array_bytes(array) or b"")


def bundle_records(data: bytes) -> RecordDict:
    """A stage bundle's bytes as the content of a message, down or up."""
    return RecordDict({"stage": ArrayRecord({"stage": Array(np.frombuffer(data, np.uint8))})})


def read_bundle(message: Message) -> StageBundle:
    """What is in a message of :func:`bundle_records`.

    Raises:
        CorruptArtifactError: no such bundle.
    """
    array = message.content.array_records.get("stage", ArrayRecord()).get("stage")
    return StageBundle.from_bytes(b"" if array is None else array_bytes(array) or b"")


def read_relay_reply(message: Message) -> RelayReply:
    """What is in a gateway's reply in a private round. Nothing raises."""
    if message.has_error():
        return RelayReply(None, message.error.reason or "the gateway failed")
    try:
        return RelayReply(read_bundle(message))
    except CorruptArtifactError as error:
        return RelayReply(None, str(error))


def announcement_records(release: bytes, lineage: bytes, left_release: bytes = b"") -> RecordDict:
    """A release in force, its registry's statements, and the release that a roll-out leaves to
    the other devices (empty: none runs) as the content of a message."""
    records = RecordDict(
        {
            "release": ArrayRecord({"release": Array(np.frombuffer(release, np.uint8))}),
            "announcement": ConfigRecord({"lineage": lineage}),
        }
    )
    _add_left(records, left_release)
    return records


def read_announcement(message: Message) -> tuple[bytes, bytes, bytes]:
    """Release, lineage and the other release that :func:`announcement_records` wrote.

    Raises:
        CorruptArtifactError: it holds none.
    """
    try:
        release = array_bytes(message.content.array_records["release"]["release"])
        lineage = message.content.config_records["announcement"]["lineage"]
        left = _read_left(message)
    except (AttributeError, KeyError, TypeError) as error:
        raise CorruptArtifactError(f"the message announces no release ({error!s:.200})") from error
    if release is None or not isinstance(lineage, bytes):
        raise CorruptArtifactError("the message announces no release of this version")
    return release, lineage, left


def _add_left(records: RecordDict, release: bytes) -> None:
    if release:
        records["left"] = ArrayRecord({"left": Array(np.frombuffer(release, np.uint8))})


def _read_left(message: Message) -> bytes:
    array = message.content.array_records.get("left", ArrayRecord()).get("left")
    return b"" if array is None else array_bytes(array) or b""

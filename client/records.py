"""Offers and replies of plain rounds as Flower's records, and back.

Down comes the offer (offer.py) and, as one uint8 array, its release; up goes the update as one
uint8 array, with three figures, or from a device that declines one number that says just that.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict

from pocketquery.client.device import Answer, Declined
from pocketquery.client.figures import FIGURES, readable
from pocketquery.client.offer import Offer
from pocketquery.sdk.errors import CorruptArtifactError

__all__ = [
    "Reply",
    "array_bytes",
    "byte_array",
    "content_bytes",
    "declining",
    "is_declining",
    "offer_records",
    "read_offer",
    "read_reply",
    "reply_to",
]

# What byte_array() writes, version 1.0 of numpy's format: uint8, one axis, padded with spaces.
_NPY_MAGIC = b"\x93NUMPY\x01\x00"
_NPY_HEADER = re.compile(
    rb"\{'descr': '\|u1', 'fortran_order': False, 'shape': \((0|[1-9][0-9]{0,17}),\), \} *\n"
)
_NPY_PREFIX = len(_NPY_MAGIC) + 2


def offer_records(offer: Offer) -> RecordDict:
    """``offer`` and its release as the content of a message."""
    return RecordDict(
        {
            "release": ArrayRecord({"release": byte_array(offer.release)}),
            "offer": ConfigRecord({"offer": offer.to_bytes()}),
        }
    )


def read_offer(message: Message) -> Offer:
    """The offer in ``message``, with its release.

    Raises:
        CorruptArtifactError: there is none, or the release is another than the one it names.
        UnusableOfferError: its settings are out of range.
    """
    records = message.content
    data = records.config_records.get("offer", ConfigRecord()).get("offer")
    release = content_bytes(message, "release")
    if not isinstance(data, bytes) or release is None:
        raise CorruptArtifactError(
            "the message holds no offer of this version, expected the records offer and release; "
            "upgrade the older of server and device"
        )
    return Offer.from_bytes(data).with_release(release)


def reply_to(message: Message, answer: Answer) -> Message:
    """A device's ``answer`` to ``message``."""
    if isinstance(answer, Declined):
        return declining(message)
    update = ArrayRecord({"update": byte_array(answer.update)})
    figures = MetricRecord(
        {name: answer.figures[name] for name in FIGURES if name in answer.figures}
    )
    return Message(RecordDict({"update": update, "figures": figures}), reply_to=message)


def declining(message: Message) -> Message:
    """The reply of a device that declines, whatever it was asked."""
    return Message(RecordDict({"figures": MetricRecord({"declined": 1})}), reply_to=message)


def is_declining(records: RecordDict) -> bool:
    """Whether the content of a reply is :func:`declining`'s."""
    return records.metric_records.get("figures", MetricRecord()).get("declined") == 1


@dataclass(frozen=True)
class Reply:
    """A reply as the server sees it, whatever a device sent.

    Attributes:
        update: the bytes to validate; None where it declined or failed.
        figures: those of :data:`FIGURES` that are finite numbers.
        failed: why the device gave none; None where it replied.
    """

    update: bytes | None
    figures: Mapping[str, float]
    failed: str | None = None


def read_reply(message: Message) -> Reply:
    """What is in a device's message. Nothing raises: it comes from anywhere."""
    if message.has_error():
        return Reply(None, {}, message.error.reason or "the device failed")
    records = message.content
    if is_declining(records):
        return Reply(None, {})
    figures = records.metric_records.get("figures", MetricRecord())
    array = records.array_records.get("update", ArrayRecord()).get("update")
    # Where it is no array of bytes, validation says what is wrong with it.
    update = b"" if array is None else array_bytes(array) or array.data
    return Reply(update, readable(figures))


def byte_array(data: bytes) -> Array:
    """``data`` as an array that a record can hold."""
    return Array(np.frombuffer(data, np.uint8))


def content_bytes(message: Message, name: str) -> bytes | None:
    """The bytes that ``message`` has as the record ``name``, in an array of the same name; None
    where it has none."""
    array = message.content.array_records.get(name, ArrayRecord()).get(name)
    return None if array is None else array_bytes(array)


def array_bytes(array: Array) -> bytes | None:
    """The content of an array of one axis of uint8, as Flower packs it; None where it is another.

    The header is compared with the one that we write. numpy's own reader evaluates it as Python
    and raises whatever a hostile one makes it raise.
    """
    data = array.data
    start = _NPY_PREFIX + int.from_bytes(data[len(_NPY_MAGIC) : _NPY_PREFIX], "little")
    header = _NPY_HEADER.fullmatch(data[_NPY_PREFIX:start])
    if not data.startswith(_NPY_MAGIC) or header is None:
        return None
    return data[start:] if int(header[1]) == len(data) - start else None

"""Offers and replies of plain rounds as Flower's records, and back.

Down comes the release as one uint8 array, with the round's settings and, of a registry that signs,
its statements; up goes the update as one
uint8 array, with three figures, or from a device that declines one number that says just that.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict

from pocketquery.client.device import FIGURES, Answer, Declined, Offer
from pocketquery.client.local_config import LocalConfig
from pocketquery.sdk.errors import CorruptArtifactError, InvalidInputError

__all__ = [
    "FIGURES",
    "Reply",
    "array_bytes",
    "declining",
    "is_declining",
    "offer_records",
    "read_offer",
    "read_reply",
    "reply_to",
]

_LARGEST_FIGURE = 1e6
_SETTINGS = {"round": int, "clip_norm": float, "largest_weight": float, "compress": bool}
_LAST_ROUND = 10**18 - 1  # the last that an update's header can name

# What _array() writes, version 1.0 of numpy's format: uint8, one axis, padded with spaces.
_NPY_MAGIC = b"\x93NUMPY\x01\x00"
_NPY_HEADER = re.compile(
    rb"\{'descr': '\|u1', 'fortran_order': False, 'shape': \((0|[1-9][0-9]{0,17}),\), \} *\n"
)
_NPY_PREFIX = len(_NPY_MAGIC) + 2


def offer_records(offer: Offer) -> RecordDict:
    """``offer`` as the content of a message."""
    settings = ConfigRecord({name: getattr(offer, name) for name in _SETTINGS})
    settings["local"] = json.dumps(offer.config.to_dict())
    if offer.lineage:
        settings["lineage"] = offer.lineage
    return RecordDict(
        {"release": ArrayRecord({"release": _array(offer.release)}), "offer": settings}
    )


def read_offer(message: Message) -> Offer:
    """The offer in ``message``.

    Raises:
        CorruptArtifactError: there is none.
        InvalidInputError: its settings are out of range.
    """
    try:
        records = message.content
        settings = records.config_records["offer"]
        values = {name: _value(settings[name], kind, name) for name, kind in _SETTINGS.items()}
        release = array_bytes(records.array_records["release"]["release"])
        config = LocalConfig.from_json(settings["local"])
        lineage = _value(settings.get("lineage", b""), bytes, "lineage")
    except InvalidInputError:
        raise
    except (
        AttributeError,
        KeyError,
        TypeError,
        ValueError,
        OverflowError,
        RecursionError,
    ) as error:
        raise CorruptArtifactError(
            f"the message holds no offer of this version ({error}); expected a release and a "
            "round's settings. Upgrade the older of server and device"
        ) from error
    if release is None:
        raise CorruptArtifactError("the release in the message is not one array of uint8")
    if not 0 <= values["round"] <= _LAST_ROUND:
        raise InvalidInputError(f"the offer's round is {values['round']}, expected one from 0")
    return Offer(release=release, config=config, lineage=lineage, **values)


def reply_to(message: Message, answer: Answer) -> Message:
    """A device's ``answer`` to ``message``."""
    if isinstance(answer, Declined):
        return declining(message)
    update = ArrayRecord({"update": _array(answer.update)})
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
    found = records.metric_records.get("figures", MetricRecord())
    array = records.array_records.get("update", ArrayRecord()).get("update")
    update = (
        b"" if array is None else array_bytes(array) or array.data
    )  # validation says what is wrong
    return Reply(update, _figures(found))


def _value(found: Any, kind: type[object], name: str) -> Any:
    """``found`` as the offer's ``name``; a whole number does where a fraction may stand."""
    if kind is float and type(found) is int:
        found = float(found)
    if type(found) is not kind:
        raise InvalidInputError(f"the offer's {name} is {found!r:.80}, expected {kind.__name__}")
    return found


def _array(data: bytes) -> Array:
    return Array(np.frombuffer(data, np.uint8))


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


def _figures(record: Mapping[str, Any]) -> dict[str, float]:
    """Those of :data:`FIGURES` in ``record`` that are numbers a mean can be taken of."""
    found = {name: record[name] for name in FIGURES if isinstance(record.get(name), (int, float))}
    return {name: float(value) for name, value in found.items() if abs(value) < _LARGEST_FIGURE}

"""The device's side of Flower: offers and answers as messages, and the ClientApp of a SuperNode.

Down comes the release as one uint8 array, with the round's settings; up goes the update as one
uint8 array, with three figures, or from a device that declines one number that says just that. The
same :func:`handle` serves a SuperNode, Flower's simulation and the server's local_grid.py.

A SuperNode is told where the device's files are:

    flower-supernode --node-config 'bundle="bundle" index="index" state="state"' ...

``state`` is a folder for ``queries.sqlite``, the query store, and ``rounds.safetensors``, what is
kept between rounds. Optional: ``public-key`` (releases must be signed by its private half), and
``policy``: ``phone``, the default, or ``always`` for a machine that trains whenever it is asked.
"""

from __future__ import annotations

import contextlib
import io
import json
import logging
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from pocketquery.client.device import Answer, Declined, Device, Equipment, Offer
from pocketquery.client.local_config import LocalConfig
from pocketquery.client.policy import Policy
from pocketquery.client.readings import SystemReadings
from pocketquery.client.round_memory import RoundMemory
from pocketquery.client.store.store import QueryStore
from pocketquery.client.training.monitors import Limits
from pocketquery.sdk.bundle.bundle import Bundle
from pocketquery.sdk.errors import CorruptArtifactError, InvalidInputError
from pocketquery.sdk.index.index import open_index

__all__ = ["FIGURES", "Reply", "app", "handle", "offer_records", "open_device", "read_reply"]

FIGURES = ("loss", "drift", "effective_rank")
"""What a device says of its training; nothing else in a reply is looked at."""

_LARGEST_FIGURE = 1e6
_SETTINGS = {"round": int, "clip_norm": float, "largest_weight": float, "compress": bool}

_log = logging.getLogger(__name__)

app = ClientApp()


class Answering(Protocol):
    """What can take part: a :class:`pocketquery.client.device.Device`."""

    def answer(self, offer: Offer) -> Answer:
        """The answer to an offer."""


@app.train()
def train(message: Message, context: Context) -> Message:
    """One round on this SuperNode's device."""
    with open_device(context.node_config) as device:
        return handle(message, device)


def handle(message: Message, device: Answering) -> Message:
    """The device's reply to a message with an offer; where it holds none, the device declines."""
    try:
        answer: Answer = device.answer(_read_offer(message))
    except (CorruptArtifactError, InvalidInputError) as error:
        answer = Declined(str(error))
    if isinstance(answer, Declined):
        _log.info("round declined: %s", answer.reason)  # stays on the device
        return Message(RecordDict({"figures": MetricRecord({"declined": 1})}), reply_to=message)
    update = ArrayRecord({"update": _array(answer.update)})
    figures = MetricRecord(
        {name: answer.figures[name] for name in FIGURES if name in answer.figures}
    )
    return Message(RecordDict({"update": update, "figures": figures}), reply_to=message)


def offer_records(offer: Offer) -> RecordDict:
    """``offer`` as the content of a message."""
    settings = ConfigRecord({name: getattr(offer, name) for name in _SETTINGS})
    settings["local"] = json.dumps(asdict(offer.config))
    return RecordDict(
        {"release": ArrayRecord({"release": _array(offer.release)}), "offer": settings}
    )


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
    found = records.metric_records.get("figures", MetricRecord())
    if found.get("declined") == 1:
        return Reply(None, {})
    array = records.array_records.get("update", ArrayRecord()).get("update")
    update = b"" if array is None else _bytes(array) or array.data  # validation says what is wrong
    return Reply(update, _figures(found))


@contextlib.contextmanager
def open_device(config: Mapping[str, Any]) -> Iterator[Device]:
    """The device that a SuperNode's ``--node-config`` describes.

    Raises:
        InvalidInputError: a path is missing from it.
        ArtifactError: what lies there cannot be used.
    """
    paths = {name: Path(str(_setting(config, name))) for name in ("bundle", "index", "state")}
    key = config.get("public-key")
    paths["state"].mkdir(parents=True, exist_ok=True)
    policy = _policy(config)
    with (
        open_index(paths["index"]) as index,
        QueryStore.open(paths["state"] / "queries.sqlite") as store,
    ):
        equipment = Equipment.of_bundle(
            Bundle.open(paths["bundle"], public_key=key), index, public_key=key
        )
        memory = RoundMemory(paths["state"] / "rounds.safetensors")
        yield Device(equipment, store, memory, policy=policy, readings=SystemReadings())


def _policy(config: Mapping[str, Any]) -> Policy:
    policies = {"phone": Policy, "always": Policy.always}
    name = config.get("policy", "phone")
    if name not in policies:
        raise InvalidInputError(f"policy is {name!r}, expected one of {', '.join(policies)}")
    return policies[name]()


def _setting(config: Mapping[str, Any], name: str) -> Any:
    if name not in config:
        raise InvalidInputError(
            f"found no {name!r} in the SuperNode's configuration ({', '.join(config) or 'empty'}); "
            'start it with --node-config \'bundle="…" index="…" state="…"\''
        )
    return config[name]


def _read_offer(message: Message) -> Offer:
    """The offer in ``message``.

    Raises:
        CorruptArtifactError: there is none.
        InvalidInputError: its settings are out of range.
    """
    try:
        records = message.content
        settings = records.config_records["offer"]
        values = {name: kind(settings[name]) for name, kind in _SETTINGS.items()}
        release = _bytes(records.array_records["release"]["release"])
        config = _local_config(json.loads(str(settings["local"])))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        if isinstance(error, InvalidInputError):
            raise
        raise CorruptArtifactError(
            f"the message holds no offer of this version ({error}); expected a release and a "
            "round's settings. Upgrade the older of server and device"
        ) from error
    if release is None:
        raise CorruptArtifactError("the release in the message is not one array of uint8")
    return Offer(release=release, config=config, **values)


def _local_config(found: Mapping[str, Any]) -> LocalConfig:
    """The settings that :func:`offer_records` wrote as JSON, where a tuple is a list."""
    plain: dict[str, Any] = {n: tuple(v) if isinstance(v, list) else v for n, v in found.items()}
    return LocalConfig(**plain | {"limits": Limits(**found["limits"])})


def _array(data: bytes) -> Array:
    return Array(np.frombuffer(data, np.uint8))


def _bytes(array: Array) -> bytes | None:
    """The content of a uint8 array; None where it is none. Allocates no more than it was given."""
    stream = io.BytesIO(array.data)
    try:
        if np.lib.format.read_magic(stream) != (1, 0):
            return None
        shape, _, dtype = np.lib.format.read_array_header_1_0(stream)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None
    content = stream.read()
    return content if dtype == np.uint8 and shape == (len(content),) else None


def _figures(record: Mapping[str, Any]) -> dict[str, float]:
    """Those of :data:`FIGURES` in ``record`` that are numbers a mean can be taken of."""
    found = {name: record[name] for name in FIGURES if isinstance(record.get(name), (int, float))}
    return {name: float(value) for name, value in found.items() if abs(value) < _LARGEST_FIGURE}

"""The device's side of Flower: offers and answers as messages, and the ClientApp of a SuperNode.

Down comes the release as one uint8 array, with the round's settings; up goes the update as one
uint8 array, with three figures, or from a device that declines one number that says just that. The
same :func:`handle` serves a SuperNode, Flower's simulation and the server's local_grid.py.

A SuperNode is told where the device's files are:

    flower-supernode --node-config 'bundle="bundle" index="index" state="state"' ...

``state`` is a folder for ``queries.sqlite``, the query store, and ``rounds.safetensors``, what is
kept between rounds. Optional: ``public-key`` (releases must be signed by its private half);
``policy``: ``phone``, the default, or ``always`` for a machine that trains whenever it is asked;
``figures``: ``false`` sends the update alone; and the device's own limits to what is offered, see
:class:`pocketquery.client.offer_limits.OfferLimits`: ``least-queries``, ``least-steps``,
``most-steps``, ``least-batch``, ``most-repetitions``, ``largest-clip``, ``largest-learning-rate``,
``largest-weight-decay``, ``largest-proximal``, ``largest-opened-weight``, ``least-typo-rate``,
``least-temperature``, ``largest-drift`` and ``least-kept``.
"""

from __future__ import annotations

import contextlib
import json
import logging
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from pocketquery.client.device import Answer, Declined, Device, Equipment, Offer
from pocketquery.client.local_config import LocalConfig
from pocketquery.client.offer_limits import OfferLimits
from pocketquery.client.policy import Policy
from pocketquery.client.readings import SystemReadings
from pocketquery.client.round_memory import RoundMemory
from pocketquery.client.store.file import ROUNDS
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
_LAST_ROUND = 10**18 - 1  # the last that an update's header can name
_LARGEST_LOCAL = 100_000  # characters of a round's settings as JSON
_PATHS = ("bundle", "index", "state")
_NAMES = {one.name.replace("_", "-"): one.name for one in fields(OfferLimits)}
_KNOWN = {*_PATHS, "public-key", "policy", "figures", *_NAMES, "partition-id", "num-partitions"}

# What _array() writes, version 1.0 of numpy's format: uint8, one axis, padded with spaces.
_NPY_MAGIC = b"\x93NUMPY\x01\x00"
_NPY_HEADER = re.compile(
    rb"\{'descr': '\|u1', 'fortran_order': False, 'shape': \((0|[1-9][0-9]{0,17}),\), \} *\n"
)
_NPY_PREFIX = len(_NPY_MAGIC) + 2

_log = logging.getLogger(__name__)

app = ClientApp()


class Answering(Protocol):
    """What can take part: a :class:`pocketquery.client.device.Device`."""

    def answer(self, offer: Offer) -> Answer:
        """The answer to an offer."""


@app.train()
def train(message: Message, context: Context) -> Message:
    """One round on this SuperNode's device; one that cannot be opened declines, and says why in its
    log: Flower would send the text of the error to the server.
    """
    try:
        with open_device(context.node_config) as device:
            return handle(message, device)
    except Exception:
        _log.exception("round declined: the device cannot be opened")
        return _declining(message)


def handle(message: Message, device: Answering) -> Message:
    """The device's reply to a message with an offer, whatever is in it: where there is none, or
    something fails, the device declines. Why is in the log alone, which stays on the device.
    """
    try:
        answer: Answer = device.answer(_read_offer(message))
    except (CorruptArtifactError, InvalidInputError) as error:
        answer = Declined(str(error))
    except Exception as error:  # its text may quote a query, and Flower would send it
        _log.exception("round declined: unexpected error")
        answer = Declined(type(error).__name__)
    if isinstance(answer, Declined):
        _log.info("round declined: %s", answer.reason)
        return _declining(message)
    update = ArrayRecord({"update": _array(answer.update)})
    figures = MetricRecord(
        {name: answer.figures[name] for name in FIGURES if name in answer.figures}
    )
    return Message(RecordDict({"update": update, "figures": figures}), reply_to=message)


def _declining(message: Message) -> Message:
    return Message(RecordDict({"figures": MetricRecord({"declined": 1})}), reply_to=message)


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
        InvalidInputError: a path is missing from it, or something in it is unknown or out of range.
        ArtifactError: what lies there cannot be used.
    """
    if unknown := config.keys() - _KNOWN:  # a misspelt key must not leave releases unchecked
        raise InvalidInputError(
            f"found {', '.join(sorted(unknown))} in the SuperNode's configuration, expected some "
            f"of {', '.join(sorted(_KNOWN))}"
        )
    paths = {name: Path(str(_setting(config, name))) for name in _PATHS}
    key = config.get("public-key")
    policy, limits = _policy(config), _limits(config)
    figures = config.get("figures", True)
    if not isinstance(figures, bool):
        raise InvalidInputError(f"figures is {figures!r}, expected true or false")
    paths["state"].mkdir(mode=0o700, parents=True, exist_ok=True)
    with (
        open_index(paths["index"]) as index,
        QueryStore.open(paths["state"] / "queries.sqlite") as store,
    ):
        equipment = Equipment.of_bundle(
            Bundle.open(paths["bundle"], public_key=key), index, public_key=key
        )
        memory = RoundMemory(paths["state"] / ROUNDS)
        yield Device(
            equipment,
            store,
            memory,
            policy=policy,
            readings=SystemReadings(),
            limits=limits,
            figures=figures,
        )


def _policy(config: Mapping[str, Any]) -> Policy:
    policies = {"phone": Policy, "always": Policy.always}
    name = config.get("policy", "phone")
    if name not in policies:
        raise InvalidInputError(f"policy is {name!r}, expected one of {', '.join(policies)}")
    return policies[name]()


def _limits(config: Mapping[str, Any]) -> OfferLimits:
    return OfferLimits(**{_NAMES[name]: config[name] for name in _NAMES if name in config})


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
        values = {name: _value(settings[name], kind, name) for name, kind in _SETTINGS.items()}
        release = _bytes(records.array_records["release"]["release"])
        config = _local_config(settings["local"])
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
    return Offer(release=release, config=config, **values)


def _value(found: Any, kind: type[object], name: str) -> Any:
    """``found`` as the offer's ``name``; a whole number does where a fraction may stand."""
    if kind is float and type(found) is int:
        found = float(found)
    if type(found) is not kind:
        raise InvalidInputError(f"the offer's {name} is {found!r:.80}, expected {kind.__name__}")
    return found


def _local_config(found: Any) -> LocalConfig:
    """The settings that :func:`offer_records` wrote as JSON, where a tuple is a list."""
    if not isinstance(found, str) or len(found) > _LARGEST_LOCAL:
        raise InvalidInputError(f"expected a round's settings as {_LARGEST_LOCAL} letters at most")
    values = json.loads(found)
    plain: dict[str, Any] = {n: tuple(v) if isinstance(v, list) else v for n, v in values.items()}
    return LocalConfig(**plain | {"limits": Limits(**values["limits"])})


def _array(data: bytes) -> Array:
    return Array(np.frombuffer(data, np.uint8))


def _bytes(array: Array) -> bytes | None:
    """The content of an array that :func:`_array` wrote; None where it is another.

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

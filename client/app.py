"""The device's side of Flower: the ClientApp of a SuperNode, and the device it is configured as.

The same :func:`handle` serves a SuperNode, Flower's simulation and the server's local_grid.py.

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
import logging
from collections.abc import Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, Protocol

from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from pocketquery.client.device import Answer, Declined, Device, Equipment, Offer
from pocketquery.client.offer_limits import OfferLimits
from pocketquery.client.policy import Policy
from pocketquery.client.readings import SystemReadings
from pocketquery.client.records import declining, read_offer, reply_to
from pocketquery.client.round_memory import RoundMemory
from pocketquery.client.store.file import ROUNDS
from pocketquery.client.store.store import QueryStore
from pocketquery.sdk.bundle.bundle import Bundle
from pocketquery.sdk.errors import CorruptArtifactError, InvalidInputError
from pocketquery.sdk.index.index import open_index

__all__ = ["app", "handle", "open_device"]

_PATHS = ("bundle", "index", "state")
_NAMES = {one.name.replace("_", "-"): one.name for one in fields(OfferLimits)}
_KNOWN = {*_PATHS, "public-key", "policy", "figures", *_NAMES, "partition-id", "num-partitions"}

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
        return declining(message)


def handle(message: Message, device: Answering) -> Message:
    """The device's reply to a message with an offer, whatever is in it: where there is none, or
    something fails, the device declines. Why is in the log alone, which stays on the device.
    """
    try:
        answer: Answer = device.answer(read_offer(message))
    except (CorruptArtifactError, InvalidInputError) as error:
        answer = Declined(str(error))
    except Exception as error:  # its text may quote a query, and Flower would send it
        _log.exception("round declined: unexpected error")
        answer = Declined(type(error).__name__)
    if isinstance(answer, Declined):
        _log.info("round declined: %s", answer.reason)
    return reply_to(message, answer)


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

"""Flower's ClientApp of a gateway: what its SuperNode runs for each message of the ServerApp.

    flower-supernode --node-config 'gateway="gateway/gateway.sock"' ...

It gets the path of the gateway's socket and passes messages on. It stores nothing, so Flower may
start and stop it at any time. A federation whose nodes are gateways registers no other nodes: the
seed by which updates are dealt to shards must not reach a device.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from flwr.app import Context, Message, RecordDict
from flwr.clientapp import ClientApp

from pocketquery.sdk.errors import InvalidInputError
from pocketquery_gateway.cohorts.announced_release import AnnouncedRelease
from pocketquery_gateway.cohorts.cohort_offer import CohortOffer
from pocketquery_gateway.cohorts.records import (
    STAGE,
    SUM,
    byte_records,
    read_part,
)
from pocketquery_gateway.cohorts.stage_bundle import StageBundle
from pocketquery_gateway.control_client import Control

__all__ = ["announce", "answer", "app", "relay"]

_KNOWN = {"gateway", "partition-id", "num-partitions"}

app = ClientApp()


@app.train("gateway")
def train(message: Message, context: Context) -> Message:
    """The gateway's part of a round: returns when its cohort is complete, or its time is up."""
    return answer(message, _control(context.node_config))


@app.train("relay")
def train_relay(message: Message, context: Context) -> Message:
    """One stage of a private round: returns when the gateway's devices have replied, or after the
    seconds that the server waits for them."""
    return relay(message, _control(context.node_config))


@app.query("gateway")
def query(message: Message, context: Context) -> Message:
    """Hands the gateway the release in force."""
    return announce(message, _control(context.node_config))


def answer(message: Message, control: Control) -> Message:
    """The reply to an offer. Raises as :meth:`Control.answer_to`; Flower tells the server."""
    asked = read_part(message, CohortOffer)
    name = SUM if asked.secure is None else STAGE
    return Message(byte_records(name, control.answer_to(asked)), reply_to=message)


def relay(message: Message, control: Control) -> Message:
    """The reply to the messages of a stage. Raises as :func:`answer`."""
    replies = control.replies_to(read_part(message, StageBundle))
    return Message(byte_records(STAGE, replies), reply_to=message)


def announce(message: Message, control: Control) -> Message:
    """The reply to an announcement, which is empty."""
    control.announce(read_part(message, AnnouncedRelease))
    return Message(RecordDict(), reply_to=message)


def _control(config: Mapping[str, Any]) -> Control:
    if "gateway" not in config or config.keys() - _KNOWN:
        raise InvalidInputError(
            f"found {', '.join(sorted(config)) or 'nothing'} in the SuperNode's configuration, "
            "expected gateway alone, the path of the gateway's socket"
        )
    return Control(Path(str(config["gateway"])))

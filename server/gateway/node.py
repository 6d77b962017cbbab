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
from pocketquery.server.federation.cohorts.records import (
    bundle_records,
    read_announcement,
    read_bundle,
    read_cohort_offer,
    sum_records,
)
from pocketquery.server.gateway.control_client import Control

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
    asked = read_cohort_offer(message)
    records = sum_records if asked.secure is None else bundle_records
    return Message(records(control.answer_to(asked)), reply_to=message)


def relay(message: Message, control: Control) -> Message:
    """The reply to the messages of a stage. Raises as :func:`answer`."""
    return Message(bundle_records(control.replies_to(read_bundle(message))), reply_to=message)


def announce(message: Message, control: Control) -> Message:
    """The reply to an announcement, which is empty."""
    control.announce(read_announcement(message))
    return Message(RecordDict(), reply_to=message)


def _control(config: Mapping[str, Any]) -> Control:
    if "gateway" not in config or config.keys() - _KNOWN:
        raise InvalidInputError(
            f"found {', '.join(sorted(config)) or 'nothing'} in the SuperNode's configuration, "
            "expected gateway alone, the path of the gateway's socket"
        )
    return Control(Path(str(config["gateway"])))

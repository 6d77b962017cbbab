"""The device's side of Flower: the ClientApp of a SuperNode, and the device it is configured as.

The same :func:`handle` serves a SuperNode, Flower's simulation and the server's local_grid.py.

A SuperNode is told where the device's files are:

    flower-supernode --node-config 'bundle="bundle" index="index" state="state"' ...

What else it may be told is in :mod:`pocketquery.client.device_files`.
"""

from __future__ import annotations

import logging

from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from pocketquery.client.device import Answer, Answering, Declined
from pocketquery.client.device_files import open_device, open_participant
from pocketquery.client.private.transport import handle_secure
from pocketquery.client.records import declining, read_offer, reply_to
from pocketquery.sdk.errors import CorruptArtifactError, InvalidInputError

__all__ = ["app", "handle"]

_log = logging.getLogger(__name__)

app = ClientApp()


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


@app.train("secure")
def train_secure(message: Message, context: Context) -> Message:
    """One stage of a private round, by :func:`train`'s rules."""
    try:
        with open_participant(context.node_config) as participant:
            return handle_secure(message, participant)
    except Exception:
        _log.exception("private round declined: the device cannot be opened")
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

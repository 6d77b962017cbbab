"""The stages of a private round as Flower messages of type ``train.secure``, and back.

Each message holds one record, ``secure``, with the number of the stage and a body of bytes
(messages.py, replies.py): 143 bytes of Flower's around it. The first stage's carries the offer of
a plain round beside it. A device that declines answers as it declines a plain round.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Protocol

from flwr.app import ConfigRecord, Message, RecordDict

from pocketquery.client.device import Declined
from pocketquery.client.offer import Offer
from pocketquery.client.private.messages import Stage
from pocketquery.client.records import declining, is_declining, offer_records, read_offer
from pocketquery.sdk.errors import CorruptArtifactError, PocketQueryError

__all__ = [
    "MESSAGE_TYPE",
    "SecureAnswering",
    "SecureReply",
    "handle_secure",
    "read_secure_reply",
    "secure_records",
]

MESSAGE_TYPE = "train.secure"

_log = logging.getLogger(__name__)


class SecureAnswering(Protocol):
    """What can take part: a :class:`pocketquery.client.private.participant.Participant`."""

    def answer(self, stage: Stage, body: bytes, offer: Offer | None) -> bytes | Declined:
        """The body of the reply to a stage's; ``offer`` comes with the first stage alone."""


@dataclass(frozen=True)
class SecureReply:
    """A reply as the server sees it, whatever a device sent.

    Attributes:
        stage: which it says it answers; 0 where it says none.
        body: its bytes; None where the device declined or failed.
        failed: why the device gave none; None where it replied or declined.
    """

    stage: int
    body: bytes | None
    failed: str | None = None


def secure_records(stage: Stage, body: bytes, offer: Offer | None = None) -> RecordDict:
    """The content of a message of ``stage``, down or up."""
    records = RecordDict() if offer is None else offer_records(offer)
    records["secure"] = ConfigRecord({"stage": int(stage), "body": body})
    return records


def handle_secure(message: Message, device: SecureAnswering) -> Message:
    """The device's reply to a message of a private round, whatever is in it: where it cannot be
    read, or something fails, the device declines. Why is in the log alone, which stays on the
    device.
    """
    try:
        stage, body = _read(message)
        offer = read_offer(message) if stage is Stage.OFFER else None
        answer = device.answer(stage, body, offer)
    except PocketQueryError as error:
        answer = Declined(str(error))
    except Exception as error:  # its text may quote a query, and Flower would send it
        _log.exception("private round declined: unexpected error")
        answer = Declined(type(error).__name__)
    if isinstance(answer, Declined):
        _log.info("private round declined: %s", answer.reason)
        return declining(message)
    return Message(secure_records(stage, answer), reply_to=message)


def read_secure_reply(message: Message) -> SecureReply:
    """What is in a device's message. Nothing raises: it comes from anywhere."""
    if message.has_error():
        return SecureReply(0, None, message.error.reason or "the device failed")
    if is_declining(message.content):
        return SecureReply(0, None)
    try:
        stage, body = _read(message)
    except CorruptArtifactError:
        return SecureReply(0, b"")  # nothing that a stage's layout fits
    return SecureReply(stage, body)


def _read(message: Message) -> tuple[Stage, bytes]:
    """Stage and body in ``message``.

    Raises:
        CorruptArtifactError: there are none.
    """
    try:
        record = message.content.config_records["secure"]
        stage, body = record["stage"], record["body"]
        if type(stage) is not int or type(body) is not bytes:
            raise TypeError(f"stage is {type(stage).__name__}, body {type(body).__name__}")
        return Stage(stage), body
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise CorruptArtifactError(
            f"the message holds no stage of a private round ({error!s:.200}); expected a stage "
            "from 1 to 5 and a body. Upgrade the older of server and device"
        ) from error

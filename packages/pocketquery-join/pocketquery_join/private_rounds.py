"""One device's part in private rounds through a gateway: fetch a stage's message, answer it.

What it answers is a :class:`~pocketquery.client.private.participant.Participant`'s, which writes it
before it leaves. So a device that is killed in between asks again, and answers the same.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Protocol

from pocketquery.client.device import Declined
from pocketquery.client.offer import Offer
from pocketquery.client.private.messages import Stage
from pocketquery.sdk.errors import CorruptArtifactError
from pocketquery_join.connection import GatewayConnection, Refused
from pocketquery_join.outcome import Outcome, send

__all__ = ["KeptRound", "PrivateAnswering", "PrivateRounds", "StageMessage"]

_LATER_STAGES = [int(stage) for stage in Stage if stage is not Stage.OFFER]
_log = logging.getLogger(__name__)


class KeptRound(Protocol):
    """What a device keeps of a private round."""

    def give_up(self, round: int) -> None:
        """Forget a round that is over at the gateway."""


class PrivateAnswering(KeptRound, Protocol):
    """What can take part: a :class:`pocketquery.client.private.participant.Participant`."""

    def answer(self, stage: int, body: bytes, offer: Offer | None = None) -> bytes | Declined:
        """The body of the reply to a stage's message."""


@dataclass(frozen=True)
class StageMessage:
    """What a device is to answer.

    Attributes:
        stage: from 2 to 5.
        body: see client/private/messages.py.
    """

    stage: int
    body: bytes


class PrivateRounds:
    """A device in private rounds at its gateway.

    Args:
        connection: to the gateway.

    Attributes:
        round: the one that this device is in; None: it is in none. Who opens a device that may have
            been killed in a round sets it to :attr:`Participant.round`.
    """

    def __init__(self, connection: GatewayConnection) -> None:
        self.round: int | None = None
        self._connection = connection

    def begin(self, announcement: bytes, offer: Offer, participant: PrivateAnswering) -> Outcome:
        """Let ``participant`` train, and say that it is ready: "ready", "declined", "left out" or
        "over".

        Raises:
            Refused: the device has no upload left.
            ArtifactError: the gateway cannot be reached.
        """
        reply = participant.answer(Stage.OFFER, announcement, offer)
        if isinstance(reply, Declined):
            return self._decline(offer.round, reply.reason)
        outcome = self._send(offer.round, Stage.OFFER, reply, Outcome("ready"))
        if outcome.what == "ready":
            self.round = offer.round
        else:
            self.round = None
            participant.give_up(offer.round)
        return outcome

    def next_message(self) -> StageMessage | Outcome:
        """What this device is to answer in its round; or "waiting", with the seconds until asking
        again is of use; or "over", and then what the device keeps of the round must go.

        Raises:
            CorruptArtifactError: there is no such stage.
            ArtifactError: the gateway cannot be reached.
        """
        if self.round is None:
            return Outcome("idle")
        try:
            answer = self._connection.ask("GET", f"/v1/rounds/{self.round}/secure")
        except Refused as error:
            if error.code != "round_over":
                raise
            self.round = None
            return Outcome("over", str(error))
        if answer.status == 204:
            return Outcome("waiting", retry_after=round(answer.retry_after))
        if answer.stage not in _LATER_STAGES:
            raise CorruptArtifactError(
                f"the gateway's message is of stage {answer.stage}, expected one of "
                f"{', '.join(map(str, _LATER_STAGES))}"
            )
        return StageMessage(answer.stage, answer.body)

    def answer(self, message: StageMessage, participant: PrivateAnswering) -> Outcome:
        """Let ``participant`` answer: "answered", or after the last stage "accepted"; else as
        :meth:`begin`. Raises as it does."""
        number = self.round
        assert number is not None
        reply = participant.answer(message.stage, message.body)
        if isinstance(reply, Declined):
            self.round = None
            participant.give_up(number)
            return self._decline(number, reply.reason)
        is_last = message.stage == Stage.UNMASK
        success = Outcome("accepted") if is_last else Outcome("answered", f"stage {message.stage}")
        outcome = self._send(number, message.stage, reply, success)
        if is_last:
            self.round = None
            if outcome != success:
                participant.give_up(number)
        return outcome

    def _send(self, number: int, stage: int, body: bytes, success: Outcome) -> Outcome:
        path = f"/v1/rounds/{number}/secure/{int(stage)}"
        return send(self._connection, path, success, body, verdict="received")

    def _decline(self, number: int, reason: str) -> Outcome:
        _log.info("private round declined: %s", reason)
        return send(self._connection, f"/v1/rounds/{number}/declined", Outcome("declined", reason))

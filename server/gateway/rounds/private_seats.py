"""Devices in a private round: who is ready and has a seat, what each is to answer, and its replies;
what is kept of them is relay.py's.
"""

from __future__ import annotations

from pocketquery.client.private.keys import AgreementKey
from pocketquery.client.private.messages import Stage
from pocketquery.server.federation.cohorts.stage_bundle import StageBundle
from pocketquery.server.gateway.rounds.errors import RoundOverError
from pocketquery.server.gateway.rounds.open_cohort import OpenCohort
from pocketquery.server.gateway.rounds.tables import take_upload, write_answer
from pocketquery.server.gateway.rounds.verdicts import UpdateVerdict
from pocketquery.server.private.coordinator import SecureReason
from pocketquery.server.private.readiness import proven

__all__ = ["PrivateSeats"]


class PrivateSeats(OpenCohort):
    """An open round whose devices have seats.

    Args and attributes: as of :class:`OpenCohort`.
    """

    def begin_stage(self, bundle: StageBundle) -> bool:
        """Take the server's messages of a stage of the private round; whether it is a new one.

        Raises:
            RoundOverError: no such round is here, or a later stage is open.
        """
        if not self.is_private or self.opened is None or self.opened.state.round != bundle.round:
            raise RoundOverError(f"no private round {bundle.round} is open here")
        if self.is_open:
            self._close()
        self._pass()
        begun = self.relay.begin(bundle)
        if begun:  # the server has what the first stage's answer was, and asks for it no more
            self._answer = StageBundle(bundle.round, Stage.OFFER).to_bytes()
            write_answer(self._connection, self._answer)
        return begun

    def ready(
        self, key: bytes, number: int, body: bytes, digest: bytes, *, announcer: AgreementKey,
        most_uploads: int, today: int, now: float,
    ) -> SecureReason | None:  # fmt: skip
        """Take a device's word that it is ready for the private round ``number``: None, or why it
        has no seat there.

        Args:
            key: the device's.
            number: of the round.
            body: bytes from it, a :class:`~pocketquery.client.private.replies.Ready`. The server
                gets the certificate in it, which is to be by the authority that it names.
            digest: its SHA-256.
            announcer: the gateway's own key, which the offer announced.
            most_uploads: of a device on a day.
            today: days since 1970.
            now: Unix seconds.

        Raises:
            RoundOverError: that round takes nobody now.
            QuotaError: the device sent ``most_uploads`` today.
        """
        opened = self._open_to(number, key) if self.is_private else None
        if isinstance(opened, UpdateVerdict):
            return None if opened.digest == digest else SecureReason.DUPLICATE
        if opened is None or self.cohort is None or self.cohort.asked.secure is None:
            raise RoundOverError(f"round {number} is no private one; ask for an offer")
        secure = self.cohort.asked.secure
        found = proven(body, announcer, secure, number, now)
        if isinstance(found, SecureReason):
            return found
        take_upload(self._connection, key, today, most_uploads)
        if not self.relay.sit(key, digest, found.to_bytes()):
            return SecureReason.DUPLICATE
        self._verdicts.add(key, UpdateVerdict(digest))
        self._touched = True
        self._pass()
        if self.relay.seats >= self.cohort.asked.wanted:
            self._close()
        return None

    def reply(
        self, key: bytes, number: int, stage: Stage, body: bytes, digest: bytes
    ) -> SecureReason | None:
        """Take a device's reply to a later stage: None, or why it does not count.

        Raises:
            RoundOverError: that stage is not awaited of it.
        """
        seat = self._seat(key, number)
        came_before = not self.relay.receive(seat, stage, digest, body)
        return SecureReason.DUPLICATE if came_before else None

    def message(self, key: bytes, number: int) -> tuple[Stage, bytes] | None:
        """What a device is to answer in the private round ``number``; None where it is to wait.

        Raises:
            RoundOverError: it is not in that round, or not any more.
        """
        return self.relay.message(self._seat(key, number))

    def _seat(self, key: bytes, number: int) -> int:
        if (seat := self._seat_or_none(key, number)) is None:
            raise RoundOverError(f"this device has no seat in round {number}; ask for an offer")
        return seat

    def _seat_or_none(self, key: bytes, number: int) -> int | None:
        if self.opened is None or self.opened.state.round != number:
            return None
        return self.relay.seat_of(key)

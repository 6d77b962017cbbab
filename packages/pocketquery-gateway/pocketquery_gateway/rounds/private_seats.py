"""Devices in a private round: who is ready and has a seat, what each is to answer, and its replies;
what is kept of them is relay.py's.
"""

from __future__ import annotations

from pocketquery.client.private.keys import AgreementKey
from pocketquery.client.private.messages import Stage
from pocketquery.server.private.coordinator import SecureReason
from pocketquery.server.private.readiness import proven
from pocketquery_gateway.cohorts.stage_bundle import StageBundle
from pocketquery_gateway.rounds.cohort_round import CohortRound
from pocketquery_gateway.rounds.errors import RoundOverError
from pocketquery_gateway.rounds.tables import take_upload
from pocketquery_gateway.rounds.verdicts import UpdateVerdict

__all__ = ["PrivateSeats"]


class PrivateSeats:
    """An open round whose devices have seats.

    Args:
        cohort_round: in the journal; what is changed is part of the journal's transaction.
    """

    def __init__(self, cohort_round: CohortRound) -> None:
        self._round = cohort_round

    def begin_stage(self, bundle: StageBundle) -> bool:
        """Take the server's messages of a stage of the private round; whether it is a new one.

        Raises:
            RoundOverError: no such round is here, or a later stage is open.
        """
        opened = self._round.opened
        if not self._round.is_private or opened is None or opened.state.round != bundle.round:
            raise RoundOverError(f"no private round {bundle.round} is open here")
        if self._round.is_open:
            self._round.close()
        self._round.note_time()
        begun = self._round.relay.begin(bundle)
        if begun:  # the server has what the first stage's answer was, and asks for it no more
            self._round.answer_with(StageBundle(bundle.round, Stage.OFFER).to_bytes())
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
        opened = self._round.open_to(number, key) if self._round.is_private else None
        if isinstance(opened, UpdateVerdict):
            return None if opened.digest == digest else SecureReason.DUPLICATE
        if opened is None or self._round.cohort is None or self._round.cohort.asked.secure is None:
            raise RoundOverError(f"round {number} is no private one; ask for an offer")
        secure = self._round.cohort.asked.secure
        proof = proven(body, announcer, secure, number, now)
        if isinstance(proof, SecureReason):
            return proof
        take_upload(self._round.connection, key, today, most_uploads)
        if not self._round.relay.sit(key, digest, proof.to_bytes()):
            return SecureReason.DUPLICATE
        self._round.verdicts.add(key, UpdateVerdict(digest))
        self._round.touched = True
        self._round.note_time()
        if self._round.relay.seats >= self._round.cohort.asked.wanted:
            self._round.close()
        return None

    def reply(
        self, key: bytes, number: int, stage: Stage, body: bytes, digest: bytes
    ) -> SecureReason | None:
        """Take a device's reply to a later stage: None, or why it does not count.

        Raises:
            RoundOverError: that stage is not awaited of it.
        """
        seat = self._seat(key, number)
        came_before = not self._round.relay.receive(seat, stage, digest, body)
        return SecureReason.DUPLICATE if came_before else None

    def message(self, key: bytes, number: int) -> tuple[Stage, bytes] | None:
        """What a device is to answer in the private round ``number``; None where it is to wait.

        Raises:
            RoundOverError: it is not in that round, or not any more.
        """
        return self._round.relay.message(self._seat(key, number))

    def _seat(self, key: bytes, number: int) -> int:
        if (seat := self._round.seat_of(key, number)) is None:
            raise RoundOverError(f"this device has no seat in round {number}; ask for an offer")
        return seat

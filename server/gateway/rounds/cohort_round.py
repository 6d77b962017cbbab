"""The round of a gateway's cohort: what the server asks, what devices say, and the answer.

Of a plain round the answer is the sums; of a private one it is who is ready, and relay.py has what
follows.
"""

from __future__ import annotations

import os
from dataclasses import replace

import numpy as np

from pocketquery.sdk.bundle.adapter import parse_adapter
from pocketquery.sdk.errors import InvalidInputError
from pocketquery.server.federation.cohorts.cohort_offer import CohortOffer
from pocketquery.server.federation.rounds.journal_tables import clear_plain_round, write_states
from pocketquery.server.federation.rounds.nonces import NonceSet
from pocketquery.server.federation.rounds.open_round import open_round
from pocketquery.server.federation.rounds.state import FederationState
from pocketquery.server.gateway.rounds.errors import RoundOverError
from pocketquery.server.gateway.rounds.open_cohort import of_known_rounds
from pocketquery.server.gateway.rounds.plain_updates import PlainUpdates
from pocketquery.server.gateway.rounds.private_seats import PrivateSeats
from pocketquery.server.gateway.rounds.tables import Cohort, write_cohort
from pocketquery.server.gateway.rounds.verdicts import UpdateVerdict

__all__ = ["CohortRound"]


class CohortRound(PlainUpdates, PrivateSeats):
    """The round in a journal; changes are part of the journal's transaction.

    Args and attributes: as of :class:`OpenCohort`.
    """

    def offer(self) -> CohortOffer:
        """What the server asked, for a device to train.

        Raises:
            RoundOverError: none may begin to.
        """
        if self.cohort is None or not self.is_offered:
            raise RoundOverError("no round takes updates now; ask for an offer later")
        return self.cohort.asked

    def begin(self, asked: CohortOffer) -> bool:
        """Take the server's offer; whether a round was begun. The same offer again changes nothing.

        Raises:
            InvalidInputError: a later round is open, or its settings are out of range.
            CorruptArtifactError, UnsupportedVersionError: its release cannot be read.
        """
        if self.cohort is not None and self.cohort.asked.digest == asked.digest:
            return False
        release = parse_adapter(asked.offer.release, "the offered release")
        if self.is_open and self.opened is not None and asked.offer.round < self.opened.state.round:
            raise InvalidInputError(
                f"found an offer of round {asked.offer.round}, but round {self.opened.state.round} "
                "is open; it was overtaken"
            )
        state = FederationState(
            round=asked.offer.round,
            version=release.version,
            adapter={n: np.asarray(v, np.float32) for n, v in release.tensors.items()},
            space_id=release.space_id,
            encoder_sha256=release.encoder_sha256,
            seen=self._seen_before(asked),
            bases=asked.bases,
        )
        opened = open_round(state, asked.settings, asked=asked.asked, now=self._clock())
        self.opened, self._answer = of_known_rounds(opened), None
        self._is_last = False
        self.cohort = self._written = Cohort(asked, os.urandom(16).hex())
        clear_plain_round(self._connection)
        self._verdicts.clear()
        self._connection.execute("DELETE FROM answer")
        self.relay.clear()
        write_states(self._connection, state, None)
        write_cohort(self._connection, self.cohort)
        self.forget_batch()
        self._touched = True
        return True

    def answer(self, digest: str) -> bytes | None:
        """The cohort's sum for the server's offer with this digest, or the stage bundle of who is
        ready; None while they are taken.

        Raises:
            RoundOverError: another round was begun since.
        """
        if self.cohort is None or self.cohort.asked.digest != digest:
            raise RoundOverError("the gateway knows no round of this offer; send the offer again")
        return self._answer

    def decline(self, key: bytes, number: int) -> None:
        """Note that a device declines round ``number``; where it replied before, that counts, but
        it is not waited for any more.

        Raises:
            RoundOverError: that round does not take updates now.
        """
        if (seat := self._seat_or_none(key, number)) is not None:
            self.relay.leave(seat)
            return
        opened = self._open_to(number, key)
        if isinstance(opened, UpdateVerdict):
            return
        assert self.cohort is not None
        self._verdicts.add(key, UpdateVerdict(b"", "declined"))
        self.cohort = replace(self.cohort, declined=self.cohort.declined + 1)
        self._touched = True

    def forget(self, key: bytes, today: int) -> int:
        """A device is registered no more. What it gave to a sum stays there.

        Returns:
            How many uploads it made today (in days since 1970) that its row does not count yet, and
            that are not counted here any more.
        """
        if (seat := self.relay.seat_of(key)) is not None:
            self.relay.leave(seat)
        return self._verdicts.take_uploads(key, today)

    def _seen_before(self, asked: CohortOffer) -> dict[int, NonceSet]:
        """The nonces of remembered rounds before the one that is asked for; none where rounds
        count from the beginning again."""
        if self.opened is None or asked.offer.round < self.opened.state.round:
            return {}
        before = self.opened.state.seen
        if asked.offer.round > self.opened.state.round:
            before = {**before, self.opened.state.round: self.opened.nonces}
        oldest = asked.offer.round - asked.settings.remembered_rounds
        return {number: nonces for number, nonces in before.items() if number >= oldest}

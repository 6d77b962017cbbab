"""The open round of a gateway's cohort, as it stands in the journal: what the server asks, how it
is written, and how it ends.

Of a plain round the answer to the server is the sums; devices' updates are taken in
plain_updates.py. Of a private one it is who is ready; what devices send is taken in
private_seats.py, and relayed by relay.py.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from pocketquery.client.private.messages import Stage
from pocketquery.sdk.bundle.adapter import parse_adapter
from pocketquery.sdk.errors import InvalidInputError
from pocketquery.server.federation.rounds.journal_tables import (
    clear_plain_round,
    read_round,
    read_state,
    write_counts,
    write_reply,
    write_states,
)
from pocketquery.server.federation.rounds.nonces import NonceSet
from pocketquery.server.federation.rounds.open_round import OpenRound, open_round
from pocketquery.server.federation.rounds.state import FederationState
from pocketquery_gateway.cohorts.cohort_offer import CohortOffer
from pocketquery_gateway.cohorts.cohort_sum import CohortSum
from pocketquery_gateway.cohorts.stage_bundle import StageBundle
from pocketquery_gateway.rounds.errors import RoundOverError
from pocketquery_gateway.rounds.relay import Relay
from pocketquery_gateway.rounds.tables import (
    Cohort,
    read_answer,
    read_cohort,
    write_answer,
    write_cohort,
    write_cohort_counts,
)
from pocketquery_gateway.rounds.verdicts import UpdateVerdict, Verdicts

__all__ = ["CohortRound"]


class CohortRound:
    """The round in a journal; changes are part of the journal's transaction.

    Args:
        connection: of the journal.
        clock: seconds that do not jump, for the round's time.

    Attributes:
        opened: the round that is open, or was last; None before the first.
        cohort: what is counted of it besides.
        relay: what is known of it besides where it is a private one.
    """

    def __init__(self, connection: sqlite3.Connection, clock: Callable[[], float]) -> None:
        self.opened: OpenRound | None = None
        self.cohort: Cohort | None = None
        self.relay = Relay(connection)
        self.connection = connection
        self.clock = clock
        self.verdicts = Verdicts(connection)
        self._answer: bytes | None = None
        self.changed: set[int] = set()  # shards that the running batch added to
        self._written: Cohort | None = None  # as it is in the table
        self.touched = False
        self.is_last = False  # what the server said; a restart forgets it, and time tells

    def load(self) -> None:
        """All of it, as it is on disk.

        Raises:
            CorruptArtifactError, KeyError, TypeError, ValueError: the rows do not make a round.
        """
        self.forget_batch()
        state = read_state(self.connection, "state")
        self.cohort = read_cohort(self.connection)
        self._answer = read_answer(self.connection)
        opened = read_round(self.connection, state) if state else None
        if (opened is None) != (self.cohort is None):
            raise ValueError("half a round")
        nonces = self.verdicts.load()
        if opened is not None:
            # Downtime does not count against the devices; from here on time does, reply or none.
            opened = replace(
                _of_known_rounds(opened),
                last_now=self.clock(),
                nonces=NonceSet.of([*opened.nonces, *nonces]),
            )
        self.opened, self._written = opened, self.cohort
        self.relay.load()

    def forget_batch(self) -> None:
        """A batch begins, or was undone."""
        self.changed.clear()
        self.touched = False

    def write(self) -> None:
        """What the batch changed of the round: each sum once, however many updates it took."""
        if not self.touched or self.opened is None or self.cohort is None:
            return
        sums = {number: self.opened.shards[number] for number in self.changed}
        write_reply(self.connection, sums, [])
        write_counts(self.connection, self.opened)
        if self.cohort is not self._written:
            write_cohort_counts(self.connection, self.cohort)
            self._written = self.cohort
        self.verdicts.write()
        self.forget_batch()

    # Where it stands

    @property
    def is_open(self) -> bool:
        """Whether updates are taken, or devices that are ready."""
        return self.opened is not None and self._answer is None

    @property
    def is_private(self) -> bool:
        """Whether it is a private round."""
        return self.cohort is not None and self.cohort.asked.secure is not None

    @property
    def taken(self) -> int:
        """How many devices' updates are in the sums, or how many are ready."""
        if self.opened is None:
            return 0
        return self.relay.seats if self.is_private else self.opened.accepted

    @property
    def is_offered(self) -> bool:
        """Whether devices may begin to train: while updates are taken, and in a buffered round
        until the server's deadline, for what is late in one counts in the next."""
        if self.opened is None or self.cohort is None:
            return False
        if self.is_buffered and not self.is_last:
            return self.step_left() > 0
        return self.seconds_left() > 0

    @property
    def is_buffered(self) -> bool:
        """Whether updates count whichever release they began from."""
        return self.opened is not None and self.opened.settings.is_buffered

    def verdict(self, key: bytes) -> UpdateVerdict | None:
        """What became of this device's update in the round; None where none came."""
        return self.verdicts.get(key)

    def seconds_left(self) -> float:
        """How long updates are taken still."""
        if self.opened is None or self.cohort is None or not self.is_open:
            return 0.0
        return max(0.0, self.cohort.asked.seconds - self.opened.elapsed_at(self.clock()))

    def close_if_over(self) -> bool:
        """Answer with what is there once the server's time is up; whether it was just now. A
        private round that nothing came of in time is forgotten."""
        if self.opened is not None and self.cohort is not None:
            is_past = self.opened.elapsed_at(self.clock()) > self.cohort.asked.lasts
            if is_past and self.relay.seats:
                self.relay.clear()
        if not self.is_open or self.seconds_left() > 0:
            return False
        self.close()
        return True

    def end(self) -> None:
        """The server says that no round follows for now: no private one goes on, and nobody waits
        for another step."""
        self.relay.clear()
        self.is_last = True

    # The server's side

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
        opened = open_round(state, asked.settings, asked=asked.asked, now=self.clock())
        self.opened, self._answer = _of_known_rounds(opened), None
        self.is_last = False
        self.cohort = self._written = Cohort(asked, os.urandom(16).hex())
        clear_plain_round(self.connection)
        self.verdicts.clear()
        self.connection.execute("DELETE FROM answer")
        self.relay.clear()
        write_states(self.connection, state, None)
        write_cohort(self.connection, self.cohort)
        self.forget_batch()
        self.touched = True
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
        if (seat := self.seat_of(key, number)) is not None:
            self.relay.leave(seat)
            return
        opened = self.open_to(number, key)
        if isinstance(opened, UpdateVerdict):
            return
        assert self.cohort is not None
        self.verdicts.add(key, UpdateVerdict(b"", "declined"))
        self.cohort = replace(self.cohort, declined=self.cohort.declined + 1)
        self.touched = True

    def forget(self, key: bytes, today: int) -> int:
        """A device is registered no more. What it gave to a sum stays there.

        Returns:
            How many uploads it made today (in days since 1970) that its row does not count yet, and
            that are not counted here any more.
        """
        if (seat := self.relay.seat_of(key)) is not None:
            self.relay.leave(seat)
        return self.verdicts.take_uploads(key, today)

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

    # For plain_updates.py and private_seats.py

    def step_left(self) -> float:
        """Seconds of the server's deadline that are left; below 0: that it is past."""
        assert self.opened is not None
        elapsed = self.opened.elapsed_at(self.clock())
        return self.opened.settings.deadline_seconds - elapsed

    def open_to(self, number: int, key: bytes) -> OpenRound | UpdateVerdict:
        """The open round, or what this device was told before.

        Raises:
            RoundOverError: round ``number`` takes nothing now.
        """
        known = self.told_in(number, key)
        if known is not None:
            return known
        opened = self.opened_as(number)
        if self.close_if_over():
            raise RoundOverError(f"round {number} is over: its time is up; ask for an offer")
        return opened

    def told_in(self, number: int, key: bytes) -> UpdateVerdict | None:
        """What a device was told in round ``number``, or where that goes on in this one, in it."""
        return self.verdicts.get(key) if self._goes_on(number) else None

    def _goes_on(self, number: int) -> bool:
        """Whether what was begun in round ``number`` is a matter of the round that is here."""
        if self.opened is None:
            return False
        current = self.opened.state.round
        return number == current or (self.is_buffered and number < current)

    def opened_as(self, number: int) -> OpenRound:
        """The open round, which is round ``number``, or takes what was begun in it.

        Raises:
            RoundOverError: it is not.
        """
        if not self.is_open or self.opened is None or not self._goes_on(number):
            raise RoundOverError(f"round {number} takes no updates now; ask for an offer")
        return self.opened

    def close(self) -> None:
        """Answer with what is there."""
        assert self.opened is not None
        assert self.cohort is not None
        declined = self.cohort.declined
        if self.is_private:
            number, ready = self.opened.state.round, self.relay.ready()
            answer = StageBundle(number, Stage.OFFER, ready, declined=declined).to_bytes()
        else:
            nonce, means = self.cohort.nonce, self.cohort.means
            done = CohortSum.of_round(self.opened, nonce, declined=declined, figures=means)
            answer = done.to_bytes()
        self.answer_with(answer)
        self.touched = True

    def answer_with(self, data: bytes) -> None:
        """From now on the server gets ``data``, and nothing more is taken."""
        self._answer = data
        write_answer(self.connection, data)

    def note_time(self) -> None:
        """Keep how long the round has been open."""
        assert self.opened is not None
        now = self.clock()
        self.opened = replace(self.opened, elapsed=self.opened.elapsed_at(now), last_now=now)
        self.touched = True

    def seat_of(self, key: bytes, number: int) -> int | None:
        if self.opened is None or self.opened.state.round != number:
            return None
        return self.relay.seat_of(key)


def _of_known_rounds(opened: OpenRound) -> OpenRound:
    """``opened``, of a buffered round, that takes updates from the rounds whose nonces are here.

    Of another round this gateway made no offer, or has lost its journal since and could not tell a
    replay.
    """
    expected, seen = opened.expected, opened.state.seen
    earlier = {number: base for number, base in expected.earlier.items() if number in seen}
    return replace(opened, expected=replace(expected, earlier=earlier))

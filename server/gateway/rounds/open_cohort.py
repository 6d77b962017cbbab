"""The open round of a gateway's cohort, as it stands in the journal: what is read of it, how it is
written, and how it ends.

What devices send to it is taken in plain_updates.py and private_seats.py, what the server asks in
cohort_round.py.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from dataclasses import replace

from pocketquery.client.private.messages import Stage
from pocketquery.server.federation.cohorts.cohort_sum import CohortSum
from pocketquery.server.federation.cohorts.stage_bundle import StageBundle
from pocketquery.server.federation.rounds.journal_tables import (
    read_round,
    read_state,
    write_counts,
    write_reply,
)
from pocketquery.server.federation.rounds.nonces import NonceSet
from pocketquery.server.federation.rounds.open_round import OpenRound
from pocketquery.server.gateway.rounds.errors import RoundOverError
from pocketquery.server.gateway.rounds.relay import Relay
from pocketquery.server.gateway.rounds.tables import (
    Cohort,
    read_answer,
    read_cohort,
    write_answer,
    write_cohort_counts,
)
from pocketquery.server.gateway.rounds.verdicts import UpdateVerdict, Verdicts

__all__ = ["OpenCohort", "of_known_rounds"]


class OpenCohort:
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
        self._connection = connection
        self._clock = clock
        self._verdicts = Verdicts(connection)
        self._answer: bytes | None = None
        self._changed: set[int] = set()  # shards that the running batch added to
        self._written: Cohort | None = None  # as it is in the table
        self._touched = False
        self._is_last = False  # what the server said; a restart forgets it, and time tells

    def load(self) -> None:
        """All of it, as it is on disk.

        Raises:
            CorruptArtifactError, KeyError, TypeError, ValueError: the rows do not make a round.
        """
        self.forget_batch()
        state = read_state(self._connection, "state")
        self.cohort = read_cohort(self._connection)
        self._answer = read_answer(self._connection)
        found = read_round(self._connection, state) if state else None
        if (found is None) != (self.cohort is None):
            raise ValueError("half a round")
        nonces = self._verdicts.load()
        if found is not None:
            # Downtime does not count against the devices; from here on time does, reply or none.
            found = replace(
                of_known_rounds(found),
                last_now=self._clock(),
                nonces=NonceSet.of([*found.nonces, *nonces]),
            )
        self.opened, self._written = found, self.cohort
        self.relay.load()

    def forget_batch(self) -> None:
        """A batch begins, or was undone."""
        self._changed.clear()
        self._touched = False

    def write(self) -> None:
        """What the batch changed of the round: each sum once, however many updates it took."""
        if not self._touched or self.opened is None or self.cohort is None:
            return
        sums = {number: self.opened.shards[number] for number in self._changed}
        write_reply(self._connection, sums, [])
        write_counts(self._connection, self.opened)
        if self.cohort is not self._written:
            write_cohort_counts(self._connection, self.cohort)
            self._written = self.cohort
        self._verdicts.write()
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
        if self.is_buffered and not self._is_last:
            return self._step_left() > 0
        return self.seconds_left() > 0

    @property
    def is_buffered(self) -> bool:
        """Whether updates count whichever release they began from."""
        return self.opened is not None and self.opened.settings.is_buffered

    def verdict(self, key: bytes) -> UpdateVerdict | None:
        """What became of this device's update in the round; None where none came."""
        return self._verdicts.get(key)

    def seconds_left(self) -> float:
        """How long updates are taken still."""
        if self.opened is None or self.cohort is None or not self.is_open:
            return 0.0
        return max(0.0, self.cohort.asked.seconds - self.opened.elapsed_at(self._clock()))

    def close_if_over(self) -> bool:
        """Answer with what is there once the server's time is up; whether it was just now. A
        private round that nothing came of in time is forgotten."""
        if self.opened is not None and self.cohort is not None:
            is_past = self.opened.elapsed_at(self._clock()) > self.cohort.asked.lasts
            if is_past and self.relay.seats:
                self.relay.clear()
        if not self.is_open or self.seconds_left() > 0:
            return False
        self._close()
        return True

    def end(self) -> None:
        """The server says that no round follows for now: no private one goes on, and nobody waits
        for another step."""
        self.relay.clear()
        self._is_last = True

    # For what is built on it

    def _step_left(self) -> float:
        """Seconds of the server's deadline that are left; below 0: that it is past."""
        assert self.opened is not None
        elapsed = self.opened.elapsed_at(self._clock())
        return self.opened.settings.deadline_seconds - elapsed

    def _open_to(self, number: int, key: bytes) -> OpenRound | UpdateVerdict:
        """The open round, or what this device was told before.

        Raises:
            RoundOverError: round ``number`` takes nothing now.
        """
        known = self._told_in(number, key)
        if known is not None:
            return known
        opened = self._opened_as(number)
        if self.close_if_over():
            raise RoundOverError(f"round {number} is over: its time is up; ask for an offer")
        return opened

    def _told_in(self, number: int, key: bytes) -> UpdateVerdict | None:
        """What a device was told in round ``number``, or where that goes on in this one, in it."""
        return self._verdicts.get(key) if self._goes_on(number) else None

    def _goes_on(self, number: int) -> bool:
        """Whether what was begun in round ``number`` is a matter of the round that is here."""
        if self.opened is None:
            return False
        current = self.opened.state.round
        return number == current or (self.is_buffered and number < current)

    def _opened_as(self, number: int) -> OpenRound:
        """The open round, which is round ``number``, or takes what was begun in it.

        Raises:
            RoundOverError: it is not.
        """
        if not self.is_open or self.opened is None or not self._goes_on(number):
            raise RoundOverError(f"round {number} takes no updates now; ask for an offer")
        return self.opened

    def _close(self) -> None:
        assert self.opened is not None
        assert self.cohort is not None
        declined = self.cohort.declined
        if self.is_private:
            number, ready = self.opened.state.round, self.relay.ready()
            self._answer = StageBundle(number, Stage.OFFER, ready, declined=declined).to_bytes()
        else:
            nonce, means = self.cohort.nonce, self.cohort.means
            done = CohortSum.of_round(self.opened, nonce, declined=declined, figures=means)
            self._answer = done.to_bytes()
        write_answer(self._connection, self._answer)
        self._touched = True

    def _pass(self) -> None:
        """Keep how long the round has been open."""
        assert self.opened is not None
        now = self._clock()
        self.opened = replace(self.opened, elapsed=self.opened.elapsed_at(now), last_now=now)
        self._touched = True


def of_known_rounds(opened: OpenRound) -> OpenRound:
    """``opened``, of a buffered round, that takes updates from the rounds whose nonces are here.

    Of another round this gateway made no offer, or has lost its journal since and could not tell a
    replay.
    """
    expected, seen = opened.expected, opened.state.seen
    earlier = {number: base for number, base in expected.earlier.items() if number in seen}
    return replace(opened, expected=replace(expected, earlier=earlier))

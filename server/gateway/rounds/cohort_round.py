"""The round of a gateway's cohort: what the server asks, what devices say, and the answer.

Of a plain round the answer is the sums; of a private one it is who is ready, and relay.py has what
follows.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from pocketquery.client.secure.keys import Certificate, check_certificate
from pocketquery.client.secure.messages import Stage
from pocketquery.sdk.bundle.adapter import parse_adapter
from pocketquery.sdk.errors import InvalidInputError
from pocketquery.server.federation.cohorts.cohort_offer import CohortOffer
from pocketquery.server.federation.cohorts.cohort_sum import CohortSum
from pocketquery.server.federation.cohorts.stage_bundle import StageBundle
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
from pocketquery.server.federation.rounds.round import receive_all
from pocketquery.server.federation.rounds.state import FederationState
from pocketquery.server.federation.secure.coordinator import SecureReason
from pocketquery.server.gateway.rounds.errors import (
    UNKNOWN,
    QuotaError,
    RoundOverError,
    UnknownDeviceError,
)
from pocketquery.server.gateway.rounds.relay import Relay
from pocketquery.server.gateway.rounds.tables import (
    Cohort,
    check_quota,
    read_answer,
    read_cohort,
    read_device,
    take_upload,
    write_answer,
    write_cohort,
    write_cohort_counts,
)
from pocketquery.server.gateway.rounds.upload import Upload
from pocketquery.server.gateway.rounds.verdicts import Verdict, Verdicts

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
        self._connection = connection
        self._clock = clock
        self._verdicts = Verdicts(connection)
        self._answer: bytes | None = None
        self._changed: set[int] = set()  # shards that the running batch added to
        self._written: Cohort | None = None  # as it is in the table
        self._touched = False

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
                found, last_now=self._clock(), nonces=NonceSet.of([*found.nonces, *nonces])
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

    def offer(self) -> CohortOffer:
        """What the server asked.

        Raises:
            RoundOverError: no round is open.
        """
        if self.cohort is None or not self.is_open:
            raise RoundOverError("no round takes updates now; ask for an offer later")
        return self.cohort.asked

    def verdict(self, key: bytes) -> Verdict | None:
        """What became of this device's update in the round; None where none came."""
        return self._verdicts.get(key)

    def seconds_left(self) -> float:
        """How long updates are taken still."""
        if self.opened is None or self.cohort is None or not self.is_open:
            return 0.0
        return max(0.0, self.cohort.asked.seconds - self.opened.elapsed_at(self._clock()))

    # The server

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
        )
        opened = open_round(state, asked.settings, asked=asked.asked, now=self._clock())
        self.opened, self._answer = opened, None
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

    def answer(self, digest: str) -> bytes | None:
        """The cohort's sum for the server's offer with this digest, or the stage bundle of who is
        ready; None while they are taken.

        Raises:
            RoundOverError: another round was begun since.
        """
        if self.cohort is None or self.cohort.asked.digest != digest:
            raise RoundOverError("the gateway knows no round of this offer; send the offer again")
        return self._answer

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

    # Devices

    def receive_all(
        self, uploads: Sequence[Upload], *, most_uploads: int
    ) -> list[tuple[Verdict, str] | Exception]:
        """Take devices' updates, one after the other: what became of each, and why in words.

        The first that came from a device in a round is what counts, and what is told again.

        Args:
            uploads: what came; a private round takes none.
            most_uploads: of a device on a day.

        Returns:
            For each of them in its place: as above, or why it was not looked at: RoundOverError
            (that round does not take updates now), UnknownDeviceError, QuotaError.
        """
        self.close_if_over()
        found: dict[int, tuple[Verdict, str] | Exception] = {}
        waiting: dict[bytes, int] = {}  # of a device: the place of what is taken next
        for place, upload in enumerate(uploads):
            if upload.key in waiting or len(waiting) >= self._room():
                found |= self._take(uploads, waiting)
            try:
                if (known := self._look_at(upload, most_uploads)) is None:
                    waiting[upload.key] = place
                else:
                    said = "this update, or another of this device, came before"
                    found[place] = known, said
            except (QuotaError, RoundOverError, UnknownDeviceError) as error:
                found[place] = error
        found |= self._take(uploads, waiting)
        return [found[place] for place in range(len(uploads))]

    def _look_at(self, upload: Upload, most_uploads: int) -> Verdict | None:
        """None where the update can be taken, or what its device was told before. Raises what
        :meth:`receive_all` returns."""
        row = read_device(self._connection, upload.key)
        if row is None:
            raise UnknownDeviceError(UNKNOWN)
        if self.is_private:
            raise RoundOverError(
                f"round {upload.number} is no plain one: it takes no update; decline it"
            )
        if (known := self._told_in(upload.number, upload.key)) is not None:
            return known
        self._opened_as(upload.number)
        check_quota(row, upload.today, most_uploads)
        return None

    def _room(self) -> int:
        """How many updates complete the cohort."""
        if self.opened is None or self.cohort is None:
            return 1
        return max(1, self.cohort.asked.wanted - self.opened.accepted)

    def _take(
        self, uploads: Sequence[Upload], waiting: dict[bytes, int]
    ) -> dict[int, tuple[Verdict, str] | Exception]:
        """Add those in the places of ``waiting``, which is empty then; by their places."""
        if not waiting:
            return {}
        assert self.opened is not None
        assert self.cohort is not None
        places = list(waiting.values())
        replies = [uploads[place].reply_to(self.opened) for place in places]
        self.opened, receipts = receive_all(self.opened, replies, self._clock())
        self._touched = True
        found: dict[int, tuple[Verdict, str] | Exception] = {}
        for place, receipt in zip(places, receipts, strict=True):
            upload = uploads[place]
            verdict = Verdict(upload.digest, receipt.reason.value if receipt.reason else "")
            self._verdicts.add(upload.key, verdict, day=upload.today, nonce=receipt.nonce)
            found[place] = verdict, receipt.detail
            if receipt.shard is not None:
                self._changed.add(receipt.shard)
                if upload.figures:
                    self.cohort = self.cohort.with_figures(upload.figures)
        waiting.clear()
        if self.opened.accepted >= self.cohort.asked.wanted:
            self._close()
        return found

    def ready(
        self, key: bytes, number: int, certificate: bytes, digest: bytes, *, most_uploads: int,
        today: int, now: float,
    ) -> SecureReason | None:  # fmt: skip
        """Take a device's word that it is ready for the private round ``number``: None, or why it
        has no seat there.

        Args:
            key: the device's.
            number: of the round.
            certificate: of the authority that the server names.
            digest: its SHA-256.
            most_uploads: of a device on a day.
            today: days since 1970.
            now: Unix seconds.

        Raises:
            RoundOverError: that round takes nobody now.
            QuotaError: the device sent ``most_uploads`` today.
        """
        opened = self._open_to(number, key) if self.is_private else None
        if isinstance(opened, Verdict):
            return None if opened.digest == digest else SecureReason.DUPLICATE
        if opened is None or self.cohort is None or self.cohort.asked.secure is None:
            raise RoundOverError(f"round {number} is no private one; ask for an offer")
        secure = self.cohort.asked.secure
        try:
            found = Certificate.parse(certificate)
            check_certificate(found, secure.enrolment, secure.federation_id, now)
        except InvalidInputError:
            return SecureReason.BAD_CERTIFICATE
        take_upload(self._connection, key, today, most_uploads)
        if not self.relay.sit(key, digest, certificate):
            return SecureReason.DUPLICATE
        self._verdicts.add(key, Verdict(digest))
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
        if isinstance(opened, Verdict):
            return
        assert self.cohort is not None
        self._verdicts.add(key, Verdict(b"", "declined"))
        self.cohort = replace(self.cohort, declined=self.cohort.declined + 1)
        self._touched = True

    def forget(self, key: bytes) -> None:
        """A device is registered no more. What it gave to a sum stays there."""
        if (seat := self.relay.seat_of(key)) is not None:
            self.relay.leave(seat)

    def _open_to(self, number: int, key: bytes) -> OpenRound | Verdict:
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

    def _told_in(self, number: int, key: bytes) -> Verdict | None:
        """What a device was told in round ``number``."""
        is_current = self.opened is not None and self.opened.state.round == number
        return self._verdicts.get(key) if is_current else None

    def _opened_as(self, number: int) -> OpenRound:
        """The open round, which is round ``number``.

        Raises:
            RoundOverError: it is not.
        """
        if not self.is_open or self.opened is None or self.opened.state.round != number:
            raise RoundOverError(f"round {number} takes no updates now; ask for an offer")
        return self.opened

    def _seat(self, key: bytes, number: int) -> int:
        if (seat := self._seat_or_none(key, number)) is None:
            raise RoundOverError(f"this device has no seat in round {number}; ask for an offer")
        return seat

    def _seat_or_none(self, key: bytes, number: int) -> int | None:
        if self.opened is None or self.opened.state.round != number:
            return None
        return self.relay.seat_of(key)

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

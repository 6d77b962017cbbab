"""Devices' updates to a plain round: which are looked at, what becomes of them, when the cohort is
complete.
"""

from __future__ import annotations

from collections.abc import Sequence

from pocketquery.server.federation.rounds.round import receive_all
from pocketquery_gateway.rounds.cohort_round import CohortRound
from pocketquery_gateway.rounds.errors import (
    UNKNOWN,
    BetweenStepsError,
    QuotaError,
    RoundOverError,
    UnknownDeviceError,
)
from pocketquery_gateway.rounds.tables import check_quota, read_device
from pocketquery_gateway.rounds.upload import Upload
from pocketquery_gateway.rounds.verdicts import UpdateVerdict

__all__ = ["PlainUpdates"]


class PlainUpdates:
    """An open round that takes updates.

    Args:
        cohort_round: in the journal; what is changed is part of the journal's transaction.
    """

    def __init__(self, cohort_round: CohortRound) -> None:
        self._round = cohort_round

    def receive_all(
        self, uploads: Sequence[Upload], *, most_uploads: int
    ) -> list[tuple[UpdateVerdict, str] | Exception]:
        """Take devices' updates, one after the other: what became of each, and why in words.

        The first that came from a device in a round is what counts, and what is told again.

        Args:
            uploads: what came; a private round takes none.
            most_uploads: of a device on a day.

        Returns:
            For each of them in its place: as above, or why it was not looked at: RoundOverError
            (that round does not take updates now), BetweenStepsError (the next one may),
            UnknownDeviceError, QuotaError.
        """
        self._round.close_if_over()
        results: dict[int, tuple[UpdateVerdict, str] | Exception] = {}
        waiting: dict[bytes, int] = {}  # of a device: the place of what is taken next
        for place, upload in enumerate(uploads):
            if upload.key in waiting or len(waiting) >= self._room():
                results |= self._take(uploads, waiting)
            try:
                if (known := self._look_at(upload, most_uploads)) is None:
                    waiting[upload.key] = place
                else:
                    reason = "this update, or another of this device, came before"
                    results[place] = known, reason
            except (
                BetweenStepsError, QuotaError, RoundOverError, UnknownDeviceError
            ) as error:  # fmt: skip
                results[place] = error
        results |= self._take(uploads, waiting)
        return [results[place] for place in range(len(uploads))]

    def _look_at(self, upload: Upload, most_uploads: int) -> UpdateVerdict | None:
        """None where the update can be taken, or what its device was told before. Raises what
        :meth:`receive_all` returns."""
        row = read_device(self._round.connection, upload.key)
        if row is None:
            raise UnknownDeviceError(UNKNOWN)
        if self._round.is_private:
            raise RoundOverError(
                f"round {upload.number} is no plain one: it takes no update; decline it"
            )
        if (known := self._round.told_in(upload.number, upload.key)) is not None:
            return known
        self._check_between_steps(upload.number)
        self._round.opened_as(upload.number)
        check_quota(row, upload.today, most_uploads)
        return None

    def _check_between_steps(self, number: int) -> None:
        """See that there is a round for what was begun in round ``number``, or will be none.

        Raises:
            BetweenStepsError: the buffered round that is here was answered; the next may take it.
        """
        if self._round.opened is None or self._round.is_open or not self._round.is_buffered:
            return
        if (
            self._round.is_last
            or self._round.step_left() <= -self._round.opened.settings.deadline_seconds
        ):
            return  # the server has said that it ends, or as long again has passed: it has gone
        if self._round.opened.expected.base(number) is not None:
            raise BetweenStepsError(
                "the server makes a step of what came; send this update again, it counts in the "
                "next",
                max(0.0, self._round.step_left()),
            )

    def _room(self) -> int:
        """How many updates complete the cohort."""
        if self._round.opened is None or self._round.cohort is None:
            return 1
        return max(1, self._round.cohort.asked.wanted - self._round.opened.accepted)

    def _take(
        self, uploads: Sequence[Upload], waiting: dict[bytes, int]
    ) -> dict[int, tuple[UpdateVerdict, str] | Exception]:
        """Add those in the places of ``waiting``, which is empty then; by their places."""
        if not waiting:
            return {}
        assert self._round.opened is not None
        assert self._round.cohort is not None
        places = list(waiting.values())
        replies = [uploads[place].reply_to(self._round.opened) for place in places]
        self._round.opened, receipts = receive_all(self._round.opened, replies, self._round.clock())
        self._round.touched = True
        results: dict[int, tuple[UpdateVerdict, str] | Exception] = {}
        for place, receipt in zip(places, receipts, strict=True):
            upload = uploads[place]
            verdict = UpdateVerdict(upload.digest, receipt.reason.value if receipt.reason else "")
            self._round.verdicts.add(upload.key, verdict, day=upload.today, nonce=receipt.nonce)
            results[place] = verdict, receipt.detail
            if receipt.shard is not None:
                self._round.changed.add(receipt.shard)
                if upload.figures:
                    self._round.cohort = self._round.cohort.with_figures(upload.figures)
        waiting.clear()
        if self._round.opened.accepted >= self._round.cohort.asked.wanted:
            self._round.close()
        return results

"""Takes the replies of a plain round's devices into the journal, and counts them."""

from __future__ import annotations

import logging
from dataclasses import replace

from pocketquery.client.records import Reply
from pocketquery.server.federation.orchestration.clock import Clock
from pocketquery.server.federation.orchestration.exchange import Arrival
from pocketquery.server.federation.orchestration.journal import Journal
from pocketquery.server.federation.rounds.round_report import RoundReport
from pocketquery.server.federation.rounds.validation import Valid, validate

__all__ = ["Replies"]

_log = logging.getLogger(__name__)


class Replies:
    """The replies of one round.

    Args:
        journal: has the open round.
        clock: for deadlines.
    """

    def __init__(self, journal: Journal, clock: Clock) -> None:
        self._journal = journal
        self._clock = clock
        opened = journal.open_round
        # A device that replied before a kill is asked again, and counted when it replies again.
        self._before = set() if opened is None else {nonce.hex() for nonce in opened.nonces}

    def take(self, report: RoundReport, arrival: Arrival[Reply]) -> RoundReport:
        """``report`` after one reply, which is in the journal when this returns."""
        reply = arrival.reply
        if reply.update is None:
            if arrival.late:  # counted when its round was
                return report
            if reply.failed is None:
                return replace(report, declined=report.declined + 1)
            return replace(report, failed=report.failed + 1)
        if self._before and (nonce := self._nonce(reply.update)) in self._before:
            self._before.remove(nonce)
            return report.with_accepted(reply.figures)
        receipt = self._journal.receive(reply.update, self._clock.now(), late=arrival.late)
        if receipt.reason is not None:
            reason = receipt.reason.value
            _log.info("round %d: quarantined, %s: %s", report.round, reason, receipt.detail)
            return report.with_quarantined({reason: 1})
        return report.with_accepted(reply.figures)

    def _nonce(self, update: bytes) -> str:
        """The nonce of an update that the open round could take; else empty."""
        opened = self._journal.open_round
        reading = None if opened is None else validate(update, opened.expected)
        return reading.header.nonce if isinstance(reading, Valid) else ""

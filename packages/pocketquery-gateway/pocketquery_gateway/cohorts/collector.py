"""Collects a plain round from gateways, each of which stands for many devices.

Each gateway is asked for its share of the round. It may not know more of the others than that, and
what it answers is final: asked again, by a server that was killed, it answers with the same sum,
which is known by its nonce and not counted twice.

A buffered round (orchestration/buffer.py) is the same: its offer says besides which releases the
rounds before offered, and a gateway takes what began from them as the server would, stale by so
many releases. What comes to a gateway that has answered waits, with its device, for the next offer.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from pocketquery.client.offer import Offer
from pocketquery.sdk.errors import CorruptArtifactError
from pocketquery.server.federation.orchestration.device_collector import PlainCollector
from pocketquery.server.federation.orchestration.exchange import Arrival
from pocketquery.server.federation.orchestration.journal import Journal
from pocketquery.server.federation.rounds.open_round import OpenRound
from pocketquery.server.federation.rounds.round import Receipt
from pocketquery.server.federation.rounds.round_report import RoundReport
from pocketquery.server.federation.rounds.settings import RoundSettings
from pocketquery_gateway.cohorts.cohort_offer import cohort_offers
from pocketquery_gateway.cohorts.cohort_sum import CohortSum
from pocketquery_gateway.cohorts.exchange import GatewayExchange
from pocketquery_gateway.cohorts.merging import add_cohort
from pocketquery_gateway.cohorts.records import GatewayReply

__all__ = ["CohortCollector", "receive_cohort"]

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class CohortCollector(PlainCollector):
    """Asks gateways and merges their sums; a
    :class:`~pocketquery.server.federation.rounds.parts.Collector`.

    Attributes:
        gateways: how these are asked.
    """

    gateways: GatewayExchange = field(kw_only=True)

    def places(self, connected: int, settings: RoundSettings) -> int:
        """As many as the settings ask: how many devices a gateway has, only it knows."""
        return settings.asked()

    def collect(
        self, report: RoundReport, opened: OpenRound, offer: Offer, nodes: Sequence[int]
    ) -> RoundReport:
        """See :class:`Collector`."""
        before = {nonce.hex() for nonce in opened.nonces}  # in the sums before a kill
        asked = cohort_offers(opened, offer, nodes)
        self.gateways.ask_cohorts(asked.items(), opened.settings.deadline_seconds)
        for arrival in self.gateways.cohort_arrivals(self._is_over):
            report = self._take(report, arrival, before)
            self.show(report)
            if opened.enough(report.accepted):
                break
        return report

    def _is_over(self) -> bool:
        """A buffer of devices waits for ever; gateways answer in time with what is there."""
        opened = self.journal.open_round
        if opened is None:
            return True
        return opened.elapsed_at(self.clock.now()) > opened.settings.deadline_seconds

    def _take(
        self, report: RoundReport, arrival: Arrival[GatewayReply[bytes]], before: set[str]
    ) -> RoundReport:
        """``report`` after one answer, which is in the journal when this returns."""
        data = arrival.reply.content
        if data is None:
            _log.warning("round %d: a gateway failed: %s", report.round, arrival.reply.failed)
            return report if arrival.late else replace(report, failed=report.failed + 1)
        if (known := _known(data, before)) is not None:
            return _with_cohort(report, known)
        receipt, cohort = receive_cohort(self.journal, data, self.clock.now())
        if cohort is None:
            reason = "" if receipt.reason is None else receipt.reason.value
            _log.warning("round %d: a cohort's sum left out, %s: %s", report.round, reason,
                         receipt.detail)  # fmt: skip
            return report.with_quarantined({reason: 1})
        return _with_cohort(report, cohort)


def receive_cohort(journal: Journal, data: bytes, now: float) -> tuple[Receipt, CohortSum | None]:
    """Take a gateway's sum; on return it is on disk what became of it. No bytes raise.

    Args:
        journal: with an open round.
        data: a gateway's answer.
        now: the clock's reading.

    Raises:
        ArtifactError: the disk is full or fails; the sum does not count, ask again.
    """
    assert journal.open_round is not None
    opened, receipt, cohort = add_cohort(journal.open_round, data, now)
    journal.record(opened, [receipt.nonce] if receipt.nonce else [])
    return receipt, cohort


def _with_cohort(report: RoundReport, cohort: CohortSum) -> RoundReport:
    """``report`` after a cohort's accepted replies, and what it says of the others."""
    after = report.with_accepted(cohort.figures, cohort.count).with_quarantined(cohort.quarantined)
    return replace(after, declined=report.declined + cohort.declined)


def _known(data: bytes, before: set[str]) -> CohortSum | None:
    """The sum in ``data``, where it was in the round before a kill."""
    if not before:
        return None
    try:
        cohort = CohortSum.from_bytes(data)
    except CorruptArtifactError:
        return None
    if cohort.nonce not in before:
        return None
    before.remove(cohort.nonce)
    return cohort

"""A plain round whose nodes are gateways: what driver.py asks where a node stands for many.

Each gateway is asked for its share of the round. It may not know more of the others than that, and
what it answers is final: asked again, by a server that was killed, it answers with the same sum,
which is known by its nonce and not counted twice.

A buffered round (buffered.py) is the same: its offer says besides which releases the rounds
before offered, and a gateway takes what began from them as the server would, stale by so many
releases. What comes to a gateway that has answered waits, with its device, for the next offer.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace

from pocketquery.client.offer import Offer
from pocketquery.sdk.errors import CorruptArtifactError
from pocketquery.sdk.validation import check_count
from pocketquery.server.federation.cohorts.cohort_offer import cohort_offers
from pocketquery.server.federation.cohorts.cohort_sum import CohortSum
from pocketquery.server.federation.cohorts.records import CohortReply
from pocketquery.server.federation.orchestration.clock import Clock
from pocketquery.server.federation.orchestration.exchange import Arrival, Exchange
from pocketquery.server.federation.orchestration.journal import Journal
from pocketquery.server.federation.rounds.open_round import OpenRound
from pocketquery.server.federation.rounds.round_report import RoundReport

__all__ = ["CohortDriver"]

_ANNOUNCE_SECONDS = 30.0

_log = logging.getLogger(__name__)


class CohortDriver:
    """Asks gateways and merges their sums.

    Args:
        exchange: how gateways are asked.
        journal: what is known of the rounds.
        clock: for deadlines.
        gateways: how many must be connected before a round begins.
        show: told of every change of the running round's report.

    Raises:
        InvalidInputError: ``gateways`` is no number from 1.
    """

    def __init__(
        self,
        exchange: Exchange,
        journal: Journal,
        clock: Clock,
        gateways: int,
        show: Callable[[RoundReport], None] = lambda report: None,
    ) -> None:
        self.gateways = check_count(gateways, "gateways")
        self._exchange = exchange
        self._journal = journal
        self._clock = clock
        self._show = show

    def run(
        self, heard: RoundReport, opened: OpenRound, offer: Offer, nodes: Sequence[int]
    ) -> RoundReport:
        """The replies of ``nodes`` for their cohorts; in the journal when this returns.

        Args:
            heard: the running report.
            opened: the open round.
            offer: what devices are offered.
            nodes: the gateways.
        """
        known = {nonce.hex() for nonce in opened.nonces}  # in the sums before a kill
        asked = cohort_offers(opened, offer, nodes)
        self._exchange.ask_cohorts(asked.items(), opened.settings.deadline_seconds)
        wanted = min(opened.settings.clients_per_round, opened.asked)
        for arrival in self._exchange.cohort_arrivals(self._is_over):
            heard = self._take(heard, arrival, known)
            self._show(heard)
            if heard.accepted >= wanted:
                break
        return heard

    def announce(self, release: bytes, lineage: bytes, nodes: Sequence[int]) -> int:
        """Tell ``nodes`` what is in force; how many of them heard it."""
        self._exchange.announce(release, lineage, nodes, _ANNOUNCE_SECONDS)
        end = self._clock.now() + _ANNOUNCE_SECONDS
        replies = [
            one.reply
            for one in self._exchange.cohort_arrivals(lambda: self._clock.now() > end)
            if not one.late
        ]
        heard = sum(reply.failed is None for reply in replies)
        if heard < len(nodes):
            _log.warning("%d of %d gateways heard of the release", heard, len(nodes))
        return heard

    def _is_over(self) -> bool:
        """A buffer of devices waits for ever; gateways answer in time with what is there."""
        opened = self._journal.open_round
        if opened is None:
            return True
        return opened.elapsed_at(self._clock.now()) > opened.settings.deadline_seconds

    def _take(
        self, heard: RoundReport, arrival: Arrival[CohortReply], known: set[str]
    ) -> RoundReport:
        """What was heard after one answer, which is in the journal when this returns."""
        data = arrival.reply.sum
        if data is None:
            _log.warning("round %d: a gateway failed: %s", heard.round, arrival.reply.failed)
            return heard if arrival.late else replace(heard, failed=heard.failed + 1)
        if (before := _known(data, known)) is not None:
            return heard.with_cohort(before.count, before)
        receipt, cohort = self._journal.receive_cohort(data, self._clock.now())
        if receipt.reason is not None:
            reason = receipt.reason.value
            _log.warning("round %d: a cohort's sum left out, %s: %s", heard.round, reason,
                         receipt.detail)  # fmt: skip
            return heard.with_quarantined(reason)
        assert cohort is not None
        return heard.with_cohort(cohort.count, cohort)


def _known(data: bytes, known: set[str]) -> CohortSum | None:
    """The sum in ``data``, where it was in the round before a kill."""
    if not known:
        return None
    try:
        cohort = CohortSum.from_bytes(data)
    except CorruptArtifactError:
        return None
    if cohort.nonce not in known:
        return None
    known.remove(cohort.nonce)
    return cohort

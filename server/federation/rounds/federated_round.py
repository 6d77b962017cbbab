"""A federated round, on one page: offer, collect, combine, decide, release.

The journal writes down each step before the next begins. So a server that was killed calls
:meth:`FederatedRound.run` again, and goes on with the same round: devices that had replied send the
same update again, which is known by its nonce and counts once.

    offer      client/offer.py: the release in force, and how to train from it
    collect    orchestration/device_collector.py; of private rounds private_collector.py; through
               gateways cohorts/ in packages/pocketquery-gateway
    combine    round.py: receive() for each reply, close_round() for the server's step
    decide     releases/gate.py: does the candidate find more than the release in force?
    release    releases/publishing.py; the next round begins from it
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace

from pocketquery.client.offer import Offer
from pocketquery.sdk.errors import InvalidInputError
from pocketquery.server.federation.rounds.open_round import OpenRound
from pocketquery.server.federation.rounds.options import FederationOptions
from pocketquery.server.federation.rounds.parts import (
    Collector,
    Decision,
    Publisher,
    RoundJournal,
)
from pocketquery.server.federation.rounds.round_report import RoundReport
from pocketquery.server.federation.rounds.settings import RoundSettings
from pocketquery.server.federation.rounds.state import FederationState

__all__ = ["FederatedRound"]

_log = logging.getLogger(__name__)


class FederatedRound:
    """The next round of a federation, again and again.

    Args:
        journal: what is known of the rounds, on disk.
        collector: reaches the devices.
        publisher: the gate and the releases.
        first: the state before the first round.
        options: how rounds are run and devices train.
        now: seconds of a clock that does not jump.
        show: told of every change of the running round's report.
    """

    def __init__(
        self,
        journal: RoundJournal,
        collector: Collector,
        publisher: Publisher,
        first: FederationState,
        options: FederationOptions,
        *,
        now: Callable[[], float],
        show: Callable[[RoundReport], None] = lambda report: None,
    ) -> None:
        self._journal = journal
        self._collector = collector
        self._publisher = publisher
        self._first = first
        self._options = options
        self._now = now
        self._show = show

    @property
    def number(self) -> int:
        """Of the round that :meth:`run` begins or goes on with."""
        if self._journal.candidate is not None:
            return self._journal.candidate.round - 1
        return (self._journal.state or self._first).round

    def run(self) -> RoundReport:
        """One round, or what is left of the one that was going on; its report.

        Raises:
            ArtifactError: too few devices are connected, or the disk fails; call again to go on.
            InvalidInputError: the open round is a private one and the options are of plain ones, or
                the other way round.
        """
        if self._journal.candidate is None:  # else it was closed before a kill
            # 1. Offer the release in force to the devices that are connected.
            started = self._now()
            nodes = self._collector.connected()
            opened = self._journal.open_round or self._begin(len(nodes))
            self._check_kind(opened)
            offer = self._offer(opened.state, opened.settings)
            report = RoundReport(opened.state.round, opened.state.version, asked=opened.asked)
            self._show(report)
            # 2. Collect replies: each is validated, clipped and added to a sum as it comes.
            report = self._collector.collect(report, opened, offer, nodes)
            report = replace(report, seconds=self._now() - started)
            # 3. Combine the sums into a change, and that into a step: the candidate.
            _, report = self._journal.close(report)
            if report.skipped is not None:  # too few replies: nothing is proposed
                self._show(report)
                return report
        state, candidate = self._journal.state, self._journal.candidate
        assert state is not None
        assert candidate is not None
        report = self._journal.reports()[-1]
        # 4. Decide whether the candidate may replace the release in force.
        decision = self._publisher.decide(state, candidate, report.privacy)
        # 5. Release it, or go on from what was.
        return self._release(state, candidate, report, decision)

    def in_force(self) -> FederationState:
        """The state on the release in force: where the next round begins."""
        return self._publisher.in_force(self._journal.state or self._first)

    def _begin(self, connected: int) -> OpenRound:
        settings, state = self._options.settings, self.in_force()
        return self._journal.begin(
            state,
            settings,
            asked=self._collector.places(connected, settings),
            secure=self._collector.begin(state, self._offer(state, settings)),
            now=self._now(),
        )

    def _offer(self, state: FederationState, settings: RoundSettings) -> Offer:
        return Offer(
            round=state.round,
            release=self._publisher.release(state.version),
            config=self._options.local,
            clip_norm=settings.clip_norm,
            largest_weight=settings.largest_weight,
            compress=self._options.compress,
            lineage=self._publisher.lineage(),
        )

    def _check_kind(self, opened: OpenRound) -> None:
        number, is_private = opened.state.round, opened.secure is not None
        if is_private and self._options.secure is None:
            raise InvalidInputError(
                f"round {number} was begun as a private one; go on with secure on"
            )
        if not is_private and self._options.secure is not None:
            raise InvalidInputError(
                f"round {number} was begun as a plain one, whose changes the server reads; finish "
                f"it with secure off, with rounds {number + 1}, then go on with secure on"
            )

    def _release(
        self,
        state: FederationState,
        candidate: FederationState,
        report: RoundReport,
        decision: Decision,
    ) -> RoundReport:
        if report.fallback is not None:
            _log.info("round %d: %s", report.round, report.fallback)
        report = replace(
            report, gate=decision.report, version=decision.version, skipped=decision.skipped
        )
        released = candidate.released(decision.version)
        self._journal.settle(released if decision.accepted else state.rejected(candidate), report)
        self._show(report)
        return report

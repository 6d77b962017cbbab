"""Collects a plain round from devices, each of them a node.

A device that drops out shows here in three ways: it replies that it failed, its reply comes after
the deadline, or none comes. More devices are asked than are wanted, so the round goes on without
it (``over-selection``); with fewer than ``least-replies`` it is skipped.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pocketquery.client.offer import Offer
from pocketquery.server.federation.orchestration.buffer import fill_buffer
from pocketquery.server.federation.orchestration.clock import Clock
from pocketquery.server.federation.orchestration.exchange import Exchange
from pocketquery.server.federation.orchestration.journal import Journal
from pocketquery.server.federation.orchestration.replies import Replies
from pocketquery.server.federation.rounds.open_round import OpenRound
from pocketquery.server.federation.rounds.round_report import RoundReport
from pocketquery.server.federation.rounds.settings import RoundSettings
from pocketquery.server.federation.rounds.state import FederationState

__all__ = ["PlainCollector", "DeviceCollector"]


@dataclass(frozen=True)
class PlainCollector:
    """The beginning of a :class:`~pocketquery.server.federation.rounds.parts.Collector`.

    Attributes:
        exchange: how nodes are asked.
        journal: what is known of the rounds.
        clock: for deadlines.
        least: how many nodes must be connected before a round begins.
        show: told of every change of the running round's report.
    """

    exchange: Exchange
    journal: Journal
    clock: Clock
    least: int
    show: Callable[[RoundReport], None] = lambda report: None

    def connected(self) -> list[int]:
        """See :class:`Collector`."""
        return self.exchange.connected(self.least)

    def begin(self, state: FederationState, offer: Offer) -> None:
        """A plain round knows nothing besides."""


class DeviceCollector(PlainCollector):
    """Asks devices; a :class:`~pocketquery.server.federation.rounds.parts.Collector`."""

    def places(self, connected: int, settings: RoundSettings) -> int:
        """As many as the settings ask, or as are there; a buffer takes as many as it wants."""
        return settings.asked() if settings.is_buffered else min(settings.asked(), connected)

    def collect(
        self, report: RoundReport, opened: OpenRound, offer: Offer, nodes: Sequence[int]
    ) -> RoundReport:
        """See :class:`Collector`."""
        replies = Replies(self.journal, self.clock)
        if opened.settings.is_buffered:
            return fill_buffer(
                report, opened, offer, nodes, self.exchange, self.journal, replies, self.show
            )
        self.exchange.ask(offer, nodes, opened.asked, opened.settings.deadline_seconds)
        for arrival in self.exchange.arrivals(self._is_over):
            report = replies.take(report, arrival)
            self.show(report)
            if opened.enough(report.accepted):
                break
        return report

    def _is_over(self) -> bool:
        opened = self.journal.open_round
        return opened is None or opened.is_over(self.clock.now())

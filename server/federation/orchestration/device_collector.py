"""Collects a plain round from devices, each of them a node.

A device that drops out shows here in three ways: it replies that it failed, its reply comes after
the deadline, or none comes. More devices are asked than are wanted, so the round goes on without
it (``over-selection``); with fewer than ``least-replies`` it is skipped.
"""

from __future__ import annotations

from collections.abc import Sequence

from pocketquery.client.offer import Offer
from pocketquery.server.federation.orchestration.buffer import fill_buffer
from pocketquery.server.federation.orchestration.plain_collector import PlainCollector
from pocketquery.server.federation.orchestration.replies import Replies
from pocketquery.server.federation.rounds.open_round import OpenRound
from pocketquery.server.federation.rounds.round_report import RoundReport
from pocketquery.server.federation.rounds.settings import RoundSettings

__all__ = ["DeviceCollector"]


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

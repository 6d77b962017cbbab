"""What collectors of plain rounds share, whoever they reach."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pocketquery.client.offer import Offer
from pocketquery.server.federation.orchestration.clock import Clock
from pocketquery.server.federation.orchestration.exchange import Exchange
from pocketquery.server.federation.orchestration.journal import Journal
from pocketquery.server.federation.rounds.round_report import RoundReport
from pocketquery.server.federation.rounds.state import FederationState

__all__ = ["PlainCollector"]


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

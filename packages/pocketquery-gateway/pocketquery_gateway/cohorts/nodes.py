"""What the server's rounds take of gateways: the entry point ``gateways`` of the group
``pocketquery.round_nodes``, which federation.py loads where nodes are gateways."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pocketquery.server.federation.orchestration.clock import Clock
from pocketquery.server.federation.orchestration.exchange import Exchange
from pocketquery.server.federation.orchestration.journal import Journal
from pocketquery.server.federation.rounds.round_report import RoundReport
from pocketquery_gateway.cohorts.collector import CohortCollector
from pocketquery_gateway.cohorts.exchange import GatewayExchange
from pocketquery_gateway.cohorts.members import GatewayMembers

__all__ = ["GatewayNodes"]


class GatewayNodes:
    """Nodes that are gateways; a
    :class:`~pocketquery.server.federation.orchestration.federation.Gateways`.

    Args:
        exchange: how nodes are asked.
        clock: for waiting.
        release: the file of a release by its version.
    """

    def __init__(self, exchange: Exchange, clock: Clock, release: Callable[[str], bytes]) -> None:
        self._exchange = exchange
        self._clock = clock
        self._gateways = GatewayExchange(exchange, clock, release)

    def collector(
        self, journal: Journal, least: int, show: Callable[[RoundReport], None]
    ) -> CohortCollector:
        """What collects plain rounds."""
        return CohortCollector(
            self._exchange, journal, self._clock, least, show, gateways=self._gateways
        )

    def members(self) -> GatewayMembers:
        """The devices of private rounds."""
        return GatewayMembers(self._gateways, self._clock)

    def announce(self, release: bytes, lineage: bytes, nodes: Sequence[int]) -> int:
        """See :meth:`GatewayExchange.announce`."""
        return self._gateways.announce(release, lineage, nodes)

"""Collects a private round, in which nobody sees a single change: the five stages of
secure_driver.py, begun within the season's budget."""

from __future__ import annotations

from collections.abc import Sequence

from pocketquery.client.offer import Offer
from pocketquery.server.federation.orchestration.exchange import Exchange
from pocketquery.server.federation.orchestration.secure_driver import SecureDriver
from pocketquery.server.federation.rounds.open_round import OpenRound
from pocketquery.server.federation.rounds.options import FederationOptions
from pocketquery.server.federation.rounds.round_report import RoundReport
from pocketquery.server.federation.rounds.settings import RoundSettings
from pocketquery.server.federation.rounds.state import FederationState
from pocketquery.server.private.secure_round import SecureRound

__all__ = ["PrivateCollector"]


class PrivateCollector:
    """Runs the stages; a :class:`~pocketquery.server.federation.rounds.parts.Collector`.

    Args:
        exchange: how nodes are asked.
        stages: of the rounds.
        options: of the federation.
    """

    def __init__(
        self, exchange: Exchange, stages: SecureDriver, options: FederationOptions
    ) -> None:
        self._exchange = exchange
        self._stages = stages
        self._options = options

    def connected(self) -> list[int]:
        """See :class:`Collector`."""
        return self._exchange.connected(
            self._options.gateways or self._options.settings.least_replies
        )

    def places(self, connected: int, settings: RoundSettings) -> int:
        """As many as the settings ask; of devices that are nodes, as many as are there."""
        return settings.asked() if self._options.gateways else min(settings.asked(), connected)

    def begin(self, state: FederationState, offer: Offer) -> SecureRound:
        """See :class:`Collector`."""
        assert self._options.secure is not None
        size = sum(value.size for value in state.adapter.values())
        wanted = self._options.settings.clients_per_round
        self._stages.check(self._options.secure, offer, size, wanted)
        return self._stages.begin(self._options.secure, state.round)

    def collect(
        self, report: RoundReport, opened: OpenRound, offer: Offer, nodes: Sequence[int]
    ) -> RoundReport:
        """See :class:`Collector`."""
        return self._stages.run(report, offer, nodes)

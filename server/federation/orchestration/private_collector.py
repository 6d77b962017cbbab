"""Collects a private round, in which nobody sees a single change: the five stages of
server/private/stages.py, begun within the season's budget."""

from __future__ import annotations

from collections.abc import Sequence

from pocketquery.client.offer import Offer
from pocketquery.server.federation.orchestration.exchange import Exchange
from pocketquery.server.federation.orchestration.private_round import PrivateRound
from pocketquery.server.federation.rounds.open_round import OpenRound
from pocketquery.server.federation.rounds.options import FederationOptions
from pocketquery.server.federation.rounds.round_report import RoundReport
from pocketquery.server.federation.rounds.settings import RoundSettings
from pocketquery.server.federation.rounds.state import FederationState
from pocketquery.server.private.secure_round import SecureRound
from pocketquery.server.private.stages import PrivateStages

__all__ = ["PrivateCollector"]


class PrivateCollector:
    """Runs the stages; a :class:`~pocketquery.server.federation.rounds.parts.Collector`.

    Args:
        exchange: how nodes are asked.
        opened: the open round, which the stages change.
        stages: of the rounds.
        options: of the federation.
    """

    def __init__(
        self,
        exchange: Exchange,
        opened: PrivateRound,
        stages: PrivateStages,
        options: FederationOptions,
    ) -> None:
        self._exchange = exchange
        self._opened = opened
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
        return self._stages.begin(self._options.secure, offer, size, wanted)

    def collect(
        self, report: RoundReport, opened: OpenRound, offer: Offer, nodes: Sequence[int]
    ) -> RoundReport:
        """See :class:`Collector`."""
        self._opened.report = report
        self._stages.run(offer, nodes)
        return self._opened.report

"""Messages of a round to gateways, over the exchange with nodes."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from pocketquery.server.federation.orchestration.clock import Clock
from pocketquery.server.federation.orchestration.exchange import Arrival, Exchange
from pocketquery_gateway.cohorts.announced_release import AnnouncedRelease
from pocketquery_gateway.cohorts.cohort_offer import CohortOffer, left_by
from pocketquery_gateway.cohorts.records import (
    ANNOUNCE,
    RELAY,
    TRAIN,
    GatewayReply,
    read_cohort_reply,
    read_relay_reply,
    records_of,
)
from pocketquery_gateway.cohorts.stage_bundle import StageBundle

__all__ = ["GatewayExchange"]

_ANNOUNCE_SECONDS = 30.0

_log = logging.getLogger(__name__)


class GatewayExchange:
    """Asks gateways and yields their replies.

    Args:
        exchange: how nodes are asked.
        clock: for waiting.
        release: the file of a release by its version: during a roll-out gateways are given the one
            that it leaves to the other devices. None: they are not.
    """

    def __init__(
        self, exchange: Exchange, clock: Clock, release: Callable[[str], bytes] | None = None
    ) -> None:
        self._exchange = exchange
        self._clock = clock
        self._release = release

    def ask_cohorts(self, asked: Iterable[tuple[int, CohortOffer]], seconds: float) -> None:
        """Send each gateway what is asked of its cohort."""
        offers = list(asked)
        offer = offers[0][1].offer if offers else None
        number = "" if offer is None else str(offer.round)
        left = b"" if offer is None else self._left(offer.lineage)
        contents = ((node, records_of(replace(one, left_release=left))) for node, one in offers)
        self._exchange.send(contents, TRAIN, number, seconds)

    def ask_relays(
        self,
        bundles: Iterable[tuple[int, StageBundle]],
        number: int,
        stage: int,
        seconds: float,
        *,
        more: bool = False,
    ) -> None:
        """Send gateways the messages of one stage for their devices; ``more``: besides what is
        waited for."""
        contents = ((node, records_of(one)) for node, one in bundles)
        self._exchange.send(contents, RELAY, f"{number}.{stage}", seconds, more=more)

    def announce(self, release: bytes, lineage: bytes, nodes: Sequence[int]) -> int:
        """Tell gateways the release in force; how many of them took note of it."""
        content = records_of(AnnouncedRelease(release, lineage, self._left(lineage)))
        self._exchange.send(((node, content) for node in nodes), ANNOUNCE, "", _ANNOUNCE_SECONDS)
        end = self._clock.now() + _ANNOUNCE_SECONDS
        arrivals = self.cohort_arrivals(lambda: self._clock.now() > end)
        informed = sum(one.reply.failed is None for one in arrivals if not one.late)
        if informed < len(nodes):
            _log.warning("%d of %d gateways took note of the release", informed, len(nodes))
        return informed

    def _left(self, lineage: bytes) -> bytes:
        target = left_by(lineage)
        return b"" if target is None or self._release is None else self._release(target.version)

    def cohort_arrivals(
        self, is_over: Callable[[], bool]
    ) -> Iterator[Arrival[GatewayReply[bytes]]]:
        """Replies of gateways, see :meth:`Exchange.arrivals`."""
        return self._exchange.arrivals_read(is_over, read_cohort_reply, GatewayReply(b""))

    def relay_arrivals(
        self, is_over: Callable[[], bool]
    ) -> Iterator[Arrival[GatewayReply[StageBundle]]]:
        """The same in a private round."""
        damaged: GatewayReply[StageBundle] = GatewayReply(None, "its reply could not be unpacked")
        return self._exchange.arrivals_read(is_over, read_relay_reply, damaged)

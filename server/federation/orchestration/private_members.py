"""How the devices of a private round are reached.

The rounds know a device by a number, its *member*. Where devices are nodes, that is the node's id;
behind a gateway it is the gateway's node and the device's seat there
(``cohorts/members.py`` in packages/pocketquery-gateway). Nothing but
what is here looks into it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol

from pocketquery.client.offer import Offer
from pocketquery.client.private.messages import Stage
from pocketquery.client.private.transport import SecureReply, secure_records
from pocketquery.server.federation.orchestration.exchange import Arrival, Exchange
from pocketquery.server.federation.rounds.open_round import OpenRound
from pocketquery.server.private.secure_round import announcement

__all__ = ["DeviceMembers", "Members"]


class Members(Protocol):
    """Asks the devices of a private round, and yields their replies."""

    @property
    def vouched(self) -> bool:
        """Whether the first stage's reply is a certificate alone, because who relays it has seen
        the device's proof."""

    def offer(self, opened: OpenRound, offer: Offer, nodes: Sequence[int]) -> None:
        """Ask who takes part, for the first stage.

        Args:
            opened: the round; who is ready already is not asked for again.
            offer: what devices train on.
            nodes: those connected.
        """

    def ask(
        self, messages: Iterable[tuple[int, bytes]], number: int, stage: Stage, seconds: float
    ) -> None:
        """Send members their messages of one stage of round ``number``.

        Args:
            messages: member and body.
            number: of the round.
            stage: a later one than the first.
            seconds: for which replies may come.
        """

    def arrivals(self, is_over: Callable[[], bool]) -> Iterator[Arrival[SecureReply]]:
        """Replies as they come, until nobody is left to reply or ``is_over``; ``node`` is the
        member.

        Raises:
            OSError, httpx.HTTPError: the connection to the SuperLink fails. No reply raises.
        """


class DeviceMembers:
    """Devices that are nodes.

    Args:
        exchange: how nodes are asked.
    """

    vouched = False

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange

    def offer(self, opened: OpenRound, offer: Offer, nodes: Sequence[int]) -> None:
        """See :class:`Members`."""
        secure = opened.secure
        assert secure is not None
        announced = announcement(secure.settings, secure.key.public).to_bytes()
        content, ready = secure_records(Stage.OFFER, announced, offer), secure.ready
        chosen = self._exchange.drawn(offer.round, nodes, opened.asked)
        asked = [(node, content) for node in chosen if node not in ready]
        seconds = opened.settings.deadline_seconds
        self._exchange.ask_stage(asked, offer.round, Stage.OFFER, seconds)

    def ask(
        self, messages: Iterable[tuple[int, bytes]], number: int, stage: Stage, seconds: float
    ) -> None:
        """See :class:`Members`."""
        contents = ((node, secure_records(stage, body)) for node, body in messages)
        self._exchange.ask_stage(contents, number, stage, seconds)

    def arrivals(self, is_over: Callable[[], bool]) -> Iterator[Arrival[SecureReply]]:
        """See :class:`Members`."""
        return self._exchange.stage_arrivals(is_over)

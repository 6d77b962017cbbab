"""The devices of a private round behind gateways, one by one, as private_members.py has it.

What goes to the devices of one gateway goes to its node as one message, a
:class:`~pocketquery_gateway.cohorts.stage_bundle.StageBundle`, and so do the replies. A
gateway answers once all of them have replied, or after a quarter of the stage's time with those
that have; then it is asked for the others. So a device that is gone does not hold up what the
others said, and what came is in the journal early.

A member is the gateway's node and the device's seat there. A gateway speaks for its own devices
alone: who answers is what Flower says of the reply, and seats that were not asked are not heard.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

from pocketquery.client.offer import Offer
from pocketquery.client.private.messages import Stage
from pocketquery.client.private.transport import SecureReply
from pocketquery.server.federation.orchestration.clock import Clock
from pocketquery.server.federation.orchestration.exchange import Arrival
from pocketquery.server.federation.rounds.open_round import OpenRound
from pocketquery_gateway.cohorts.cohort_offer import cohort_offers, seconds_to_answer
from pocketquery_gateway.cohorts.exchange import GatewayExchange
from pocketquery_gateway.cohorts.records import GatewayReply
from pocketquery_gateway.cohorts.stage_bundle import MOST_SEATS, StageBundle

__all__ = ["GatewayMembers", "member_of"]

_TURNS = 4  # of a stage's time
_LEAST_TURN = 0.5  # seconds

_log = logging.getLogger(__name__)


def member_of(node: int, seat: int) -> int:
    """The member that is in this seat of a gateway."""
    return node * MOST_SEATS + seat


class GatewayMembers:
    """Devices behind gateways.

    Args:
        exchange: how gateways are asked.
        clock: for the turns of a stage.
    """

    vouched = True  # a gateway gives no seat without the proof

    def __init__(self, exchange: GatewayExchange, clock: Clock) -> None:
        self._exchange = exchange
        self._clock = clock
        self._number = 0
        self._stage = Stage.OFFER
        self._ready: Collection[int] = ()
        self._most: dict[int, int] = {}  # in the first stage: devices that a gateway may bring
        self._asked: dict[int, dict[int, bytes]] = {}  # later: who has not replied, by node
        self._turns: dict[int, int] = {}  # that a gateway had in this stage
        self._end = self._turn = 0.0

    def offer(self, opened: OpenRound, offer: Offer, nodes: Sequence[int]) -> None:
        """See :class:`~pocketquery.server.federation.orchestration.private_members.Members`."""
        assert opened.secure is not None
        asked = cohort_offers(opened, offer, nodes)
        self._number, self._stage, self._asked = offer.round, Stage.OFFER, {}
        self._ready = opened.secure.ready
        self._most = {node: one.asked for node, one in asked.items()}
        self._exchange.ask_cohorts(asked.items(), opened.settings.deadline_seconds)

    def ask(
        self, messages: Iterable[tuple[int, bytes]], number: int, stage: Stage, seconds: float
    ) -> None:
        """See :class:`~pocketquery.server.federation.orchestration.private_members.Members`."""
        self._number, self._stage, self._asked, self._turns = number, stage, {}, {}
        for member, body in messages:
            node, seat = divmod(member, MOST_SEATS)
            self._asked.setdefault(node, {})[seat] = body
        self._end = self._clock.now() + seconds_to_answer(seconds)
        self._turn = seconds / _TURNS
        self._exchange.ask_relays(self._bundles(self._asked), number, stage, seconds)

    def arrivals(self, is_over: Callable[[], bool]) -> Iterator[Arrival[SecureReply]]:
        """See :class:`~pocketquery.server.federation.orchestration.private_members.Members`."""
        for arrival in self._exchange.relay_arrivals(is_over):
            if arrival.late:  # what it holds was asked for anew since, or is not awaited any more
                continue
            replies = list(self._replies(arrival.node, arrival.reply))
            for member, reply in replies:
                yield Arrival(reply, False, member)
            if self._asked.get(arrival.node):
                self._ask_again(arrival.node)

    def _replies(
        self, node: int, reply: GatewayReply[StageBundle]
    ) -> Iterator[tuple[int, SecureReply]]:
        """What one gateway's answer holds of what it was asked for, by member."""
        bundle = reply.content
        if bundle is None or (bundle.round, bundle.stage) != (self._number, self._stage):
            why = reply.failed or "what it answered is of another round or stage"
            _log.warning("round %d: a gateway failed: %s", self._number, why)
            yield member_of(node, 0), SecureReply(0, None, why)
            return
        waiting = self._asked.get(node, {})
        for seat, body in sorted(bundle.bodies.items())[: self._most.get(node)]:
            member = member_of(node, seat)
            if member not in self._ready if self._stage is Stage.OFFER else seat in waiting:
                waiting.pop(seat, None)
                yield member, SecureReply(self._stage, body)
        declined = min(bundle.declined, self._most.get(node, 0))
        gone = [seat for seat in bundle.gone if waiting.pop(seat, None) is not None]
        for _ in range(declined if self._stage is Stage.OFFER else len(gone)):
            yield member_of(node, 0), SecureReply(0, None)

    def _ask_again(self, node: int) -> None:
        """Ask a gateway for those who have not replied, where there is time for a turn, also one
        that failed; not without end where it answers at once, and with nobody."""
        self._turns[node] = self._turns.get(node, 0) + 1
        time_left = self._end - self._clock.now()
        if time_left >= _LEAST_TURN and self._turns[node] < 2 * _TURNS:
            contents = self._bundles({node: self._asked[node]})
            self._exchange.ask_relays(contents, self._number, self._stage, time_left, more=True)

    def _bundles(self, asked: dict[int, dict[int, bytes]]) -> Iterator[tuple[int, StageBundle]]:
        seconds = max(_LEAST_TURN, min(self._turn, self._end - self._clock.now()))
        for node, bodies in asked.items():
            yield node, StageBundle(self._number, self._stage, dict(bodies), seconds)

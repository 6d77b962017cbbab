"""Buffered asynchronous rounds: for fleets that never stand still.

A synchronous round waits for the slowest of the devices that it needs, and throws away what comes
later. Here a fixed number of devices trains all the time: whoever has replied, declined, failed or
taken too long is replaced by another, who gets the release in force. What comes goes into the
buffer, whichever release it began from, divided by sqrt(1 + how many releases that is behind); what
is further behind than the settings allow is quarantined as stale. With ``clients_per_round``
updates the buffer is full: the round is closed, judged and released as any other, and the devices
that are training meanwhile train on.

The buffer is the open round of the journal: running sums and nonces, one transaction an update. A
server that was killed goes on with the same buffer; messages that were on their way then are lost
with its run, and other devices are asked.

Through gateways a step is a round of cohorts, see cohort_driver.py.

Source: Nguyen et al., "Federated Learning with Buffered Asynchronous Aggregation" (AISTATS 2022).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace

from pocketquery.client.offer import Offer
from pocketquery.client.records import Reply
from pocketquery.server.federation.orchestration.exchange import Arrival, Exchange
from pocketquery.server.federation.orchestration.journal import Journal
from pocketquery.server.federation.rounds.open_round import OpenRound
from pocketquery.server.federation.rounds.round_report import RoundReport

__all__ = ["BufferedDriver"]

Take = Callable[[RoundReport, Arrival[Reply]], RoundReport]


class BufferedDriver:
    """Keeps devices training and fills the buffer.

    Args:
        exchange: how devices are asked; it remembers who is training over the rounds.
        journal: what is known of the rounds.
        show: told of every change of the running round's report.
    """

    def __init__(
        self,
        exchange: Exchange,
        journal: Journal,
        show: Callable[[RoundReport], None] = lambda report: None,
    ) -> None:
        self._exchange = exchange
        self._journal = journal
        self._show = show

    def run(
        self, heard: RoundReport, opened: OpenRound, offer: Offer, nodes: Sequence[int], take: Take
    ) -> RoundReport:
        """What was heard until the buffer is full, or nobody is left to ask or to wait for; in the
        journal when this returns.

        Args:
            heard: the running report.
            opened: the open round.
            offer: of the release in force.
            nodes: the devices. Each is asked once a round at most: asked twice in one, it would
                send the same update again.
            take: puts one reply in the journal.
        """
        left = deque(self._exchange.drawn(offer.round, nodes, len(nodes)))
        heard = self._top_up(replace(heard, asked=0), opened, offer, left)
        while not self._is_full() and self._exchange.in_flight():
            for arrival in self._exchange.arrivals(self._is_late):
                heard = take(heard, arrival)
                if self._is_full():
                    break
                heard = self._top_up(heard, opened, offer, left)
                self._show(heard)
            if lost := self._exchange.give_up():
                heard = replace(heard, failed=heard.failed + lost)
            if not self._is_full():
                heard = self._top_up(heard, opened, offer, left)
            self._show(heard)
        return heard

    def _top_up(
        self, heard: RoundReport, opened: OpenRound, offer: Offer, left: deque[int]
    ) -> RoundReport:
        """``heard`` after as many more were asked as may train at once."""
        training = self._exchange.in_flight()
        asked: list[int] = []
        while left and len(training) + len(asked) < opened.settings.at_once():
            if (node := left.popleft()) not in training:
                asked.append(node)
        if asked:
            self._exchange.ask_also(offer, asked, opened.settings.deadline_seconds)
        return replace(heard, asked=heard.asked + len(asked))

    def _is_full(self) -> bool:
        opened = self._journal.open_round
        return opened is None or opened.is_full

    def _is_late(self) -> bool:
        """Whether somebody has taken too long: then the arrivals end, and others are asked."""
        return self._exchange.is_over_time()

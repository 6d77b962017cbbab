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

Through gateways a step is a round of cohorts, see packages/pocketquery-gateway.

Source: Nguyen et al., "Federated Learning with Buffered Asynchronous Aggregation" (AISTATS 2022).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace

from pocketquery.client.offer import Offer
from pocketquery.server.federation.orchestration.exchange import Exchange
from pocketquery.server.federation.orchestration.journal import Journal
from pocketquery.server.federation.orchestration.replies import Replies
from pocketquery.server.federation.rounds.open_round import OpenRound
from pocketquery.server.federation.rounds.round_report import RoundReport

__all__ = ["fill_buffer"]


def fill_buffer(
    report: RoundReport,
    opened: OpenRound,
    offer: Offer,
    nodes: Sequence[int],
    exchange: Exchange,
    journal: Journal,
    replies: Replies,
    show: Callable[[RoundReport], None],
) -> RoundReport:
    """``report`` once the buffer is full, or nobody is left to ask or to wait for.

    Args:
        report: the running report.
        opened: the open round.
        offer: of the release in force.
        nodes: the devices. Each is asked once a round at most: asked twice in one, it would send
            the same update again.
        exchange: how devices are asked; it remembers who is training over the rounds.
        journal: has the buffer.
        replies: takes each reply.
        show: told of every change of the report.
    """
    waiting = deque(exchange.drawn(offer.round, nodes, len(nodes)))

    def is_full() -> bool:
        return journal.open_round is None or journal.open_round.is_full

    def topped_up(report: RoundReport) -> RoundReport:
        """``report`` after as many more were asked as may train at once."""
        training = exchange.in_flight()
        asked: list[int] = []
        while waiting and len(training) + len(asked) < opened.settings.at_once():
            if (node := waiting.popleft()) not in training:
                asked.append(node)
        if asked:
            exchange.ask_also(offer, asked, opened.settings.deadline_seconds)
        return replace(report, asked=report.asked + len(asked))

    report = topped_up(replace(report, asked=0))
    while not is_full() and exchange.in_flight():
        for arrival in exchange.arrivals(exchange.is_over_time):  # then others are asked
            report = replies.take(report, arrival)
            if is_full():
                break
            report = topped_up(report)
            show(report)
        if gone := exchange.give_up():
            report = replace(report, failed=report.failed + gone)
        if not is_full():
            report = topped_up(report)
        show(report)
    return report

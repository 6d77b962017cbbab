"""A round from the first question to the release.

The journal remembers, the publisher judges; between them a round is six steps on one page. Killed
at any of them and called again, it goes on with the same round: devices that had replied give the
same update again, which is known by its nonce and not counted twice.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

from pocketquery.client.device import Offer
from pocketquery.client.local_config import LocalConfig
from pocketquery.client.records import Reply
from pocketquery.server.federation.round_row import RoundRow
from pocketquery.server.federation.rounds.clock import Clock
from pocketquery.server.federation.rounds.exchange import Arrival, Exchange
from pocketquery.server.federation.rounds.journal import Journal
from pocketquery.server.federation.rounds.open_round import OpenRound
from pocketquery.server.federation.rounds.settings import RoundSettings
from pocketquery.server.federation.rounds.state import FederationState
from pocketquery.server.federation.rounds.validation import Valid, validate

__all__ = ["Decision", "Driver", "Publisher"]

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Decision:
    """What became of a candidate.

    Attributes:
        accepted: whether it is the release in force.
        version: the release in force from now on.
        report: what the gate found, see :class:`RoundRow`; None where it did not judge.
        skipped: why it was not judged, where it should have been.
    """

    accepted: bool
    version: str
    report: Mapping[str, Any] | None
    skipped: str | None = None


class Publisher(Protocol):
    """Where releases lie, and who decides on new ones."""

    def in_force(self, state: FederationState) -> FederationState:
        """``state`` on the release in force, which may be an older one: rolled back to."""

    def release(self, version: str) -> bytes:
        """The file of a release."""

    def decide(self, state: FederationState, candidate: FederationState) -> Decision:
        """Judge ``candidate``, made from ``state``, and publish it; the same one only once."""


class Driver:
    """Drives the rounds of one federation.

    Args:
        exchange: how devices are asked.
        journal: what is known of the rounds.
        publisher: gate and releases.
        first: the state before the first round, where the journal holds none.
        settings: of the rounds.
        local: how devices train.
        compress: whether updates travel in 8 bits.
        clock: this machine's, or a simulation's.
        show: told of every change of the running round's row.
        keep: told of a row before what it says becomes final, so that a kill loses none.
    """

    def __init__(
        self,
        exchange: Exchange,
        journal: Journal,
        publisher: Publisher,
        first: FederationState,
        *,
        settings: RoundSettings,
        local: LocalConfig,
        clock: Clock,
        compress: bool = True,
        show: Callable[[RoundRow], None] = lambda row: None,
        keep: Callable[[RoundRow], None] = lambda row: None,
    ) -> None:
        self._exchange = exchange
        self._journal = journal
        self._publisher = publisher
        self._first = first
        self._settings = settings
        self._local = local
        self._clock = clock
        self._compress = compress
        self._show = show
        self._keep = keep

    @property
    def next_round(self) -> int:
        """The number of the round that :meth:`run_round` begins or goes on with."""
        if self._journal.candidate is not None:
            return self._journal.candidate.round - 1
        return (self._journal.state or self._first).round

    def run_round(self, row: RoundRow | None = None) -> RoundRow:
        """One round, or the rest of the one that was going on.

        Args:
            row: what was kept of it, where a kill interrupted it.

        Returns:
            Its row.

        Raises:
            ArtifactError: too few devices connected, or the disk fails; call again to go on.
        """
        # 1. A round that was closed before a kill is only to be decided on.
        if self._journal.candidate is not None:
            return self._decide(row or self._lost_row())
        # 2. Open it, or go on with the open one.
        started = self._clock.now()
        nodes = self._exchange.connected(self._settings.least_replies)
        known = self._already_in()
        opened = self._journal.open_round or self._begin(len(nodes))
        row = RoundRow(opened.state.round, opened.state.version, asked=opened.asked)
        self._show(row)
        # 3. Ask.
        offer = self._offer(opened)
        self._exchange.ask(offer, nodes, opened.asked, opened.settings.deadline_seconds)
        # 4. Take replies as they come.
        row = replace(self._collect(row, known), seconds=self._clock.now() - started)
        self._keep(row)
        # 5. Close.
        _, report = self._journal.close()
        if report.skipped is not None:
            return self._finish(replace(row, skipped=report.skipped, version=row.base_version))
        # 6. Judge and release.
        return self._decide(row)

    def _begin(self, connected: int) -> OpenRound:
        state = self._publisher.in_force(self._journal.state or self._first)
        asked = min(self._settings.asked(), connected)
        return self._journal.begin(state, self._settings, asked=asked, now=self._clock.now())

    def _offer(self, opened: OpenRound) -> Offer:
        return Offer(
            round=opened.state.round,
            release=self._publisher.release(opened.state.version),
            config=self._local,
            clip_norm=opened.settings.clip_norm,
            largest_weight=opened.settings.largest_weight,
            compress=self._compress,
        )

    def _already_in(self) -> set[str]:
        """The nonces in the sum of a round that is resumed."""
        opened = self._journal.open_round
        return {nonce.hex() for nonce in opened.nonces} if opened is not None else set()

    def _collect(self, row: RoundRow, known: set[str]) -> RoundRow:
        enough = min(self._settings.clients_per_round, row.asked)
        for arrival in self._exchange.arrivals(self._is_over):
            row = self._take(row, arrival, known)
            self._show(row)
            if row.accepted >= enough:
                break
        return row

    def _is_over(self) -> bool:
        opened = self._journal.open_round
        return opened is None or opened.is_over(self._clock.now())

    def _take(self, row: RoundRow, arrival: Arrival[Reply], known: set[str]) -> RoundRow:
        """The row after one reply, which is in the journal when this returns."""
        reply = arrival.reply
        if reply.update is None:
            if arrival.late:  # counted when its round was
                return row
            if reply.failed is None:
                return replace(row, declined=row.declined + 1)
            return replace(row, failed=row.failed + 1)
        if known and (nonce := self._nonce(reply.update)) in known:  # in the sum before the kill
            known.remove(nonce)
            return row.with_accepted(reply.figures)
        receipt = self._journal.receive(reply.update, self._clock.now(), late=arrival.late)
        if receipt.reason is not None:
            _log.info(
                "round %d: quarantined, %s: %s", row.round, receipt.reason.value, receipt.detail
            )
            return row.with_quarantined(receipt.reason.value)
        return row.with_accepted(reply.figures)

    def _nonce(self, update: bytes) -> str:
        """The nonce of an update that the open round could take; else empty."""
        opened = self._journal.open_round
        found = None if opened is None else validate(update, opened.expected)
        return found.header.nonce if isinstance(found, Valid) else ""

    def _decide(self, row: RoundRow) -> RoundRow:
        state, candidate = self._journal.state, self._journal.candidate
        assert state is not None
        assert candidate is not None
        row = replace(row, fallback=self._journal.reports()[-1].fallback)
        if row.fallback is not None:
            _log.info("round %d: %s", row.round, row.fallback)
        decision = self._publisher.decide(state, candidate)
        row = replace(row, gate=decision.report, version=decision.version, skipped=decision.skipped)
        self._keep(row)
        released = candidate.released(decision.version)
        self._journal.settle(released if decision.accepted else state.rejected(candidate))
        self._show(row)
        return row

    def _finish(self, row: RoundRow) -> RoundRow:
        self._keep(row)
        self._show(row)
        return row

    def _lost_row(self) -> RoundRow:
        """The row of a round whose row was not kept: what the journal knows of it."""
        report = self._journal.reports()[-1]
        return RoundRow(
            report.round,
            report.base_version,
            asked=report.asked,
            accepted=report.accepted,
            quarantined=report.quarantined,
        )

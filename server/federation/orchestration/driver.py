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

from pocketquery.client.local_config import LocalConfig
from pocketquery.client.offer import Offer
from pocketquery.client.records import Reply
from pocketquery.sdk.errors import InvalidInputError
from pocketquery.server.federation.orchestration.buffered import BufferedDriver
from pocketquery.server.federation.orchestration.clock import Clock
from pocketquery.server.federation.orchestration.cohort_driver import CohortDriver
from pocketquery.server.federation.orchestration.exchange import Arrival, Exchange
from pocketquery.server.federation.orchestration.journal import Journal
from pocketquery.server.federation.orchestration.secure_driver import SecureDriver
from pocketquery.server.federation.rounds.open_round import OpenRound
from pocketquery.server.federation.rounds.round_report import RoundReport
from pocketquery.server.federation.rounds.settings import RoundSettings
from pocketquery.server.federation.rounds.state import FederationState
from pocketquery.server.federation.rounds.validation import Valid, validate
from pocketquery.server.private.settings import SecureSettings

__all__ = ["Decision", "Driver", "Publisher"]

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Decision:
    """What became of a candidate.

    Attributes:
        accepted: whether it is the release in force.
        version: the release in force from now on.
        report: what the gate found, see :class:`RoundReport`; None where it did not judge.
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

    def lineage(self) -> bytes:
        """Signed statements of what is in force; empty where nobody signs."""

    def decide(
        self,
        state: FederationState,
        candidate: FederationState,
        privacy: Mapping[str, Any] | None = None,
    ) -> Decision:
        """Judge ``candidate``, made from ``state``, and publish it; the same one only once. What it
        has cost in ``privacy`` goes with the release."""


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
        secure: where rounds are private ones, how, and what drives their stages.
        cohorts: where nodes are gateways, what asks them.
        show: told of every change of the running round's report.
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
        secure: tuple[SecureSettings, SecureDriver] | None = None,
        cohorts: CohortDriver | None = None,
        show: Callable[[RoundReport], None] = lambda report: None,
    ) -> None:
        self._exchange = exchange
        self._journal = journal
        self._publisher = publisher
        self._first = first
        self._settings = settings
        self._local = local
        self._clock = clock
        self._compress = compress
        self._secure = secure
        self._cohorts = cohorts
        self._show = show
        self._buffered = BufferedDriver(exchange, journal, show)

    @property
    def next_round(self) -> int:
        """The number of the round that :meth:`run_round` begins or goes on with."""
        if self._journal.candidate is not None:
            return self._journal.candidate.round - 1
        return (self._journal.state or self._first).round

    def run_round(self) -> RoundReport:
        """One round, or the rest of the one that was going on; its report.

        Raises:
            ArtifactError: too few devices connected, or the disk fails; call again to go on.
            InvalidInputError: the open one was begun as a plain one, and rounds are private now, or
                the other way round.
        """
        # 1. A round that was closed before a kill is only to be decided on.
        if self._journal.candidate is not None:
            return self._decide()
        # 2. Open it, or go on with the open one.
        started = self._clock.now()
        nodes = self._connected()
        known = self._already_in()
        opened = self._journal.open_round or self._begin(len(nodes))
        heard = RoundReport(opened.state.round, opened.state.version, asked=opened.asked)
        self._show(heard)
        # 3. Ask, and take replies as they come.
        heard = self._hear(heard, opened, nodes, known)
        # 4. That took so long.
        heard = replace(heard, seconds=self._clock.now() - started)
        # 5. Close.
        _, report = self._journal.close(heard)
        if report.skipped is not None:
            self._show(report)
            return report
        # 6. Judge and release.
        return self._decide()

    def announce(self) -> None:
        """Tell gateways, where nodes are some, what is in force."""
        if self._cohorts is not None:
            state = self._publisher.in_force(self._journal.state or self._first)
            release = self._publisher.release(state.version)
            self._cohorts.announce(release, self._publisher.lineage(), self._connected())

    def _connected(self) -> list[int]:
        least = self._settings.least_replies if self._cohorts is None else self._cohorts.gateways
        return self._exchange.connected(least)

    def _begin(self, connected: int) -> OpenRound:
        state, secure = self._publisher.in_force(self._journal.state or self._first), None
        asked = self._settings.asked()
        if self._cohorts is None and not self._settings.is_buffered:
            asked = min(asked, connected)
        if self._secure is not None:
            settings, driver = self._secure
            size = sum(value.size for value in state.adapter.values())
            offer = self._offer(state, self._settings)
            driver.check(settings, offer, size, self._settings.clients_per_round)
            secure = driver.begin(settings, state.round)
        now = self._clock.now()
        return self._journal.begin(state, self._settings, asked=asked, now=now, secure=secure)

    def _offer(self, state: FederationState, settings: RoundSettings) -> Offer:
        return Offer(
            round=state.round,
            release=self._publisher.release(state.version),
            config=self._local,
            clip_norm=settings.clip_norm,
            largest_weight=settings.largest_weight,
            compress=self._compress,
            lineage=self._publisher.lineage(),
        )

    def _hear(
        self, heard: RoundReport, opened: OpenRound, nodes: list[int], known: set[str]
    ) -> RoundReport:
        """The replies of ``nodes``, which are in the journal when this returns."""
        number = opened.state.round
        if opened.secure is None and self._secure is not None:
            raise InvalidInputError(
                f"round {number} was begun as a plain one, whose changes the server reads; finish "
                f"it with secure off, with rounds {number + 1}, then go on with secure on"
            )
        offer = self._offer(opened.state, opened.settings)
        if opened.secure is None and self._cohorts is not None:
            return self._cohorts.run(heard, opened, offer, nodes)
        if opened.secure is None and opened.settings.is_buffered:
            return self._buffered.run(
                heard, opened, offer, nodes, lambda so_far, one: self._take(so_far, one, known)
            )
        if opened.secure is None:
            self._exchange.ask(offer, nodes, opened.asked, opened.settings.deadline_seconds)
            return self._collect(heard, known)
        if self._secure is None:
            raise InvalidInputError(
                f"round {number} was begun as a private one; go on with secure on"
            )
        return self._secure[1].run(heard, offer, nodes)

    def _already_in(self) -> set[str]:
        """The nonces in the sum of a round that is resumed."""
        opened = self._journal.open_round
        return {nonce.hex() for nonce in opened.nonces} if opened is not None else set()

    def _collect(self, heard: RoundReport, known: set[str]) -> RoundReport:
        enough = min(self._settings.clients_per_round, heard.asked)
        for arrival in self._exchange.arrivals(self._is_over):
            heard = self._take(heard, arrival, known)
            self._show(heard)
            if heard.accepted >= enough:
                break
        return heard

    def _is_over(self) -> bool:
        opened = self._journal.open_round
        return opened is None or opened.is_over(self._clock.now())

    def _take(self, heard: RoundReport, arrival: Arrival[Reply], known: set[str]) -> RoundReport:
        """What was heard after one reply, which is in the journal when this returns."""
        reply = arrival.reply
        if reply.update is None:
            if arrival.late:  # counted when its round was
                return heard
            if reply.failed is None:
                return replace(heard, declined=heard.declined + 1)
            return replace(heard, failed=heard.failed + 1)
        if known and (nonce := self._nonce(reply.update)) in known:  # in the sum before the kill
            known.remove(nonce)
            return heard.with_accepted(reply.figures)
        receipt = self._journal.receive(reply.update, self._clock.now(), late=arrival.late)
        if receipt.reason is not None:
            _log.info(
                "round %d: quarantined, %s: %s", heard.round, receipt.reason.value, receipt.detail
            )
            return heard.with_quarantined(receipt.reason.value)
        return heard.with_accepted(reply.figures)

    def _nonce(self, update: bytes) -> str:
        """The nonce of an update that the open round could take; else empty."""
        opened = self._journal.open_round
        found = None if opened is None else validate(update, opened.expected)
        return found.header.nonce if isinstance(found, Valid) else ""

    def _decide(self) -> RoundReport:
        """Judge the candidate; the round's report, final."""
        state, candidate = self._journal.state, self._journal.candidate
        assert state is not None
        assert candidate is not None
        report = self._journal.reports()[-1]
        if report.fallback is not None:
            _log.info("round %d: %s", report.round, report.fallback)
        found = self._publisher.decide(state, candidate, report.privacy)
        report = replace(report, gate=found.report, version=found.version, skipped=found.skipped)
        released = candidate.released(found.version)
        self._journal.settle(released if found.accepted else state.rejected(candidate), report)
        self._show(report)
        return report

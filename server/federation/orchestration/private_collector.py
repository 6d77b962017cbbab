"""Collects a private round, in which nobody sees a single change.

The five stages are those of private/stages.py, begun within the season's budget. They see the open
round of the journal: each step is written down, sums become shards, and what devices say is counted
in the report.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pocketquery.client.offer import Offer
from pocketquery.client.private.messages import Stage
from pocketquery.client.private.transport import SecureReply
from pocketquery.server.federation.orchestration.clock import Clock
from pocketquery.server.federation.orchestration.exchange import Arrival, Exchange
from pocketquery.server.federation.orchestration.journal import Journal
from pocketquery.server.federation.orchestration.private_members import Members
from pocketquery.server.federation.rounds.open_round import OpenRound
from pocketquery.server.federation.rounds.options import FederationOptions
from pocketquery.server.federation.rounds.round_report import RoundReport
from pocketquery.server.federation.rounds.running_sum import RunningSum
from pocketquery.server.federation.rounds.settings import RoundSettings
from pocketquery.server.federation.rounds.state import FederationState
from pocketquery.server.private import budget
from pocketquery.server.private.budget import Charge
from pocketquery.server.private.coordinator import SecureReason
from pocketquery.server.private.secure_round import Environment, SecureRound, SumGroup
from pocketquery.server.private.stages import PrivateStages
from pocketquery.server.private.unmasking import Unmasked, norm_limit

__all__ = ["PrivateCollector"]


class PrivateCollector:
    """Runs the stages; a :class:`~pocketquery.server.federation.rounds.parts.Collector`, and to the
    stages a :class:`~pocketquery.server.private.open_round.Round`, the one that is open in the
    journal.

    Args:
        exchange: how nodes are asked.
        journal: what is known of the rounds.
        members: how devices are asked.
        clock: for deadlines.
        options: of the federation.
        environment: random bytes and the time of day.
        show: told of every change of the round's report.
    """

    def __init__(
        self,
        exchange: Exchange,
        journal: Journal,
        members: Members,
        clock: Clock,
        options: FederationOptions,
        environment: Environment,
        show: Callable[[RoundReport], None] = lambda report: None,
    ) -> None:
        self._exchange = exchange
        self._journal = journal
        self._members = members
        self._clock = clock
        self._options = options
        self._show = show
        self._report: RoundReport | None = None  # of the running round
        self._stages = PrivateStages(self, clock, environment)

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
        self._report = report
        self._stages.run(offer, nodes)
        return self._report

    # What the stages see

    @property
    def opened(self) -> OpenRound:
        """The open round."""
        opened = self._journal.open_round
        assert opened is not None
        return opened

    @property
    def secure(self) -> SecureRound:
        """What is known of it as a private one."""
        secure = self.opened.secure
        assert secure is not None
        return secure

    @property
    def number(self) -> int:
        """Of the round."""
        return self.opened.state.round

    @property
    def enough(self) -> int:
        """Ready devices that need no more to be waited for."""
        return min(self.opened.settings.clients_per_round, self.opened.asked)

    @property
    def size(self) -> int:
        """Values of a change."""
        return sum(value.size for value in self.opened.state.adapter.values())

    @property
    def vouched(self) -> bool:
        """See :class:`Members`."""
        return self._members.vouched

    def is_over(self) -> bool:
        """Whether it is too late to be ready."""
        return self.opened.is_over(self._clock.now())

    def charges(self) -> list[Charge]:
        """The rows of the privacy ledger."""
        return self._journal.charges()

    def offer(self, offer: Offer, nodes: Sequence[int]) -> None:
        """Ask who takes part."""
        self._members.offer(self.opened, offer, nodes)

    def ask(self, messages: Iterable[tuple[int, bytes]], stage: Stage, seconds: float) -> None:
        """Send members their messages of a later stage."""
        self._members.ask(messages, self.number, stage, seconds)

    def arrivals(self, is_over: Callable[[], bool]) -> Iterator[Arrival[SecureReply]]:
        """Replies as they come."""
        return self._members.arrivals(is_over)

    def advance(
        self,
        secure: SecureRound,
        left_out: Mapping[SecureReason, int],
        *,
        charge: Charge | None = None,
        sums: Mapping[int, tuple[SumGroup, Unmasked]] | None = None,
    ) -> None:
        """See :class:`~pocketquery.server.private.open_round.Round`."""
        opened, now = _with_sums(self.opened, sums or {}), self._clock.now()
        if secure.stage is Stage.OFFER and not secure.stages:  # the first stage's deadline counts
            opened = replace(opened, elapsed=opened.elapsed_at(now), last_now=now)
        opened = opened.with_quarantined({one.value: count for one, count in left_out.items()})
        self._journal.advance(replace(opened, secure=secure), charge=charge)

    def show(self, *, declined: int, failed: int) -> None:
        """Bring the report up to date, with what the journal knows, which a kill does not change;
        and show it."""
        assert self._report is not None
        secure, stages = self.secure, self.secure.stages
        self._report = replace(
            self._report,
            accepted=stages.get("survivors", stages.get("ready", len(secure.ready))),
            declined=declined,
            failed=failed,
            quarantined=dict(sorted(self.opened.quarantined.items())),
            stages=stages,
            privacy=self._spent() if stages else None,  # it takes a while
        )
        self._show(self._report)

    def _spent(self) -> dict[str, Any] | None:
        """What the season has cost, against who sees the releases or the sums; None without
        noise."""
        settings = self.secure.settings
        if not settings.is_noisy:
            return None
        spent = budget.spent(self.charges()).get(settings.season)
        if spent is None:
            return None
        return {
            "season": settings.season,
            "rounds": spent.rounds,
            "participations": spent.participations,
            "epsilon": round(spent.epsilon("H", settings.delta), 4),
            "delta": settings.delta,
        }


def _with_sums(opened: OpenRound, sums: Mapping[int, tuple[SumGroup, Unmasked]]) -> OpenRound:
    """``opened`` with the groups' sums as its shards, and what its step may be.

    With noise, the mean is over the devices that were wanted, for how many survived is not to
    change what one of them can move.
    """
    if not sums:
        return opened
    assert opened.secure is not None
    settings, shards = opened.settings, list(opened.shards)
    wanted = settings.clients_per_round if opened.secure.settings.is_noisy else None
    largest_step = settings.largest_step or 0.0
    for number, (group, result) in sums.items():
        exponent, count = group.sum.binding.encoding.exponent, len(result.survivors)
        shards[number] = RunningSum.of_totals(
            result.totals, exponent, count, shares=wanted, bits=settings.bits()
        )
        largest_step = max(largest_step, norm_limit(group.sum))
    settings = replace(settings, largest_step=largest_step)
    return replace(opened, shards=tuple(shards), settings=settings)

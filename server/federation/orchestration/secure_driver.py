"""The five stages of a private round: what driver.py asks where it may not see single
changes.

Every step is a function of values (private/secure_round.py, private/coordinator.py) and is in the
journal before the next message leaves. Killed at any moment and called again, it asks those who are
missing in the stage it was in; devices answer with the same bytes. Masked changes alone are asked
for anew, for none of them is ever written.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pocketquery.client.offer import Offer
from pocketquery.client.private.messages import Stage
from pocketquery.client.private.transport import SecureReply
from pocketquery.sdk.errors import InvalidInputError
from pocketquery.server.federation.orchestration.clock import Clock
from pocketquery.server.federation.orchestration.exchange import Arrival
from pocketquery.server.federation.orchestration.journal import Journal
from pocketquery.server.federation.orchestration.secure_members import Members
from pocketquery.server.federation.orchestration.secure_sums import (
    charge_of,
    left_out,
    skip,
    with_sums,
)
from pocketquery.server.federation.rounds.open_round import OpenRound
from pocketquery.server.federation.rounds.round_report import RoundReport
from pocketquery.server.private import budget
from pocketquery.server.private.coordinator import Skipped
from pocketquery.server.private.secure_round import (
    Environment,
    SecureRound,
    begin,
    close_stage,
    deal,
    planned_encoding,
    ready,
    receive,
)
from pocketquery.server.private.settings import SecureSettings
from pocketquery.server.private.unmasking import Unmasked, can_unmask, unmask

__all__ = ["BANNER", "SecureDriver"]

BANNER = "private rounds are experimental: no outside cryptographer has reviewed them"

_log = logging.getLogger(__name__)


class SecureDriver:
    """Drives the stages of private rounds.

    Args:
        members: how devices are asked.
        journal: what is known of the rounds.
        clock: for deadlines.
        environment: random bytes and the time of day.
        show: told of every change of the running round's report.
    """

    def __init__(
        self,
        members: Members,
        journal: Journal,
        clock: Clock,
        environment: Environment,
        show: Callable[[RoundReport], None],
    ) -> None:
        self._members = members
        self._journal = journal
        self._clock = clock
        self._environment = environment
        self._show = show

    def check(self, settings: SecureSettings, offer: Offer, size: int, cohort: int) -> None:
        """Refuse a round that cannot be summed, or that the season's budget has no room for, before
        it is begun.

        Args:
            settings: of the round.
            offer: what devices would train on.
            size: values of a change.
            cohort: devices wanted.

        Raises:
            InvalidInputError: no encoding fits; it would pass epsilon, or the season is over.
            MissingExtraError: dp-accounting is not installed.
        """
        planned_encoding(settings, offer, size, math.ceil(cohort / settings.groups))
        if not settings.is_noisy:
            return
        row = charge_of(settings, offer, size, cohort)
        if reason := budget.refusal(self._journal.charges(), settings.budget(), row):
            raise InvalidInputError(reason)

    def begin(self, settings: SecureSettings, number: int) -> SecureRound:
        """The round ``number`` before anybody was asked, to be written before anybody is."""
        return begin(settings, number, self._environment.source)

    def run(self, heard: RoundReport, offer: Offer, nodes: Sequence[int]) -> RoundReport:
        """Take the open round to its end, from where it is; what was heard.

        Args:
            heard: the report so far.
            offer: what devices train on.
            nodes: those connected.
        """
        if not self._secure.stages and not self._secure.finished:
            heard = self._train(heard, offer, nodes)
        while self._secure.groups and self._secure.stage is not Stage.UNMASK:
            self._run_stage(offer)
            self._show(self._heard(heard))
        if not self._secure.finished:
            self._finish(self._reveal())
        return self._heard(heard)

    # Stage 1

    def _train(self, heard: RoundReport, offer: Offer, nodes: Sequence[int]) -> RoundReport:
        """Ask who is ready, and deal them to groups; without enough of them the round ends."""
        opened = self._opened
        enough = min(opened.settings.clients_per_round, opened.asked)
        if len(self._secure.ready) < enough:
            self._members.offer(opened, offer, nodes)
            for arrival in self._members.arrivals(self._is_over):
                heard = self._take_ready(heard, arrival)
                self._show(replace(heard, accepted=len(self._secure.ready)))
                if len(self._secure.ready) >= enough:
                    break
        found = replace(self._secure, declined=heard.declined, failed=heard.failed)
        if len(found.ready) >= found.settings.least:
            size = sum(value.size for value in opened.state.adapter.values())
            found = deal(found, offer, size, self._environment)
        else:
            _log.info("round %d: %d devices were ready", offer.round, len(found.ready))
            found = replace(found, ready={}, stages={"ready": len(found.ready)})
        self._journal.advance(replace(self._opened, secure=found))
        return heard

    def _take_ready(self, heard: RoundReport, arrival: Arrival[SecureReply]) -> RoundReport:
        reply, opened = arrival.reply, self._opened
        if arrival.late:  # of the round before
            return heard
        if reply.body is None:
            if reply.failed is None:
                return replace(heard, declined=heard.declined + 1)
            return replace(heard, failed=heard.failed + 1)
        body = reply.body if reply.stage == Stage.OFFER else b""
        found, reason = ready(
            self._secure,
            arrival.node,
            body,
            opened.state.round,
            self._environment.wall(),
            vouched=self._members.vouched,
        )
        now = self._clock.now()
        opened = replace(opened, secure=found, elapsed=opened.elapsed_at(now), last_now=now)
        self._journal.advance(opened if reason is None else left_out(opened, reason))
        return heard

    # Stages 2 to 4

    def _run_stage(self, offer: Offer) -> None:
        """One stage from the question to its close."""
        stage, settings = self._secure.stage, self._secure.settings
        after = self._collect(stage, self._deadline(settings.stage_deadline), lambda found: False)
        found, skipped = close_stage(after.secure or self._secure)
        for number, one in skipped.items():
            group = self._secure.groups[number]
            after = skip(after, number, len(group.nodes), one)
        charge = None
        if stage is Stage.INVITE and found.groups and settings.is_noisy:
            (group,) = found.groups.values()
            size = group.sum.binding.encoding.size
            charge = charge_of(settings, offer, size, len(group.nodes))
        self._journal.advance(replace(after, secure=found), charge=charge)

    def _collect(
        self, stage: Stage, is_over: Callable[[], bool], is_enough: Callable[[SecureRound], bool]
    ) -> OpenRound:
        """Ask who is missing in ``stage``; the round with the replies that came."""
        opened = self._opened
        found, number = self._secure, opened.state.round
        messages = (
            (group.nodes[place], group.sum.message(place))
            for group in found.groups.values()
            for place in group.sum.waiting
        )
        seconds = found.settings.stage_deadline * (2 if stage is Stage.UNMASK else 1)
        self._members.ask(messages, number, stage, seconds)
        for arrival in self._members.arrivals(is_over):
            reply = arrival.reply
            if arrival.late or reply.body is None:
                _log.info("round %d: in stage %d a device declined or was too late", number, stage)
                continue
            after, reason = receive(found, arrival.node, reply.stage, reply.body)
            if reason is not None:
                _log.info("round %d: in stage %d a reply is %s", number, stage, reason.value)
                opened = left_out(opened, reason)
            found = after
            opened = replace(opened, secure=found)
            if stage is not Stage.COLLECT:  # no masked change is written: see private/tables.py
                self._journal.advance(opened)
            if is_enough(found):
                break
        return opened

    # Stage 5

    def _reveal(self) -> Mapping[int, Unmasked | Skipped]:
        """What became of each group that got here, by number."""
        if not self._secure.groups:
            return {}
        wait = _Shares(self._secure)
        if not wait.is_enough(self._secure):
            seconds = self._secure.settings.stage_deadline
            once, twice = self._deadline(seconds), self._deadline(2 * seconds)
            self._collect(Stage.UNMASK, lambda: once() if wait.results else twice(), wait.is_enough)
        if all(isinstance(one, Unmasked) for one in wait.results.values()) and wait.results:
            return wait.results
        return {number: unmask(group.sum) for number, group in self._secure.groups.items()}

    def _finish(self, results: Mapping[int, Unmasked | Skipped]) -> None:
        """Keep the sums and erase all that they were made of, in one transaction."""
        found, opened = self._secure, with_sums(self._opened, results)
        stages = dict(found.stages)
        if results:
            shares = (len(found.groups[number].sum.shares) for number in results)
            stages["revealed"] = sum(shares)
        done = replace(found, groups={}, stages=stages, finished=True)
        self._journal.advance(replace(opened, secure=done))

    # Where the round stands

    @property
    def _opened(self) -> OpenRound:
        opened = self._journal.open_round
        assert opened is not None
        return opened

    @property
    def _secure(self) -> SecureRound:
        found = self._opened.secure
        assert found is not None
        return found

    def _is_over(self) -> bool:
        return self._opened.is_over(self._clock.now())

    def _deadline(self, seconds: float) -> Callable[[], bool]:
        """Whether so much time has passed since this was called."""
        end = self._clock.now() + seconds
        return lambda: self._clock.now() > end

    def _heard(self, heard: RoundReport) -> RoundReport:
        """``heard`` with what the journal knows, which a kill does not change."""
        found = self._secure
        return replace(
            heard,
            accepted=found.stages.get("survivors", found.stages.get("ready", 0)),
            declined=found.declined,
            failed=found.failed,
            quarantined=dict(sorted(self._opened.quarantined.items())),
            stages=found.stages,
            privacy=self._spent(),
        )

    def _spent(self) -> dict[str, Any] | None:
        """What the season has cost, against who sees the releases or the sums; None without
        noise."""
        settings = self._secure.settings
        if not settings.is_noisy:
            return None
        seasons = budget.spent(self._journal.charges())
        if settings.season not in seasons:
            return None
        spent = seasons[settings.season]
        epsilon = spent.epsilon("H", settings.delta)
        return {
            "season": settings.season,
            "rounds": spent.rounds,
            "participations": spent.participations,
            "epsilon": round(epsilon, 4),
            "delta": settings.delta,
        }


class _Shares:
    """Whether the shares that came give every sum.

    That is looked at after every twentieth part of a group's replies: it takes a look at each pair
    of neighbours. Where a share was wrong, all that come are waited for.

    Attributes:
        results: of the groups, from when they were first unmasked.
    """

    def __init__(self, found: SecureRound) -> None:
        sizes = [len(group.sum.survivors) for group in found.groups.values()]
        self._every = max(1, sum(sizes) // 20)
        self._calls = 0
        self.results: dict[int, Unmasked | Skipped] = {}

    def is_enough(self, found: SecureRound) -> bool:
        """Whether nothing needs to be waited for."""
        sums = {number: group.sum for number, group in found.groups.items()}
        awaited = any(one.waiting for one in sums.values())
        self._calls += 1
        if self.results or (awaited and self._calls % self._every):
            return False
        if not all(can_unmask(one) for one in sums.values()):
            return False
        self.results = {number: unmask(one) for number, one in sums.items()}
        return all(isinstance(one, Unmasked) for one in self.results.values())

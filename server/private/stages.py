"""The five stages of a private round, driven from the question to the sums.

Every step is a function of values (secure_round.py, coordinator.py) and is in the journal before
the next message leaves. Killed at any moment and called again, the server asks those who are
missing in the stage it was in; devices answer with the same bytes. Masked changes alone are asked
for anew, for none of them is ever written.
"""

from __future__ import annotations

import logging
import math
import statistics
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from pocketquery.client.offer import Offer
from pocketquery.client.private.messages import Stage
from pocketquery.client.private.noise import rho
from pocketquery.client.private.transport import SecureReply
from pocketquery.sdk.errors import InvalidInputError
from pocketquery.server.private.accounting import least_honest
from pocketquery.server.private.budget import Charge, refusal
from pocketquery.server.private.coordinator import SecureReason, Skipped
from pocketquery.server.private.open_round import Clock, Round
from pocketquery.server.private.secure_round import (
    Environment,
    SecureRound,
    SumGroup,
    begin,
    close_stage,
    deal,
    planned_encoding,
    ready,
    receive,
)
from pocketquery.server.private.settings import SecureSettings
from pocketquery.server.private.unmasking import Unmasked, can_unmask, unmask

__all__ = ["BANNER", "PrivateStages", "charge_of", "without_outliers"]

BANNER = "private rounds are experimental: no outside cryptographer has reviewed them"

_OUTLIER = 2.0  # times the median of the groups' norms
_LEAST_COMPARED = 3  # groups: of two, nobody can say which is off

_log = logging.getLogger(__name__)

LeftOut = Counter[SecureReason]


class PrivateStages:
    """Drives the stages of private rounds.

    Args:
        round: the open one, whichever that is.
        clock: for deadlines.
        environment: random bytes and the time of day.
    """

    def __init__(self, round: Round, clock: Clock, environment: Environment) -> None:
        self._round = round
        self._clock = clock
        self._environment = environment

    def begin(self, settings: SecureSettings, offer: Offer, size: int, cohort: int) -> SecureRound:
        """A round before anybody was asked, to be written before anybody is.

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
        if settings.is_noisy:
            row = charge_of(settings, offer, size, cohort)
            if reason := refusal(self._round.charges(), settings.budget(), row):
                raise InvalidInputError(reason)
        return begin(settings, offer.round, self._environment.source)

    def run(self, offer: Offer, nodes: Sequence[int]) -> None:
        """Take the open round to its end, from where it is.

        Args:
            offer: what devices train on.
            nodes: those connected.
        """
        if not self._secure.stages and not self._secure.finished:
            self._train(offer, nodes)
        while self._secure.groups and self._secure.stage is not Stage.UNMASK:
            self._run_stage(offer)
            self._show()
        if not self._secure.finished:
            self._finish(self._reveal())
        self._show()

    # Stage 1

    def _train(self, offer: Offer, nodes: Sequence[int]) -> None:
        """Ask who is ready, and deal them to groups; without enough of them the round ends."""
        round, declined, failed = self._round, 0, 0
        if len(self._secure.ready) < round.enough:
            round.offer(offer, nodes)
            for arrival in round.arrivals(round.is_over):
                reply = arrival.reply
                if not arrival.late and reply.body is None:
                    declined += reply.failed is None
                    failed += reply.failed is not None
                elif not arrival.late:
                    self._take_ready(arrival.node, reply)
                round.show(declined=declined, failed=failed)
                if len(self._secure.ready) >= round.enough:
                    break
        secure = replace(self._secure, declined=declined, failed=failed)
        if len(secure.ready) >= secure.settings.least:
            secure = deal(secure, offer, round.size, self._environment)
        else:
            _log.info("round %d: %d devices were ready", offer.round, len(secure.ready))
            secure = replace(secure, ready={}, stages={"ready": len(secure.ready)})
        round.advance(secure, {})

    def _take_ready(self, node: int, reply: SecureReply) -> None:
        secure, reason = ready(
            self._secure,
            node,
            reply.body if reply.body and reply.stage == Stage.OFFER else b"",
            self._round.number,
            self._environment.wall(),
            vouched=self._round.vouched,
        )
        self._round.advance(secure, {} if reason is None else {reason: 1})

    # Stages 2 to 4

    def _run_stage(self, offer: Offer) -> None:
        """One stage from the question to its close."""
        stage, settings = self._secure.stage, self._secure.settings
        before, left_out = self._collect(
            stage, self._deadline(settings.stage_deadline), lambda secure: False
        )
        secure, skipped = close_stage(before)
        for number, one in skipped.items():
            left_out[one.reason] += len(before.groups[number].nodes)
            self._log_skipped(number, one)
        charge = None
        if stage is Stage.INVITE and secure.groups and settings.is_noisy:
            (group,) = secure.groups.values()
            size = group.sum.binding.encoding.size
            charge = charge_of(settings, offer, size, len(group.nodes))
        self._round.advance(secure, left_out, charge=charge)

    def _collect(
        self, stage: Stage, is_over: Callable[[], bool], is_enough: Callable[[SecureRound], bool]
    ) -> tuple[SecureRound, LeftOut]:
        """Ask who is missing in ``stage``; the round with the replies that came, and what of it is
        not in the journal yet: masked changes, and replies left out besides them."""
        secure, number, left_out = self._secure, self._round.number, LeftOut()
        messages = (
            (group.nodes[place], group.sum.message(place))
            for group in secure.groups.values()
            for place in group.sum.waiting
        )
        seconds = secure.settings.stage_deadline * (2 if stage is Stage.UNMASK else 1)
        self._round.ask(messages, stage, seconds)
        for arrival in self._round.arrivals(is_over):
            reply = arrival.reply
            if arrival.late or reply.body is None:
                _log.info("round %d: in stage %d a device declined or was too late", number, stage)
                continue
            secure, reason = receive(secure, arrival.node, reply.stage, reply.body)
            if reason is not None:
                _log.info("round %d: in stage %d a reply is %s", number, stage, reason.value)
                left_out[reason] += 1
            if stage is not Stage.COLLECT:  # no masked change is written: see tables.py
                self._round.advance(secure, left_out)
                left_out = LeftOut()
            if is_enough(secure):
                break
        return secure, left_out

    # Stage 5

    def _reveal(self) -> Mapping[int, Unmasked | Skipped]:
        """The result of each group that got here, by number."""
        if not self._secure.groups:
            return {}
        shares = _Shares(self._secure)
        if not shares.is_enough(self._secure):
            seconds = self._secure.settings.stage_deadline
            once, twice = self._deadline(seconds), self._deadline(2 * seconds)
            self._collect(
                Stage.UNMASK, lambda: once() if shares.results else twice(), shares.is_enough
            )
        if all(isinstance(one, Unmasked) for one in shares.results.values()) and shares.results:
            return shares.results
        return {number: unmask(group.sum) for number, group in self._secure.groups.items()}

    def _finish(self, results: Mapping[int, Unmasked | Skipped]) -> None:
        """Keep the sums and erase all that they were made of, in one transaction."""
        secure, left_out = self._secure, LeftOut()
        stages, groups = dict(secure.stages), secure.groups
        if results:
            stages["revealed"] = sum(len(groups[number].sum.shares) for number in results)
        for number, result in results.items():
            for place in result.blamed:  # named: the authority needs it to revoke the device
                key = groups[number].sum.certificates[place].key.hex()
                _log.warning(
                    "round %d: the device %s gave or dealt wrong shares", self._round.number, key
                )
                if isinstance(result, Unmasked):  # else it is counted with its group
                    left_out[SecureReason.BAD_SHARE] += 1
        sums = {}
        for number, result in without_outliers(groups, results).items():
            if isinstance(result, Skipped):
                left_out[result.reason] += len(groups[number].sum.survivors)
                self._log_skipped(number, result)
            else:
                sums[number] = (groups[number], result)
        done = replace(secure, groups={}, stages=stages, finished=True)
        self._round.advance(done, left_out, sums=sums)

    # Where the round stands

    @property
    def _secure(self) -> SecureRound:
        return self._round.secure

    def _show(self) -> None:
        self._round.show(declined=self._secure.declined, failed=self._secure.failed)

    def _deadline(self, seconds: float) -> Callable[[], bool]:
        """Whether so much time has passed since this was called."""
        end = self._clock.now() + seconds
        return lambda: self._clock.now() > end

    def _log_skipped(self, number: int, skipped: Skipped) -> None:
        _log.warning(
            "round %d: group %d is left out, %s: %s",
            self._round.number,
            number,
            skipped.reason.value,
            skipped.detail,
        )


class _Shares:
    """Whether the shares that came give every sum.

    That is checked after every twentieth part of a group's replies: a check reads each pair of
    neighbours. Where a share was wrong, all that come are waited for.

    Attributes:
        results: of the groups, from when they were first unmasked.
    """

    def __init__(self, secure: SecureRound) -> None:
        sizes = [len(group.sum.survivors) for group in secure.groups.values()]
        self._every = max(1, sum(sizes) // 20)
        self._calls = 0
        self.results: dict[int, Unmasked | Skipped] = {}

    def is_enough(self, secure: SecureRound) -> bool:
        """Whether nothing needs to be waited for."""
        sums = {number: group.sum for number, group in secure.groups.items()}
        awaited = any(one.waiting for one in sums.values())
        self._calls += 1
        if self.results or (awaited and self._calls % self._every):
            return False
        if not all(can_unmask(one) for one in sums.values()):
            return False
        self.results = {number: unmask(one) for number, one in sums.items()}
        return all(isinstance(one, Unmasked) for one in self.results.values())


def charge_of(settings: SecureSettings, offer: Offer, size: int, group: int) -> Charge:
    """What a round with noise and a group of so many devices costs.

    Args:
        settings: of the round.
        offer: what devices train on.
        size: values of a change.
        group: devices.

    Raises:
        InvalidInputError: no encoding fits.
    """
    neighbours = min(group - 1, settings.neighbours)
    honest = least_honest(neighbours, 3 * neighbours // 5 + 1)
    encoding = planned_encoding(settings, offer, size, group)
    spent = rho(settings.noise_multiplier, encoding, settings.counted_on(group))
    counted = settings.counted_on(settings.largest_group)  # whatever is said of the group's size
    return settings.budget().charge(offer.round, counted_on=counted, least_honest=honest, rho=spent)


def without_outliers(
    groups: Mapping[int, SumGroup], results: Mapping[int, Unmasked | Skipped]
) -> dict[int, Unmasked | Skipped]:
    """``results`` by number of the group; of three sums and more, one whose mean is longer than
    twice the median of all is skipped."""
    norms = {
        number: _mean_norm(groups[number], result)
        for number, result in results.items()
        if isinstance(result, Unmasked)
    }
    decided = dict(results)
    if len(norms) < _LEAST_COMPARED:
        return decided
    most = _OUTLIER * statistics.median(norms.values())
    for number, norm in norms.items():
        if norm > most:
            detail = f"the mean has norm {norm:g}, twice the groups' median is {most:g}"
            decided[number] = Skipped(SecureReason.SUM_NORM, detail)
    return decided


def _mean_norm(group: SumGroup, result: Unmasked) -> float:
    steps = math.sqrt(float(np.square(result.totals.astype(np.float64)).sum()))
    return steps * group.sum.binding.encoding.step / len(result.survivors)

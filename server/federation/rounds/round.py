"""A round: opened from a state, fed with replies one at a time, closed into the next state.

    state, report = apply(state, updates, settings)

or, where replies come over time, :func:`open_round`, :func:`receive` for each and
:func:`close_round`. Everything is a value and every function pure: bytes and a clock's reading go
in, the next value comes out. Who carries the messages and where the values are kept
(orchestration/journal.py) is not known here. What is kept of an update is its share in a running
sum and its nonce.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from pocketquery.client.transforms import unflatten
from pocketquery.server.federation.rounds.nonces import NonceSet
from pocketquery.server.federation.rounds.open_round import OpenRound, open_round
from pocketquery.server.federation.rounds.round_report import RoundReport
from pocketquery.server.federation.rounds.running_sum import RunningSum
from pocketquery.server.federation.rounds.settings import RoundSettings
from pocketquery.server.federation.rounds.shards import LEAST_SHARDS, Aggregation, combine, shard_of
from pocketquery.server.federation.rounds.state import FederationState
from pocketquery.server.federation.rounds.validation import (
    ExpectedUpdate,
    Quarantined,
    Reason,
    Valid,
    known_before,
    read_reply,
)

__all__ = [
    "OpenRound",
    "Prepared",
    "Receipt",
    "apply",
    "close_round",
    "open_round",
    "prepare",
    "receive",
    "receive_all",
]

_NORM_BITS = 40
_NONE = np.zeros(0)
T = TypeVar("T")


@dataclass(frozen=True)
class Receipt:
    """What became of one reply.

    Attributes:
        accepted: whether it is in the sum.
        reason: None, or why it is not.
        detail: what was found and what was expected, in ASCII; empty where accepted.
        shard: which sum it went to; None where it went to none.
        nonce: that of an accepted update, else None.
    """

    accepted: bool
    reason: Reason | None = None
    detail: str = ""
    shard: int | None = None
    nonce: str | None = None


def receive(
    opened: OpenRound, data: bytes, now: float, *, late: bool = False
) -> tuple[OpenRound, Receipt]:
    """``opened`` after the reply ``data``, and what became of it. No reply raises.

    Args:
        opened: the round; it stays as it is.
        data: bytes from a device.
        now: the clock's reading in seconds, of one clock throughout; see ``elapsed_at``.
        late: the device was asked in an earlier round, whatever its update says of itself.

    Raises:
        InvalidInputError: ``now`` is not finite.
    """
    opened, (receipt,) = receive_all(opened, [data], now, late=late)
    return opened, receipt


@dataclass(frozen=True)
class Prepared:
    """A reply of which all is done that needs nothing of what came before it.

    Attributes:
        expected: what it was held against.
        reading: what is in it, or why it is left out.
        addend: itself as a sum of one; None where it is left out.
    """

    expected: ExpectedUpdate
    reading: Valid | Quarantined
    addend: RunningSum | None = None


def prepare(data: bytes, expected: ExpectedUpdate, settings: RoundSettings) -> Prepared:
    """Read the reply ``data`` of a round. No reply raises. From any thread, for a round that is
    open meanwhile: neither argument changes with the replies it takes."""
    reading = read_reply(data, expected)
    if isinstance(reading, Quarantined):
        return Prepared(expected, reading)
    factor = min(1.0, settings.clip_norm / reading.norm)
    weight = reading.header.weight if settings.weighting == "declared" else 1.0
    scale = factor / math.sqrt(1 + reading.staleness)  # it does not count as weight: K divides
    addend = RunningSum.of(reading.values, weight, scale, bits=settings.bits())
    # The values are not looked at again, and are half as large as the addend.
    return Prepared(expected, Valid(reading.header, _NONE, reading.norm, reading.staleness), addend)


def receive_all(
    opened: OpenRound, replies: Iterable[bytes | Prepared], now: float, *, late: bool = False
) -> tuple[OpenRound, list[Receipt]]:
    """``opened`` after ``replies``, one after the other, and what became of each: as
    :func:`receive` for each, with one pass over what has to be copied.

    Args:
        opened: the round; it stays as it is.
        replies: bytes from devices, or what :func:`prepare` made of them; what was prepared for
            another round is not taken here.
        now: the clock's reading in seconds, see ``elapsed_at``.
        late: the devices were asked in an earlier round, whatever their updates say.

    Raises:
        InvalidInputError: ``now`` is not finite.
    """
    opened = replace(opened, elapsed=opened.elapsed_at(now), last_now=now)
    before, batch = opened.accepted, _Batch()
    seen, earlier = _Either(opened.nonces, batch.nonces), _Earlier(opened.state.seen)

    def what_of(reply: bytes | Prepared) -> Receipt:
        if problem := _too_late(opened, before + len(batch.nonces), late):
            return batch.leave_out(problem)
        if isinstance(reply, bytes):
            reply = prepare(reply, opened.expected, opened.settings)
        assert reply.expected is opened.expected
        reading = known_before(reply.reading, seen, earlier) or reply.reading
        if isinstance(reading, Quarantined) or reply.addend is None:
            assert isinstance(reading, Quarantined)
            return batch.leave_out(reading)
        return batch.accept(opened.settings, reading, reply.addend)

    receipts = [what_of(reply) for reply in replies]
    return batch.added_to(opened), receipts


def close_round(opened: OpenRound) -> tuple[FederationState, RoundReport]:
    """The next state, and the report.

    Where too few replies were valid nothing changes but the round's number, and the report says
    why. Else the state holds the new adapter under the old version's name: whether and as what it
    is released is decided by the gate (:meth:`FederationState.released`, ``rejected``).
    """
    state = replace(
        opened.state,
        round=opened.state.round + 1,
        seen=_remembered(opened, opened.state.seen, opened.nonces),
        bases=(
            _remembered(opened, opened.state.bases, opened.state.version)
            if opened.settings.is_buffered
            else {}
        ),
    )
    report = _report(opened)
    if report.skipped:
        return state, report
    settings = opened.settings
    mean = combine(opened.shards, _aggregation(opened), settings.trim)
    change = unflatten(mean, {n: value.shape for n, value in opened.state.adapter.items()})
    adapter, moments = settings.optimizer.apply(state.adapter, change, state.optimizer)
    step = np.concatenate([(adapter[n] - state.adapter[n]).ravel() for n in sorted(adapter)])
    norm = _norm(step.astype(np.float64))
    if settings.largest_step is not None and norm > settings.largest_step:
        shorter = np.float32(settings.largest_step / norm)
        adapter = {n: old + (adapter[n] - old) * shorter for n, old in state.adapter.items()}
        norm = settings.largest_step
    report = replace(report, change_norm=_norm(mean), step_norm=norm)
    return replace(state, adapter=adapter, optimizer=moments), report


def apply(
    state: FederationState, updates: Iterable[bytes], settings: RoundSettings
) -> tuple[FederationState, RoundReport]:
    """A whole round over ``updates``, which are taken one at a time and not kept.

    Raises:
        InvalidInputError: the state carries the moments of another optimizer than the settings'.
    """
    opened = open_round(state, settings)
    for data in updates:
        opened, _ = receive(opened, data, now=0.0)
    return close_round(opened)


class _Either:
    """Two containers of nonces as one."""

    def __init__(self, one: NonceSet, other: set[str]) -> None:
        self._one, self._other = one, other

    def __contains__(self, nonce: object) -> bool:
        return nonce in self._other or nonce in self._one


class _Earlier:
    """The nonces of all remembered rounds, as one container."""

    def __init__(self, seen: Mapping[int, NonceSet]) -> None:
        self._seen = seen

    def __contains__(self, nonce: object) -> bool:
        return any(nonce in nonces for nonces in self._seen.values())


def _too_late(opened: OpenRound, accepted: int, late: bool) -> Quarantined | None:
    if late:
        return Quarantined(Reason.STALE_ROUND, "it answers what was asked in an earlier round")
    if not opened.settings.is_buffered and opened.elapsed > opened.settings.deadline_seconds:
        seconds = f"{opened.elapsed:.0f} s, deadline {opened.settings.deadline_seconds:.0f} s"
        return Quarantined(Reason.TOO_LATE, f"the round has been open for {seconds}")
    if accepted >= opened.asked:
        return Quarantined(Reason.TOO_LATE, f"all {opened.asked} replies asked for are there")
    return None


@dataclass
class _Batch:
    """What a round takes at once."""

    addends: dict[int, list[RunningSum]] = field(default_factory=dict)
    nonces: set[str] = field(default_factory=set)
    reasons: Counter[str] = field(default_factory=Counter)
    clipped: int = 0
    staleness: int = 0
    norms: int = 0

    def accept(self, settings: RoundSettings, update: Valid, addend: RunningSum) -> Receipt:
        nonce = update.header.nonce
        shard = shard_of(nonce, settings.shards, settings.shard_seed)
        self.addends.setdefault(shard, []).append(addend)
        self.nonces.add(nonce)
        self.clipped += settings.clip_norm / update.norm < 1.0
        self.staleness += update.staleness
        self.norms += round(math.ldexp(update.norm, _NORM_BITS))
        return Receipt(True, shard=shard, nonce=nonce)

    def leave_out(self, problem: Quarantined) -> Receipt:
        self.reasons[problem.reason.value] += 1
        return Receipt(False, problem.reason, problem.detail)

    def added_to(self, opened: OpenRound) -> OpenRound:
        shards = list(opened.shards)
        for number, addends in self.addends.items():
            shards[number] = shards[number].merge_all(addends)
        return replace(
            opened.with_quarantined(self.reasons),
            shards=tuple(shards),
            nonces=opened.nonces.add_all(self.nonces),
            clipped=opened.clipped + self.clipped,
            staleness=opened.staleness + self.staleness,
            norms=opened.norms + self.norms,
        )


def _remembered(opened: OpenRound, before: Mapping[int, T], this: T) -> dict[int, T]:
    """What is kept of the last rounds, ``this`` one's among them, and none of older ones."""
    oldest = opened.state.round + 1 - opened.settings.remembered_rounds
    remembered = {number: one for number, one in before.items() if number >= oldest}
    return remembered | {opened.state.round: this}


def _report(opened: OpenRound) -> RoundReport:
    settings, accepted, skipped = opened.settings, opened.accepted, _why_skipped(opened)
    weight = sum(shard.weight for shard in opened.shards)
    return RoundReport(
        round=opened.state.round,
        base_version=opened.state.version,
        asked=opened.asked,
        accepted=accepted,
        quarantined=dict(sorted(opened.quarantined.items())),
        clipped=opened.clipped,
        skipped=skipped,
        version=opened.state.version if skipped else None,
        weight=math.ldexp(weight, -settings.bits()),
        mean_norm=math.ldexp(opened.norms / accepted, -_NORM_BITS) if accepted else 0.0,
        aggregation=_aggregation(opened),
        optimizer=settings.optimizer.name,
        fallback=None if skipped else _fallback(opened),
        filled_shards=_filled(opened),
        staleness=opened.staleness / accepted if settings.is_buffered and accepted else None,
        seconds=opened.elapsed,
    )


def _why_skipped(opened: OpenRound) -> str | None:
    settings = opened.settings
    if opened.accepted < settings.least_replies:
        return (
            f"{opened.accepted} valid replies, at least {settings.least_replies} needed "
            f"(asked {opened.asked}, received {opened.received})"
        )
    return None


def _aggregation(opened: OpenRound) -> Aggregation:
    """The settings', or the mean where too few shards are filled to tell an outlier."""
    return opened.settings.aggregation if _filled(opened) >= LEAST_SHARDS else "mean"


def _fallback(opened: OpenRound) -> str | None:
    wanted = opened.settings.aggregation
    if wanted == _aggregation(opened):
        return None
    return (
        f"the mean was taken: {_filled(opened)} shards have updates, {wanted} needs at least "
        f"{LEAST_SHARDS}; ask more clients"
    )


def _filled(opened: OpenRound) -> int:
    return sum(shard.count > 0 for shard in opened.shards)


def _norm(values: NDArray[np.float64]) -> float:
    return math.sqrt(float(np.square(values).sum()))

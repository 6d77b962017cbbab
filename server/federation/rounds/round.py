"""A round: opened from a state, fed with replies one at a time, closed into the next state.

    state, report = apply(state, updates, settings)

or, where replies come over time, :func:`open_round`, :func:`receive` for each and
:func:`close_round`. Everything is a value and every function pure: bytes and a clock's reading go
in, the next value comes out. Who carries the messages and where the values are kept (journal.py) is
not known here. What is kept of an update is its share in a running sum and its nonce.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from pocketquery.server.federation.rounds.nonces import NonceSet
from pocketquery.server.federation.rounds.open_round import OpenRound, open_round
from pocketquery.server.federation.rounds.round_report import RoundReport
from pocketquery.server.federation.rounds.settings import RoundSettings
from pocketquery.server.federation.rounds.shards import LEAST_SHARDS, Aggregation, combine, shard_of
from pocketquery.server.federation.rounds.state import FederationState
from pocketquery.server.federation.rounds.validation import Quarantined, Reason, Valid, validate

__all__ = ["OpenRound", "Receipt", "apply", "close_round", "open_round", "receive"]

_NORM_BITS = 40


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
    opened = replace(opened, elapsed=opened.elapsed_at(now), last_now=now)
    found = _too_late(opened, late) or validate(
        data,
        opened.expected,
        seen=opened.nonces,
        earlier=_Earlier(opened.state.seen),
    )
    if isinstance(found, Valid):
        return _accept(opened, found)
    counts = dict(opened.quarantined)
    counts[found.reason.value] = counts.get(found.reason.value, 0) + 1
    receipt = Receipt(False, found.reason, found.detail)
    return replace(opened, quarantined=counts), receipt


def close_round(opened: OpenRound) -> tuple[FederationState, RoundReport]:
    """The next state, and the report.

    Where too few replies were valid nothing changes but the round's number, and the report says
    why. Else the state holds the new adapter under the old version's name: whether and as what it
    is released is decided by the gate (:meth:`FederationState.released`, ``rejected``).
    """
    state = replace(opened.state, round=opened.state.round + 1, seen=_remembered(opened))
    report = _report(opened)
    if report.skipped:
        return state, report
    settings = opened.settings
    mean = combine(opened.shards, _aggregation(opened), settings.trim)
    change = _unflatten(mean, opened.state.adapter)
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


class _Earlier:
    """The nonces of all remembered rounds, as one container."""

    def __init__(self, seen: Mapping[int, NonceSet]) -> None:
        self._seen = seen

    def __contains__(self, nonce: object) -> bool:
        return any(nonce in nonces for nonces in self._seen.values())


def _too_late(opened: OpenRound, late: bool) -> Quarantined | None:
    if late:
        return Quarantined(Reason.STALE_ROUND, "it answers what was asked in an earlier round")
    if opened.elapsed > opened.settings.deadline_seconds:
        seconds = f"{opened.elapsed:.0f} s, deadline {opened.settings.deadline_seconds:.0f} s"
        return Quarantined(Reason.TOO_LATE, f"the round has been open for {seconds}")
    if opened.accepted >= opened.asked:
        return Quarantined(Reason.TOO_LATE, f"all {opened.asked} replies asked for are there")
    return None


def _accept(opened: OpenRound, update: Valid) -> tuple[OpenRound, Receipt]:
    settings = opened.settings
    factor = min(1.0, settings.clip_norm / update.norm)
    shard = shard_of(update.header.nonce, settings.shards, settings.shard_seed)
    shards = list(opened.shards)
    weight = update.header.weight if settings.weighting == "declared" else 1.0
    shards[shard] = shards[shard].add(update.values, weight, factor)
    after = replace(
        opened,
        shards=tuple(shards),
        nonces=opened.nonces.add(update.header.nonce),
        clipped=opened.clipped + (factor < 1.0),
        norms=opened.norms + round(math.ldexp(update.norm, _NORM_BITS)),
    )
    return after, Receipt(True, shard=shard, nonce=update.header.nonce)


def _remembered(opened: OpenRound) -> dict[int, NonceSet]:
    """The nonces of the last rounds, this one's among them, and none of older ones."""
    oldest = opened.state.round + 1 - opened.settings.remembered_rounds
    seen = {number: nonces for number, nonces in opened.state.seen.items() if number >= oldest}
    return seen | {opened.state.round: opened.nonces}


def _report(opened: OpenRound) -> RoundReport:
    settings, accepted = opened.settings, opened.accepted
    weight = sum(shard.weight for shard in opened.shards)
    return RoundReport(
        round=opened.state.round,
        base_version=opened.state.version,
        asked=opened.asked,
        received=opened.received,
        accepted=accepted,
        quarantined=dict(sorted(opened.quarantined.items())),
        clipped=opened.clipped,
        skipped=_why_skipped(opened),
        weight=math.ldexp(weight, -settings.bits()),
        mean_norm=math.ldexp(opened.norms / accepted, -_NORM_BITS) if accepted else 0.0,
        aggregation=_aggregation(opened),
        optimizer=settings.optimizer.name,
        fallback=_fallback(opened),
        filled_shards=_filled(opened),
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
    if not opened.accepted or wanted == _aggregation(opened):
        return None
    return (
        f"the mean was taken: {_filled(opened)} shards have updates, {wanted} needs at least "
        f"{LEAST_SHARDS}; ask more clients"
    )


def _filled(opened: OpenRound) -> int:
    return sum(shard.count > 0 for shard in opened.shards)


def _unflatten(
    values: NDArray[np.float64], like: Mapping[str, NDArray[np.float32]]
) -> dict[str, NDArray[np.float64]]:
    """``values`` as tensors of the names and shapes of ``like``, in the order of sorted names."""
    tensors: dict[str, NDArray[np.float64]] = {}
    start = 0
    for name in sorted(like):
        stop = start + like[name].size
        tensors[name] = values[start:stop].reshape(like[name].shape)
        start = stop
    return tensors


def _norm(values: NDArray[np.float64]) -> float:
    return math.sqrt(float(np.square(values).sum()))

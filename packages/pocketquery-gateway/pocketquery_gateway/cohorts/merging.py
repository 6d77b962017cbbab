"""A cohort's sum into the server's round, or why it is left out.

What can be checked of a sum, is: that it is of this round and these settings, of no more devices
than were asked for, no longer than so many clipped changes can be, and no staler.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from pocketquery.sdk.errors import CorruptArtifactError, InvalidInputError
from pocketquery.server.federation.rounds.open_round import OpenRound
from pocketquery.server.federation.rounds.round import Receipt
from pocketquery.server.federation.rounds.running_sum import RunningSum
from pocketquery.server.federation.rounds.validation import Reason
from pocketquery_gateway.cohorts.cohort_sum import CohortSum, settings_digest

__all__ = ["add_cohort"]

_NORM_BITS = 40  # of OpenRound.norms
_SLACK = 1e-6  # of a norm that was computed in float64


def add_cohort(
    opened: OpenRound, data: bytes, now: float
) -> tuple[OpenRound, Receipt, CohortSum | None]:
    """``opened`` with the cohort's sum in ``data``, or why it is left out. No bytes raise.

    Args:
        opened: the server's round; it stays as it is.
        data: a gateway's answer.
        now: the clock's reading.

    Returns:
        The round, what became of the answer, and the sum where it was taken.
    """
    opened = replace(opened, elapsed=opened.elapsed_at(now), last_now=now)
    try:
        cohort = CohortSum.from_bytes(data)
        problem = _problem(cohort, opened)
        merged = None if problem else _merged(opened.shards, cohort)
    except CorruptArtifactError as error:
        problem, cohort, merged = (Reason.MALFORMED, str(error)), None, None
    except InvalidInputError as error:  # the sums would leave int64
        problem, cohort, merged = (Reason.NORM_OUT_OF_BOUNDS, str(error)), None, None
    if problem or cohort is None or merged is None:
        reason, detail = problem or (Reason.MALFORMED, "")
        receipt = Receipt(False, reason, detail[:300])
        return opened.with_quarantined({reason.value: 1}), receipt, None
    after = replace(
        opened.with_quarantined(cohort.quarantined),
        shards=merged,
        nonces=opened.nonces.add(cohort.nonce),
        clipped=opened.clipped + cohort.clipped,
        norms=opened.norms + cohort.norms,
        staleness=opened.staleness + cohort.staleness,
    )
    return after, Receipt(True, nonce=cohort.nonce), cohort


def _merged(shards: Sequence[RunningSum], cohort: CohortSum) -> tuple[RunningSum, ...]:
    empty = {number: one for number, one in enumerate(shards) if number not in cohort.shards}
    merged = {number: shards[number].merge(one) for number, one in cohort.shards.items()}
    both = empty | merged
    return tuple(both[number] for number in range(len(shards)))


def _problem(cohort: CohortSum, opened: OpenRound) -> tuple[Reason, str] | None:
    """Why ``cohort`` cannot be part of ``opened``; None where it can."""
    expected, settings = opened.expected, opened.settings
    named = (
        (Reason.WRONG_SPACE, "space_id", expected.space_id),
        (Reason.WRONG_ENCODER, "encoder_sha256", expected.encoder_sha256),
        (Reason.STALE_ROUND, "round", expected.round),
        (Reason.STALE_ROUND, "base_version", expected.base_version),
        (Reason.WRONG_SCHEMA, "settings_sha256", settings_digest(settings)),
    )
    for reason, name, wanted in named:
        if (value := getattr(cohort, name)) != wanted:
            return reason, f"found {name} {value!r:.80}, expected {wanted!r}"
    if cohort.nonce in opened.nonces:
        return Reason.DUPLICATE, "this cohort's sum is already in this round"
    if any(cohort.nonce in seen for seen in opened.state.seen.values()):
        return Reason.REPLAY, "this cohort's sum was in an earlier round"
    if opened.elapsed > settings.deadline_seconds:
        return Reason.TOO_LATE, f"the round has been open for {opened.elapsed:.0f} s"
    if cohort.count > (places := opened.asked - opened.accepted):
        return Reason.TOO_LATE, f"found {cohort.count} updates, expected at most {places}"
    return _problem_of_sums(cohort, opened)


def _problem_of_sums(cohort: CohortSum, opened: OpenRound) -> tuple[Reason, str] | None:
    settings, bits = opened.settings, opened.settings.bits()
    size = opened.shards[0].totals.size
    largest = settings.largest_weight if settings.weighting == "declared" else 1.0
    for number, one in cohort.shards.items():
        if not 0 <= number < settings.shards or one.totals.shape != (size,) or one.bits != bits:
            found = f"found shard {number} of {one.totals.size} values with {one.bits} bits"
            wanted = f"{settings.shards} shards of {size} values with {bits} bits"
            return Reason.WRONG_SHAPE, f"{found}, expected {wanted}"
        equal = settings.weighting == "equal" and one.weight != one.count << bits
        if equal or not 0 < one.weight <= one.count * math.ldexp(largest, bits):
            return Reason.BAD_WEIGHT, f"found weight {one.weight} of {one.count} updates"
        # Each of its changes was clipped, so their sum is no longer than so many of them.
        bound = one.weight * settings.clip_norm * (1 + _SLACK) + one.count * math.sqrt(size)
        if math.sqrt(float(np.square(one.totals, dtype=np.float64).sum())) > bound:
            return Reason.NORM_OUT_OF_BOUNDS, f"found a sum longer than {one.count} changes can be"
        peak = max(int(one.totals.max(initial=0)), -int(one.totals.min(initial=0)))
        if not peak <= one.reach <= bound + 2 * one.count:
            return Reason.NORM_OUT_OF_BOUNDS, f"found a reach of {one.reach}, largest is {peak}"
    longest = cohort.count * opened.expected.largest_norm * (1 + _SLACK)
    if not 0 <= math.ldexp(cohort.norms, -_NORM_BITS) <= longest or cohort.clipped > cohort.count:
        return Reason.NORM_OUT_OF_BOUNDS, "found counts of norms or clipping beyond what can be"
    furthest = max((behind for _, behind in opened.expected.earlier.values()), default=0)
    if cohort.staleness > cohort.count * furthest:
        found = f"found {cohort.count} updates that are {cohort.staleness} releases behind"
        return Reason.STALE_ROUND, f"{found}, expected at most {furthest} each"
    return None

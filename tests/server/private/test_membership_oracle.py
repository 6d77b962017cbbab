"""Whether a noisy round gives a release is decided on the noised sum alone.

A hostile device that knows every other change, but for one, pushes the sum to just where its mean
is as long as it may be with that one change in it, and is not without it. Decided on the exact sum,
a release or its absence would tell whether the change was there, whatever noise followed.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from numpy.typing import NDArray

from pocketquery.client.private.binding import Privacy
from pocketquery.client.private.encoding import largest_total
from pocketquery.client.private.messages import Stage
from pocketquery.client.private.noise import sigma
from pocketquery.client.private.replies import Masked
from pocketquery.server.private.coordinator import SecureReason, SecureSum
from pocketquery.server.private.unmasking import Unmasked, norm_limit, unmask
from tests.client.private.group import WIDE, Group, member, ready_group

SIZE, K, T, TARGET, LIAR = 8, 7, 5, 3, 7
NOISE = Privacy("devices", 2.4, 5, "1", 1)
CHANGE = np.full(WIDE.size, 0.2)


def ended(present: bool, seed: int, limit: str, privacy: Privacy = NOISE) -> SecureSum:
    """A round with the target's change in it, or zeros in its place, that can be unmasked; pushed
    to the ``limit`` of the norm or of a value."""
    members = [member(number, seed, size=WIDE.size) for number in range(SIZE)]
    trainer = members[TARGET].trainer
    for name, value in trainer.change.items():
        value[:] = np.float32(0.2 if present else 0.0)
        assert trainer.change[name] is value
    group = ready_group(SIZE, K, T, seed=seed, privacy=privacy, members=members)
    group.run_to(Stage.COLLECT)
    _push(group, limit)
    while group.sum.stage is not Stage.UNMASK:
        group.exchange()
        assert group.close() is None
    group.exchange()
    return group.sum


def _push(group: Group, limit: str) -> None:
    reply = group.answer(LIAR)
    assert isinstance(reply, bytes)
    honest = Masked.parse(reply, group.binding, K)
    own, wanted = group.codes(LIAR), _wanted(group, limit)
    known = sum((_without_noise(group, n) for n in range(SIZE) if n not in (TARGET, LIAR)), 0 * own)
    push = (wanted - known - own).astype(np.uint32)
    lie = replace(honest, codes=honest.codes + push).to_bytes()
    group.sum, reason = group.sum.receive(Stage.COLLECT, LIAR, lie)
    assert reason is None


def _wanted(group: Group, limit: str) -> NDArray[np.int64]:
    """What all but the target are to sum to: on the limit with half of its change."""
    half = CHANGE / 2 / WIDE.step
    is_noisy = group.binding.privacy.mode == "devices"
    deviation = sigma(NOISE.noise_multiplier, WIDE, NOISE.counted_on) if is_noisy else 0.0
    if limit == "value":
        most = np.zeros(WIDE.size)
        most[0] = largest_total(WIDE, SIZE, deviation)
        return np.rint(most - half * (most > 0)).astype(np.int64)
    alive = replace(group.sum, survivors=tuple(range(SIZE)))
    noise = deviation * (SIZE * WIDE.size) ** 0.5  # it makes a sum longer
    length = ((norm_limit(alive) * SIZE / WIDE.step) ** 2 - noise**2) ** 0.5
    pushed: NDArray[np.float64] = length * CHANGE / np.linalg.norm(CHANGE) - half
    return np.rint(pushed).astype(np.int64)


def _without_noise(group: Group, position: int) -> NDArray[np.int64]:
    change = group.members[position].trainer.change
    flat = np.concatenate([change[name].ravel() for name in sorted(change)])
    length = max(1.0, float(np.linalg.norm(flat)))
    return np.rint(flat / length / WIDE.step).astype(np.int64)


@cache
def worlds(limit: str) -> list[tuple[SecureSum, SecureSum]]:
    """Rounds with the target's change, each beside the same round without it."""
    return [(ended(True, seed, limit), ended(False, seed, limit)) for seed in range(8)]


@pytest.mark.parametrize("limit", ["norm", "value"])
def test_a_release_or_its_absence_says_nothing_of_a_change(limit: str) -> None:
    """Noise decides as often in one world as in the other, at worst as (epsilon, delta) allows."""
    reason = {"norm": SecureReason.SUM_NORM, "value": SecureReason.SUM_OUT_OF_RANGE}[limit]
    counts: list[Counter[bool]] = [Counter(), Counter()]
    for pair in worlds(limit):
        for count, group in zip(counts, pair, strict=True):
            found = unmask(group)
            count[isinstance(found, Unmasked)] += 1
            assert isinstance(found, Unmasked) or found.reason is reason
    assert all(len(count) == 2 for count in counts), counts


@pytest.mark.parametrize("limit", ["norm", "value"])
def test_without_noise_it_says_whether_a_change_was_there(limit: str) -> None:
    """The same device against an exact sum, of which nothing is promised."""
    for seed in range(2):
        found = [unmask(ended(present, seed, limit, Privacy())) for present in (True, False)]
        assert [isinstance(one, Unmasked) for one in found] == [False, True]


@pytest.mark.parametrize("limit", ["norm", "value"])
def test_rounds_with_one_noised_sum_end_alike(limit: str) -> None:
    """What is decided is a function of that sum: given the other world's, it is the other's."""
    for there, gone in worlds(limit)[:4]:
        moved = replace(gone, total=there.total)
        one, other = unmask(there), unmask(moved)
        assert type(one) is type(other)
        if isinstance(one, Unmasked) and isinstance(other, Unmasked):
            assert np.array_equal(one.totals, other.totals)
        else:
            assert one == other

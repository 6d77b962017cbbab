"""Cohorts' sums: the same bits as of the devices themselves, and nothing else gets in."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pocketquery.sdk.bundle.safetensors import parse, parse_metadata, serialize
from pocketquery.server.federation.rounds.open_round import OpenRound, open_round
from pocketquery.server.federation.rounds.round import close_round, receive
from pocketquery.server.federation.rounds.settings import RoundSettings
from pocketquery.server.federation.rounds.validation import Reason
from pocketquery_gateway.cohorts.cohort_sum import CohortSum, shares
from pocketquery_gateway.cohorts.merging import add_cohort
from tests.server.federation.replies import SETTINGS, reply, small_state

ROBUST = replace(
    SETTINGS, clients_per_round=30, aggregation="median", shards=5, shard_seed=11, weighting="equal"
)
NONCE = "0f" * 16


def cohort_of(
    updates: list[bytes], settings: RoundSettings, nonce: str = NONCE, declined: int = 0
) -> CohortSum:
    """What a gateway that got ``updates`` answers."""
    opened = taken(open_round(small_state(), settings), updates)
    return CohortSum.of_round(opened, nonce, declined=declined, figures={"loss": 2.0})


def taken(opened: OpenRound, updates: list[bytes]) -> OpenRound:
    for data in updates:
        opened, _ = receive(opened, data, now=0.0)
    return opened


@settings(max_examples=40, deadline=None)
@given(
    dealt=st.lists(st.integers(0, 3), min_size=3, max_size=24),
    robust=st.booleans(),
    order=st.randoms(use_true_random=False),
)
@example(dealt=[0, 0, 0], robust=True, order=__import__("random").Random(0))
def test_gateways_give_the_same_bits_as_devices(dealt: list[int], robust: bool, order: Any) -> None:
    chosen = ROBUST if robust else replace(SETTINGS, clients_per_round=30)
    updates = [reply(number) for number in range(len(dealt))]
    updates[1] = b"noise"
    direct = taken(open_round(small_state(), chosen), updates)

    through = open_round(small_state(), chosen)
    groups = [[u for u, at in zip(updates, dealt, strict=True) if at == g] for g in range(4)]
    sums = [cohort_of(g, chosen, f"{n:032x}").to_bytes() for n, g in enumerate(groups)]
    order.shuffle(sums)
    for data in sums:
        through, receipt, _ = add_cohort(through, data, 0.0)
        assert receipt.accepted, receipt

    wanted, report = close_round(direct)
    found, told = close_round(through)
    assert told == report
    assert replace(found, seen={}).to_bytes() == replace(wanted, seen={}).to_bytes()


def test_a_sum_is_read_back_as_it_was_written() -> None:
    cohort = cohort_of([reply(n) for n in range(6)], ROBUST, declined=3)
    again = CohortSum.from_bytes(cohort.to_bytes())
    assert again.to_bytes() == cohort.to_bytes()
    assert (again.count, again.declined, again.nonce) == (6, 3, NONCE)
    nobody = cohort_of([], ROBUST)
    assert CohortSum.from_bytes(nobody.to_bytes()).count == 0


def test_a_sum_that_comes_twice_counts_once() -> None:
    data = cohort_of([reply(1), reply(2)], ROBUST).to_bytes()
    once, _, _ = add_cohort(open_round(small_state(), ROBUST), data, 0.0)
    twice, receipt, _ = add_cohort(once, data, 0.0)
    assert receipt.reason is Reason.DUPLICATE
    assert twice.accepted == once.accepted == 2
    state, _ = close_round(once)
    later = open_round(state, ROBUST)
    other = replace(CohortSum.from_bytes(data), round=1).to_bytes()
    assert add_cohort(later, other, 0.0)[1].reason is Reason.REPLAY


def lies() -> dict[str, tuple[CohortSum, Reason]]:
    honest = cohort_of([reply(n) for n in range(6)], ROBUST)
    number, one = next(iter(honest.shards.items()))

    def with_shard(**changes: Any) -> CohortSum:
        return replace(honest, shards={**honest.shards, number: replace(one, **changes)})

    far = one.totals.copy()
    far[0] += 2**45
    return {
        "another round": (replace(honest, round=1), Reason.STALE_ROUND),
        "another release": (replace(honest, base_version="0"), Reason.STALE_ROUND),
        "another space": (replace(honest, space_id="other"), Reason.WRONG_SPACE),
        "another encoder": (replace(honest, encoder_sha256="cd" * 32), Reason.WRONG_ENCODER),
        "other settings": (replace(honest, settings_sha256="0" * 64), Reason.WRONG_SCHEMA),
        "too long": (with_shard(totals=far), Reason.NORM_OUT_OF_BOUNDS),
        "reach too small": (with_shard(reach=0), Reason.NORM_OUT_OF_BOUNDS),
        "reach too large": (with_shard(reach=2**62), Reason.NORM_OUT_OF_BOUNDS),
        "more weight": (with_shard(weight=2 * one.weight), Reason.BAD_WEIGHT),
        "other size": (with_shard(totals=one.totals[1:]), Reason.WRONG_SHAPE),
        "other bits": (with_shard(bits=30), Reason.WRONG_SHAPE),
        "no such shard": (replace(honest, shards={7: one}), Reason.WRONG_SHAPE),
        "more than asked": (with_shard(count=60, weight=60 << one.bits), Reason.TOO_LATE),
        "norms": (replace(honest, norms=2**60), Reason.NORM_OUT_OF_BOUNDS),
        "clipped": (replace(honest, clipped=7), Reason.NORM_OUT_OF_BOUNDS),
    }


@pytest.mark.parametrize("name", sorted(lies()))
def test_what_cannot_be_a_sum_of_this_round_is_left_out(name: str) -> None:
    cohort, reason = lies()[name]
    before = open_round(small_state(), ROBUST)
    after, receipt, merged = add_cohort(before, cohort.to_bytes(), 0.0)
    assert receipt.reason is reason, receipt
    assert merged is None
    assert after.accepted == 0
    assert after.quarantined == {reason.value: 1}


def test_a_sum_after_the_deadline_is_too_late() -> None:
    opened = open_round(small_state(), ROBUST, now=0.0)
    data = cohort_of([reply(1)], ROBUST).to_bytes()
    late = ROBUST.deadline_seconds + 1
    assert add_cohort(opened, data, late)[1].reason is Reason.TOO_LATE


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_no_bytes_raise(data: st.DataObject) -> None:
    whole = bytearray(cohort_of([reply(n) for n in range(3)], ROBUST).to_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(whole)))
    opened = open_round(small_state(), ROBUST)
    for found in (bytes(whole), bytes(whole[:cut]), data.draw(st.binary(max_size=50))):
        after, receipt, cohort = add_cohort(opened, found, 0.0)
        assert receipt.accepted == (cohort is not None)
        assert after.accepted == (cohort.count if cohort else 0)


@settings(max_examples=100, deadline=None)
@given(
    name=st.sampled_from(
        ["shards", "nonce", "norms", "clipped", "quarantined", "declined", "figures", "round"]
    ),
    value=st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=8) | st.just("1" * 99),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
        max_leaves=5,
    ),
)
def test_no_field_raises(name: str, value: object) -> None:
    whole = cohort_of([reply(n) for n in range(3)], ROBUST).to_bytes()
    found, tensors = parse_metadata(whole, "test"), parse(whole, "test")
    body = json.loads(found["body"])
    same = body[name] == value
    data = serialize(tensors, found | {"body": json.dumps({**body, name: value}, sort_keys=True)})
    _, receipt, _ = add_cohort(open_round(small_state(), ROBUST), data, 0.0)
    assert not receipt.accepted or same or name in ("norms", "declined", "figures", "quarantined",
                                                    "nonce", "clipped")  # fmt: skip


@given(total=st.integers(0, 500), parts=st.integers(1, 20))
def test_shares_are_even_and_whole(total: int, parts: int) -> None:
    found = shares(total, parts)
    assert sum(found) == total
    assert max(found) - min(found) <= 1


def test_totals_are_the_integers_themselves() -> None:
    cohort = cohort_of([reply(1)], ROBUST)
    (one,) = cohort.shards.values()
    again = CohortSum.from_bytes(cohort.to_bytes())
    np.testing.assert_array_equal(next(iter(again.shards.values())).totals, one.totals)

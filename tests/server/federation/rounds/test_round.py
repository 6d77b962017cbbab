from __future__ import annotations

import dataclasses
import math
import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketquery.client.update import decode_update
from pocketquery.sdk.errors import InvalidInputError
from pocketquery.server.federation.rounds.open_round import OpenRound, open_round
from pocketquery.server.federation.rounds.round import (
    Receipt,
    apply,
    close_round,
    prepare,
    receive,
    receive_all,
)
from pocketquery.server.federation.rounds.server_optimizers import FedAdam, FedAvgM
from pocketquery.server.federation.rounds.settings import RoundSettings
from pocketquery.server.federation.rounds.validation import Reason
from tests.server.federation.chaos.lies import forged
from tests.server.federation.replies import (
    SETTINGS,
    SHAPES,
    header,
    replies,
    reply,
    small_change,
    small_state,
)

STATE = small_state()
ROBUST = dataclasses.replace(SETTINGS, aggregation="median", shards=3)


def fed(opened: OpenRound, updates: list[bytes], now: float = 0.0) -> OpenRound:
    for data in updates:
        opened, _ = receive(opened, data, now)
    return opened


def with_settings(**changed: Any) -> RoundSettings:
    return dataclasses.replace(SETTINGS, **changed)


def test_the_new_adapter_is_the_old_one_and_the_weighted_mean_of_the_changes() -> None:
    updates = replies(5)
    state, report = apply(STATE, updates, SETTINGS)
    decoded = [decode_update(data) for data in updates]
    weights = [update.header.weight for update in decoded]
    for name in SHAPES:
        changes = [update.change[name].astype(np.float64) for update in decoded]
        wanted = STATE.adapter[name] + np.average(changes, axis=0, weights=weights)
        np.testing.assert_allclose(state.adapter[name], wanted, rtol=1e-6, atol=1e-7)
    assert (state.round, state.version) == (1, "1")
    assert (report.asked, report.received, report.accepted) == (8, 5, 5)
    assert report.weight == sum(weights)
    assert report.skipped is None
    assert report.step_norm == pytest.approx(report.change_norm, rel=1e-4)


kinds = st.sampled_from(
    [
        reply(1),
        reply(1, weight=1e9),  # the nonce of the one before, and worse
        reply(2),
        reply(3, clip_norm=1.05),
        reply(3, compress=False),
        reply(4, round=3),
        reply(5, space_id="space-b"),
        b"noise",
        *replies(9)[5:],
    ]
)


@given(st.lists(kinds, min_size=1, max_size=14), st.lists(st.booleans(), min_size=14, max_size=14))
def test_replies_at_once_are_replies_one_after_the_other(
    updates: list[bytes], are_prepared: list[bool]
) -> None:
    opened = open_round(STATE, dataclasses.replace(ROBUST, clients_per_round=5), now=0.0)
    wanted, told = opened, []
    for update in updates:
        wanted, receipt = receive(wanted, update, 2.0)
        told.append(receipt)
    some = [
        prepare(update, opened.expected, opened.settings) if is_prepared else update
        for update, is_prepared in zip(updates, are_prepared, strict=False)
    ]
    found, receipts = receive_all(opened, some, 2.0)
    assert receipts == told
    assert opened.received == 0
    assert close_round(found)[0].to_bytes() == close_round(wanted)[0].to_bytes()
    assert close_round(found)[1] == close_round(wanted)[1]


def test_a_step_is_shortened_to_the_largest_and_keeps_its_direction() -> None:
    updates = replies(5)
    whole, report = apply(STATE, updates, SETTINGS)
    same, _ = apply(STATE, updates, with_settings(largest_step=2 * report.step_norm))
    assert same.to_bytes() == whole.to_bytes()
    half, shortened = apply(STATE, updates, with_settings(largest_step=report.step_norm / 2))
    assert shortened.step_norm == report.step_norm / 2
    for name, old in STATE.adapter.items():
        wanted = (whole.adapter[name] - old) / 2
        np.testing.assert_allclose(half.adapter[name] - old, wanted, rtol=1e-4, atol=1e-6)
    with pytest.raises(InvalidInputError, match="largest_step"):
        with_settings(largest_step=0.0)


@pytest.mark.parametrize("settings", [SETTINGS, ROBUST, with_settings(optimizer=FedAdam())])
@given(order=st.permutations(range(8)))
def test_the_order_of_arrival_does_not_matter_to_the_bit(
    settings: RoundSettings, order: list[int]
) -> None:
    updates = replies(8)
    wanted, report = apply(STATE, updates, settings)
    found, other = apply(STATE, [updates[place] for place in order], settings)
    assert found.to_bytes() == wanted.to_bytes()
    assert other == report


@given(st.integers(0, 2**32))
def test_bad_replies_among_the_good_change_nothing_but_the_counts(seed: int) -> None:
    good = replies(6)
    bad = [
        b"noise",
        forged(good[0], weight="1e9"),
        forged(good[1], round="7"),
        reply(9, space_id="elsewhere"),
        reply(8, change={name: np.zeros(s, np.float32) for name, s in SHAPES.items()}),
    ]
    mixed = good + bad
    random.Random(seed).shuffle(mixed)
    wanted, _ = apply(STATE, good, SETTINGS)
    found, report = apply(STATE, mixed, SETTINGS)
    assert found.to_bytes() == wanted.to_bytes()
    assert sum(report.quarantined.values()) == 5
    assert (report.accepted, report.received) == (6, 11)


def test_each_reason_is_counted_and_told() -> None:
    opened = open_round(STATE, SETTINGS)
    opened, first = receive(opened, reply(1), 0.0)
    opened, second = receive(opened, reply(1), 0.0)
    opened, third = receive(opened, b"", 0.0)
    opened, fourth = receive(opened, b"", 0.0)
    assert first == Receipt(True, shard=0, nonce=header(1).nonce)
    assert (second.accepted, second.reason) == (False, Reason.DUPLICATE)
    assert third.reason == fourth.reason == Reason.MALFORMED
    assert dict(opened.quarantined) == {"duplicate": 1, "malformed": 2}
    assert close_round(opened)[1].quarantined == {"duplicate": 1, "malformed": 2}


def test_a_nonce_of_a_remembered_round_is_a_replay() -> None:
    settings = with_settings(remembered_rounds=2)
    state, _ = apply(STATE, replies(3), settings)
    for _ in range(2):
        forged_for_this_round = reply(1, state)
        _, receipt = receive(open_round(state, settings), forged_for_this_round, 0.0)
        assert receipt.reason == Reason.REPLAY
        state, _ = apply(state, [], settings)  # skipped rounds count as well
        assert len(state.seen) == 2
    _, receipt = receive(open_round(state, settings), reply(1, state), 0.0)
    assert receipt.accepted  # forgotten; the bytes of then would be stale


def test_yesterdays_bytes_are_stale() -> None:
    updates = replies(3)
    state, _ = apply(STATE, updates, with_settings(remembered_rounds=1))
    state, _ = apply(state, [], with_settings(remembered_rounds=1))
    _, report = apply(state, updates, SETTINGS)
    assert report.quarantined == {"stale_round": 3}


def test_after_the_deadline_a_reply_is_too_late() -> None:
    opened = open_round(STATE, with_settings(deadline_seconds=10.0), now=100.0)
    opened, receipt = receive(opened, reply(1), 110.0)
    assert receipt.accepted
    assert not opened.is_over(110.0)
    assert opened.is_over(110.5)
    opened, receipt = receive(opened, reply(2), 110.5)
    assert receipt.reason == Reason.TOO_LATE
    assert "deadline 10 s" in receipt.detail


def test_a_clock_that_runs_backwards_neither_ends_a_round_nor_gives_time_back() -> None:
    opened = open_round(STATE, with_settings(deadline_seconds=10.0), now=1000.0)
    for number, now in enumerate([1004.0, 3.0, 8.0]):
        opened, receipt = receive(opened, reply(number), now)
        assert receipt.accepted
    assert opened.elapsed == 9.0
    _, receipt = receive(opened, reply(5), 9.5)
    assert receipt.reason == Reason.TOO_LATE


@pytest.mark.parametrize("now", [math.nan, math.inf, -math.inf])
def test_a_clock_that_reads_nothing_is_the_callers_mistake(now: float) -> None:
    with pytest.raises(InvalidInputError, match="monotonic"):
        receive(open_round(STATE, SETTINGS), reply(1), now)


def test_more_replies_than_devices_were_asked_are_too_late() -> None:
    opened = fed(open_round(STATE, SETTINGS, asked=3), replies(3))
    opened, receipt = receive(opened, reply(7), 0.0)
    assert receipt.reason == Reason.TOO_LATE
    assert "all 3 replies" in receipt.detail


def test_a_round_is_full_with_enough_valid_replies() -> None:
    settings = with_settings(clients_per_round=4, over_selection=1.5, deadline_seconds=5.0)
    opened = fed(open_round(STATE, settings, now=0.0), replies(3))
    assert not opened.is_full
    assert not fed(opened, [b""] * 3).is_full
    assert fed(opened, [reply(4)]).is_full
    assert fed(opened, [reply(4)]).accepted == 4
    assert fed(opened, [reply(4), reply(5)]).accepted == 5  # over-selected ones are welcome


def test_a_round_with_too_few_valid_replies_is_skipped_and_says_so() -> None:
    before = dataclasses.replace(STATE, optimizer={}, version="5")
    state, report = apply(before, [reply(1, before), b"noise"], SETTINGS)
    assert report.skipped == "1 valid replies, at least 2 needed (asked 8, received 2)"
    assert report.version == "5"  # decided at once
    assert state.round == 1
    assert state.version == "5"
    assert state.adapter is before.adapter
    assert report.step_norm == report.change_norm == 0.0


def test_a_robust_round_whose_replies_fill_too_few_shards_takes_the_mean_and_says_so() -> None:
    shards = {receive(open_round(STATE, ROBUST), reply(n), 0.0)[1].shard: n for n in range(8)}
    two = [reply(number) for number in list(shards.values())[:2]]
    state, report = apply(STATE, two, ROBUST)
    said = "the mean was taken: 2 shards have updates, median needs at least 3; ask more clients"
    assert (report.skipped, report.aggregation, report.fallback) == (None, "mean", said)
    wanted, plain = apply(STATE, two, SETTINGS)
    assert state.to_bytes() == wanted.to_bytes()
    assert plain.fallback is None
    _, report = apply(STATE, replies(8), ROBUST)
    assert (report.aggregation, report.fallback) == ("median", None)


def test_an_empty_round_is_skipped() -> None:
    _, report = apply(STATE, [], SETTINGS)
    assert report.skipped is not None
    assert report.mean_norm == 0.0


def test_the_server_clips_again() -> None:
    change = small_change(3, scale=9.0)
    long = [reply(number, change=change, clip_norm=1.09) for number in range(3)]
    short = [reply(number, change=change, clip_norm=1.0) for number in range(3)]
    clipped, report = apply(STATE, long, SETTINGS)
    wanted, _ = apply(STATE, short, SETTINGS)
    assert report.clipped == 3
    assert report.mean_norm == pytest.approx(1.09, rel=1e-3)
    assert report.change_norm == pytest.approx(1.0, rel=1e-6)
    for name in SHAPES:
        np.testing.assert_allclose(clipped.adapter[name], wanted.adapter[name], atol=1e-5)


def test_hostile_devices_drag_the_mean_and_not_the_median() -> None:
    towards = {name: np.ones(shape, np.float32) for name, shape in SHAPES.items()}
    away = {name: -value for name, value in towards.items()}
    settings = with_settings(clients_per_round=100, aggregation="median", shards=7)
    honest = [reply(number, change=towards, weight=1.0) for number in range(97)]
    hostile = [reply(number, change=away, weight=256.0) for number in range(97, 100)]
    for one, sign in ((dataclasses.replace(settings, aggregation="mean"), -1), (settings, 1)):
        state, _ = apply(STATE, honest + hostile, one)
        for name in SHAPES:
            assert (sign * (state.adapter[name] - STATE.adapter[name]) > 0).all()


def test_by_default_what_a_device_says_of_its_own_weight_changes_no_bit() -> None:
    settings = RoundSettings(clients_per_round=20, clip_norm=1.0)
    wanted, _ = apply(STATE, [reply(n, weight=1.0) for n in range(20)], settings)
    found, report = apply(STATE, [reply(n, weight=256.0 - n) for n in range(20)], settings)
    assert found.to_bytes() == wanted.to_bytes()
    assert (report.weight, report.aggregation, report.accepted) == (20.0, "median", 20)


def test_by_default_one_device_in_twenty_turns_nothing_around() -> None:
    settings = RoundSettings()
    towards = small_change(1, scale=0.2)
    away = {name: -99 * value for name, value in towards.items()}
    noisy = [
        {name: value + small_change(10 + n)[name] for name, value in towards.items()}
        for n in range(19)
    ]
    honest = [reply(n, change=one, clip_norm=settings.clip_norm) for n, one in enumerate(noisy)]
    longest = settings.clip_norm * settings.norm_slack * 0.999
    hostile = reply(19, change=away, clip_norm=longest, weight=settings.largest_weight)
    state, report = apply(STATE, [*honest, hostile], settings)
    assert (report.accepted, report.clipped) == (20, 1)
    moved = np.concatenate([(state.adapter[n] - STATE.adapter[n]).ravel() for n in sorted(SHAPES)])
    mean = np.concatenate([np.mean([c[n] for c in noisy], axis=0).ravel() for n in sorted(SHAPES)])
    assert moved @ mean / np.linalg.norm(moved) / np.linalg.norm(mean) > 0.95


def test_an_answer_to_an_earlier_rounds_question_is_stale_whatever_it_says_of_itself() -> None:
    opened, receipt = receive(open_round(STATE, SETTINGS), reply(1), 0.0, late=True)
    assert receipt.reason == Reason.STALE_ROUND
    assert (opened.accepted, dict(opened.quarantined)) == (0, {"stale_round": 1})


def test_the_optimizers_moments_go_from_round_to_round() -> None:
    settings = with_settings(optimizer=FedAvgM(momentum=0.5))
    change = small_change(1)
    state = STATE
    for number in (0, 10):
        updates = [reply(number + i, state, change=change, weight=1.0) for i in range(2)]
        state, _ = apply(state, updates, settings)
    step = decode_update(reply(0, change=change)).change
    for name in SHAPES:  # 1 + (0.5 + 1) times the change
        moved = state.adapter[name] - STATE.adapter[name]
        np.testing.assert_allclose(moved, 2.5 * step[name], rtol=1e-4, atol=1e-6)
    with pytest.raises(InvalidInputError, match="without_moments"):
        open_round(state, SETTINGS)  # before any device is asked
    assert open_round(state.without_moments(), SETTINGS)


def test_receiving_leaves_the_round_before_as_it_was() -> None:
    before = open_round(STATE, SETTINGS)
    after = fed(before, replies(3))
    assert (before.accepted, after.accepted) == (0, 3)
    assert close_round(fed(before, replies(3)))[0].to_bytes() == close_round(after)[0].to_bytes()


def test_fewer_devices_than_wanted_may_be_asked_and_never_more() -> None:
    assert open_round(STATE, SETTINGS, asked=2).asked == 2
    for asked in (0, 9):
        with pytest.raises(InvalidInputError, match="from 1 to 8"):
            open_round(STATE, SETTINGS, asked=asked)

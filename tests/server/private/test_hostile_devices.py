"""Devices that lie to the server: named, left out, or there is no sum; never a wrong one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from pocketquery.client.private.masks import RingCodes
from pocketquery.client.private.messages import Stage
from pocketquery.client.private.replies import Boxes, Confirmed, Kind, Masked, Share, Shares
from pocketquery.client.private.state_file import SecureState
from pocketquery.server.private.coordinator import SecureReason, SecureSum, Skipped
from pocketquery.server.private.unmasking import Unmasked, norm_limit, unmask
from tests.client.private.group import Group, binding_of, drawn, ready_group

SIZE, K, T = 12, 11, 7
LIAR, OTHER, GONE = 3, 8, 5


@cache
def begun() -> tuple[Group, SecureSum, list[SecureState]]:
    group = ready_group(SIZE, K, T, least=5)
    states = [one.file.load() for one in group.members]
    return group, group.sum, [state for state in states if state is not None]


def fresh() -> Group:
    """A group whose devices have trained."""
    group, total, states = begun()
    for one, state in zip(group.members, states, strict=True):
        one.back_to(state)
    return Group(group.members, total)


def parsed(group: Group, position: int) -> Boxes | Masked | Confirmed | Shares:
    """The honest reply of a device to its message of this stage."""
    reply = group.answer(position)
    assert isinstance(reply, bytes), reply
    binding, boxes = group.binding, len(group.sum.near(position, group.sum.dealt))
    if group.sum.stage is Stage.INVITE:
        return Boxes.parse(reply, binding)
    if group.sum.stage is Stage.COLLECT:
        return Masked.parse(reply, binding, boxes)
    if group.sum.stage is Stage.CONFIRM:
        return Confirmed.parse(reply, binding, boxes)
    return Shares.parse(reply, binding)


Lie = Callable[[Group, int], bytes]


def run(
    lies: dict[tuple[Stage, int], Lie], gone: tuple[int, ...] = ()
) -> tuple[Group, Unmasked | Skipped]:
    """A whole round; ``gone`` are silent from stage 3 on."""
    group = fresh()
    while True:
        stage, silent = group.sum.stage, set()
        for (when, position), lie in lies.items():
            if when is stage and position in group.sum.waiting:
                group.sum, reason = group.sum.receive(stage, position, lie(group, position))
                assert reason is None
        if stage >= Stage.COLLECT:
            silent = set(gone)
        group.exchange(silent)
        if stage is Stage.UNMASK:
            return group, unmask(group.sum)
        if skipped := group.close():
            return group, skipped


def is_exact(group: Group, found: Unmasked | Skipped, *blamed: int) -> None:
    assert isinstance(found, Unmasked), found
    assert found.blamed == blamed
    assert np.array_equal(found.totals, group.plain_sum(found.survivors))


def changed(**fields: Callable[[Any], object]) -> Lie:
    """The honest reply with some of its fields changed, each by a function of what it was."""

    def lie(group: Group, position: int) -> bytes:
        honest = parsed(group, position)
        new: dict[str, Any] = {
            name: change(getattr(honest, name)) for name, change in fields.items()
        }
        return replace(honest, **new).to_bytes()

    return lie


def shares_of(value: Callable[[Share], Share]) -> Lie:
    """A reply in which every share is changed."""
    return changed(shares=lambda shares: tuple(value(one) for one in shares))


def zeros(size: int) -> Callable[[Any], object]:
    return lambda pieces: (bytes(size),) * len(pieces)


garbage = shares_of(lambda one: Share(one.kind, drawn("garbage", one.value)))


def test_a_garbage_share_is_named_and_the_sum_is_exact() -> None:
    group, found = run({(Stage.UNMASK, LIAR): garbage}, gone=(GONE,))
    is_exact(group, found, LIAR)


def test_a_share_out_of_the_field_is_named() -> None:
    lie = shares_of(lambda one: Share(one.kind, b"\xff" * 32))
    group, found = run({(Stage.UNMASK, LIAR): lie})
    is_exact(group, found, LIAR)


def test_several_who_give_garbage_are_named() -> None:
    group, found = run(
        {(Stage.UNMASK, LIAR): garbage, (Stage.UNMASK, OTHER): garbage}, gone=(GONE,)
    )
    is_exact(group, found, LIAR, OTHER)


def test_with_more_garbage_than_shares_to_spare_there_is_no_sum() -> None:
    liars = tuple(range(SIZE - T))
    _, found = run({(Stage.UNMASK, one): garbage for one in liars})
    assert isinstance(found, Skipped)
    assert (found.reason, found.blamed) == (SecureReason.BAD_SHARE, liars)
    assert "do not give its secret" in found.detail


def test_a_share_of_the_other_kind_is_none() -> None:
    other = {Kind.SELF: Kind.MASK, Kind.MASK: Kind.SELF, Kind.NONE: Kind.NONE}
    lie = shares_of(lambda one: Share(other[one.kind], one.value))
    group, found = run({(Stage.UNMASK, LIAR): lie}, gone=(GONE,))
    is_exact(group, found)


def test_who_published_another_digest_than_it_dealt_spoils_the_sum_and_is_named() -> None:
    _, found = run({(Stage.INVITE, LIAR): changed(self_digest=lambda _: bytes(32))})
    assert isinstance(found, Skipped)
    assert (found.reason, found.blamed) == (SecureReason.BAD_SHARE, (LIAR,))


def test_who_published_another_mask_key_than_it_dealt_and_went_is_named() -> None:
    other = begun()[0].members[OTHER].key.public
    lies = {(Stage.INVITE, LIAR): changed(mask_public=lambda _: other)}
    _, found = run(lies, gone=(LIAR,))
    assert isinstance(found, Skipped)
    assert (found.reason, found.blamed) == (SecureReason.BAD_SHARE, (LIAR,))
    group, found = run(lies)  # and where nobody is gone it does no harm
    is_exact(group, found)


@pytest.mark.parametrize(
    "codes",
    [
        np.frombuffer(drawn("y") * 3, np.uint32),
        np.random.default_rng(0).normal(size=24).astype(np.float32).view(np.uint32),
    ],
    ids=["garbage", "floats"],
)
def test_what_is_no_masked_change_is_out_of_range(codes: RingCodes) -> None:
    _, found = run({(Stage.COLLECT, LIAR): changed(codes=lambda _: codes)})
    assert isinstance(found, Skipped)
    assert found.reason is SecureReason.SUM_OUT_OF_RANGE


def test_a_change_within_range_that_no_group_can_have_is_too_long() -> None:
    def pushed(group: Group, position: int) -> bytes:
        most = SIZE * group.binding.encoding.largest_code
        push = (most - 1 - group.plain_sum(range(SIZE))).astype(np.uint32)
        return changed(codes=lambda codes: codes + push)(group, position)

    group, found = run({(Stage.COLLECT, LIAR): pushed})
    assert isinstance(found, Skipped)
    assert found.reason is SecureReason.SUM_NORM
    assert 1.1 <= norm_limit(group.sum) < 1.11


def test_the_second_of_two_replies_is_ignored() -> None:
    group = fresh()
    first = group.answer(LIAR)
    assert isinstance(first, bytes)
    honest = Boxes.parse(first, group.binding)
    group.sum, reason = group.sum.receive(Stage.INVITE, LIAR, first)
    assert reason is None
    other = replace(honest, self_digest=bytes(32)).to_bytes()
    after, reason = group.sum.receive(Stage.INVITE, LIAR, other)
    assert (after, reason) == (group.sum, SecureReason.DUPLICATE)
    assert after.dealt[LIAR] == honest


@pytest.mark.parametrize("stage", list(Stage)[1:])
def test_a_reply_of_another_length_position_round_or_stage_changes_nothing(stage: Stage) -> None:
    group = fresh()
    group.run_to(stage)
    reply, other = group.answer(LIAR), group.answer(OTHER)
    assert isinstance(reply, bytes)
    assert isinstance(other, bytes)
    for bad in (
        b"",
        reply[:-1],
        reply + b"\0",
        other,
        bytes(32) + reply[32:],
        reply[: len(reply) // 2],
    ):
        assert group.sum.receive(stage, LIAR, bad) == (group.sum, SecureReason.MALFORMED)
    place = reply[:32] + SIZE.to_bytes(4, "big") + reply[36:]
    assert group.sum.receive(stage, LIAR, place) == (group.sum, SecureReason.MALFORMED)
    for when in Stage:
        if when is not stage:
            late = SecureReason.TOO_LATE if when < stage else SecureReason.MALFORMED
            assert group.sum.receive(when, LIAR, reply) == (group.sum, late)


def test_a_masked_change_that_is_late_or_of_somebody_not_committed_is_unread() -> None:
    group = fresh()
    group.exchange(silent=(GONE,))
    assert group.close() is None
    late = group.answer(LIAR)
    assert isinstance(late, bytes)
    assert group.sum.receive(Stage.COLLECT, GONE, late) == (group.sum, SecureReason.TOO_LATE)
    group.exchange(silent=(LIAR,))
    total = group.sum.total
    assert group.close() is None
    assert group.sum.receive(Stage.COLLECT, LIAR, late) == (group.sum, SecureReason.TOO_LATE)
    assert group.sum.total is total
    assert LIAR not in group.sum.survivors


def test_a_mask_key_of_small_order_is_refused() -> None:
    group = fresh()
    honest = parsed(group, LIAR)
    assert isinstance(honest, Boxes)
    for bad in (bytes(32), b"\1" + bytes(31), b"\xff" * 32):
        body = replace(honest, mask_public=bad).to_bytes()
        assert group.sum.receive(Stage.INVITE, LIAR, body) == (group.sum, SecureReason.MALFORMED)


def test_garbage_boxes_or_marks_do_no_harm_or_there_is_no_sum() -> None:
    """Boxes that do not open make their receivers decline; who sends garbage held marks keeps its
    own mask; garbage confirm marks of as few as may collude change nothing."""
    garbage_marks = changed(marks=zeros(16))
    group, found = run({(Stage.CONFIRM, one): garbage_marks for one in range(2 * T - K - 1)})
    is_exact(group, found)
    for lies, reason in (
        ({(Stage.INVITE, LIAR): changed(boxes=zeros(112))}, SecureReason.BELOW_LEAST),
        ({(Stage.COLLECT, LIAR): changed(held=zeros(16))}, SecureReason.BELOW_THRESHOLD),
        (
            {(Stage.CONFIRM, one): garbage_marks for one in range(SIZE - T + 1)},
            SecureReason.BELOW_THRESHOLD,
        ),
    ):
        _, found = run(lies)
        assert isinstance(found, Skipped)
        assert found.reason is reason


def test_a_reply_of_another_round_is_none() -> None:
    group = fresh()
    other = Group(
        group.members,
        SecureSum.begin(binding_of(group.members, K, T, nonce=bytes(32)), group.sum.certificates),
    )
    reply = other.answer(LIAR)
    assert isinstance(reply, bytes)
    assert group.sum.receive(Stage.INVITE, LIAR, reply) == (group.sum, SecureReason.MALFORMED)

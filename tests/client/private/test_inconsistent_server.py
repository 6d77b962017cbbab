"""Servers that tell devices different things: each ends in a refusal.

Two attacks are also run against devices without the rule that stops them, where they succeed: so
the tests would notice if the attack, and not the rule, were what fails.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pocketquery.client.private.binding import roster_digest
from pocketquery.client.private.encoding import totals
from pocketquery.client.private.messages import (
    CollectedBoxes as Boxed,
)
from pocketquery.client.private.messages import (
    Invitation,
    Stage,
)
from pocketquery.client.private.replies import Kind, Masked, Shares
from pocketquery.client.private.rules import DeviceRules
from pocketquery.sdk.files import sha256_bytes
from tests.client.private.group import (
    OFFER,
    Group,
    announce,
    binding_of,
    declined,
    member,
    ready_group,
)
from tests.client.private.lying_server import (
    COLLUDING,
    HONEST,
    RULES,
    SIZE,
    K,
    Known,
    NeitherOfBoth,
    NoComparing,
    NoConfirming,
    NoHeldMarks,
    NoHolding,
    T,
    collected,
    complete,
    confirm,
    confirmation,
    known,
    rotating,
    unmasking,
)

# I1


def test_i1_another_release_than_was_trained_on_is_refused_and_two_do_not_mix() -> None:
    group = complete()
    binding, said = group.binding, Invitation.parse(group.sum.message(0))
    other = replace(binding, release_sha256=sha256_bytes(b"another release"))
    found = group.answer(0, replace(said, binding=other).to_bytes())
    assert "release: found" in declined(found)
    assert group.members[0].file.load() is None
    # Each half was shown its own release, all the way from the offer.
    members = [member(n, rules=RULES) for n in range(SIZE)]
    bindings = []
    for half, release in ((members[:10], b"one"), (members[10:], b"two")):
        offer = replace(OFFER, release=release)
        for one in half:
            assert isinstance(one.participant.answer(Stage.OFFER, announce(), offer), bytes)
        bindings.append(binding_of(members, K, T, offer=offer))
    replies = []
    certificates = tuple(one.certificate for one in members)
    for position, one in enumerate(members):
        near = tuple(certificates[other] for other in range(SIZE) if other != position)
        invitation = Invitation(position, bindings[position // 10], near)
        reply = one.participant.answer(Stage.INVITE, invitation.to_bytes())
        assert isinstance(reply, bytes)
        replies.append(reply)
    boxes = [
        replies[sender][100 + 112 * place : 212 + 112 * place]
        for sender in range(1, SIZE)
        for place in [0]  # of position 0
    ]
    mixed = Boxed(bindings[0].digest, tuple(range(K)), tuple(boxes))
    found = members[0].participant.answer(Stage.COLLECT, mixed.to_bytes(bindings[0]))
    assert "box of the neighbour at position 10" in declined(found)


# I2


def test_i2_two_rosters_give_boxes_that_do_not_open() -> None:
    group = complete()
    stranger = member(99, rules=RULES)
    keys = [one.key.public for one in group.members]
    keys[19] = stranger.key.public
    other = replace(group.binding, roster_sha256=roster_digest(keys))
    views = {position: other if position < 10 else group.binding for position in range(SIZE)}
    sealed = {}
    for position, binding in views.items():
        said = Invitation.parse(group.sum.message(position))
        reply = group.answer(position, replace(said, binding=binding).to_bytes())
        assert isinstance(reply, bytes)
        sealed[position] = reply[100 : 100 + 112]  # for position 0, or 1 from position 0
    boxes = tuple(sealed[position] for position in range(1, SIZE))
    body = Boxed(other.digest, tuple(range(K)), boxes).to_bytes(other)
    found = group.members[0].participant.answer(Stage.COLLECT, body)
    assert "box of the neighbour at position 10" in declined(found)


def test_i2_a_device_that_is_told_another_position_than_its_neighbours_holds_no_box() -> None:
    """All but two devices are told that these two sit in each other's places."""
    group = complete()
    for position in range(SIZE):
        said = Invitation.parse(group.sum.message(position))
        if position > 1:
            swapped = (said.certificates[1], said.certificates[0], *said.certificates[2:])
            said = replace(said, certificates=swapped)
        reply = group.answer(position, said.to_bytes())
        assert isinstance(reply, bytes)
        group.sum, reason = group.sum.receive(Stage.INVITE, position, reply)
        assert reason is None
    assert group.close() is None
    fair = Boxed.parse(group.sum.message(1), group.binding)
    # Position 1 gets what the others sealed with its key, for the place 0.
    boxes = list(fair.boxes)
    for place, sender in enumerate(group.binding.ring[1]):
        if sender > 1:
            boxes[place] = group.sum.dealt[sender].boxes[0]
    found = group.answer(1, replace(fair, boxes=tuple(boxes)).to_bytes(group.binding))
    assert "is not one that it dealt this device" in declined(found)


# I3


def test_i3_a_second_set_of_survivors_is_refused_and_marks_of_two_sets_do_not_add_up() -> None:
    group = complete()
    group.run_to(Stage.CONFIRM)
    everybody = tuple(range(SIZE))
    views = {
        position: everybody if position < 11 else tuple(one for one in everybody if one != 0)
        for position in everybody
    }
    replies = confirm(group, views)
    second = confirmation(group, tuple(one for one in everybody if one != 5))
    assert "answered before" in declined(group.answer(1, second))
    # Of those who saw the survivors that position 1 saw there are 10 others, and t is 12.
    body = unmasking(group, 1, replies)
    found = group.members[1].participant.answer(Stage.UNMASK, body)
    assert "10 neighbours confirmed" in declined(found)
    assert group.members[1].file.load() is None


# I4


def attack_by_rotating_survivors(kind: type[DeviceRules]) -> tuple[Group, Known, dict[int, Masked]]:
    group = complete(kind)
    group.run_to(Stage.COLLECT)
    changes, held = collected(group, {})
    views, _ = rotating()
    confirms = confirm(group, views)
    assert len(confirms) == SIZE
    return group, known(group, confirms, held, HONEST), changes


def test_i4_rotating_survivors_get_no_mask_key() -> None:
    group, found, _ = attack_by_rotating_survivors(DeviceRules)
    assert not found.revealed
    assert all(found.mask_key(one) is None for one in HONEST)
    assert all(group.members[one].file.load() is None for one in HONEST)


def test_i4_without_the_confirm_stage_rotating_survivors_lay_two_devices_open() -> None:
    group, found, changes = attack_by_rotating_survivors(NoConfirming)
    _, targets = rotating()
    assert len(targets) == len(HONEST) - 2
    assert all(found.mask_key(one) is not None for one in targets)
    few = [one for one in HONEST if one not in targets]
    result = found.sum_of(few, changes, [*targets, *COLLUDING])
    assert result is not None
    assert np.array_equal(totals(result, group.binding.encoding), group.plain_sum(few))


# I5


INSIDE, OUTSIDE = range(9), range(9, 16)


def attack_by_withheld_boxes(kind: type[DeviceRules]) -> tuple[Group, Known, dict[int, Masked]]:
    """Some get no boxes of the others, who hold theirs: so that the others reveal their self seeds
    without any mask between.
    """
    group = complete(kind)
    group.run_to(Stage.COLLECT)
    few = (*INSIDE, *COLLUDING)
    within = {one: tuple(other for other in few if other != one) for one in INSIDE}
    changes, held = collected(group, within)
    survivors = (0, 1, *OUTSIDE, *COLLUDING)
    confirms = confirm(group, dict.fromkeys(survivors, survivors))
    if issubclass(kind, NoComparing):
        assert all(len(confirms.keys() - {one}) == T for one in survivors)
    return group, known(group, confirms, held, [0, 1, *OUTSIDE]), changes


@pytest.mark.parametrize("kind", [DeviceRules, NoHeldMarks, NoComparing, NeitherOfBoth])
def test_i5_boxes_withheld_one_way_get_no_self_seed(kind: type[DeviceRules]) -> None:
    """Held marks are one defence, comparing the committed with the boxes that came another, and
    confirm marks count of neighbours alone whose boxes came.
    """
    _, found, _ = attack_by_withheld_boxes(kind)
    assert found.secret(0, Kind.SELF) is None
    assert found.secret(1, Kind.SELF) is None


def test_i5_without_held_marks_withheld_boxes_lay_two_devices_open() -> None:
    group, found, changes = attack_by_withheld_boxes(NoHolding)
    gone = [one for one in INSIDE if one > 1]
    result = found.sum_of((0, 1), changes, [*gone, *COLLUDING])
    assert result is not None
    assert np.array_equal(totals(result, group.binding.encoding), group.plain_sum((0, 1)))


# I6


def test_i6_fewer_survivors_than_the_device_insists_on_are_refused() -> None:
    group = ready_group(SIZE, K, T, rules=replace(RULES, least=16))
    group.run_to(Stage.CONFIRM)
    found = group.answer(0, confirmation(group, tuple(range(15))))
    assert "15 devices survive, expected at least 16" in declined(found)
    assert group.members[0].file.load() is None


# I7


def test_i7_an_invitation_is_neither_replayed_nor_a_round_reused() -> None:
    group = complete()
    one, old = group.members[0], group.sum.message(0)
    first = group.answer(0)
    assert group.answer(0) == first  # the same bytes, from the file
    again = replace(group.binding, nonce=bytes(32))
    said = replace(Invitation.parse(old), binding=again)
    assert "answered before" in declined(group.answer(0, said.to_bytes()))
    # The user erases; the same round comes again, from the offer on.
    one.file.erase()
    offered = one.participant.answer(Stage.OFFER, announce(), OFFER)
    assert "was in round 7" in declined(offered)
    earlier = one.participant.answer(Stage.OFFER, announce(), replace(OFFER, round=6))
    assert "was in round 7" in declined(earlier)
    # A later round begins; the old invitation comes again.
    later = replace(OFFER, round=8)
    assert isinstance(one.participant.answer(Stage.OFFER, announce(), later), bytes)
    assert "another round" in declined(group.answer(0, old))
    assert one.file.load() is not None
    # A ledger that knows the round refuses it even where the state of another time is put back.
    state = one.file.load()
    assert state is not None
    one.file.keep(replace(state, trained=replace(state.trained, round=7)))
    stolen = replace(Invitation.parse(old), binding=again).to_bytes()
    assert "took part in round 7" in declined(group.answer(0, stolen))


# I8


def test_i8_of_no_neighbour_both_kinds_of_share_are_revealed() -> None:
    group = complete()
    group.run_to(Stage.UNMASK)
    everybody = tuple(range(SIZE))
    reply = group.answer(0)
    assert isinstance(reply, bytes)
    shares = Shares.parse(reply, group.binding).shares
    assert {one.kind for one in shares} == {Kind.SELF}
    one = group.members[0].participant
    without = confirmation(group, tuple(v for v in everybody if v != 5))
    assert "answered before" in declined(one.answer(Stage.CONFIRM, without))
    assert "answered before" in declined(one.answer(Stage.UNMASK, unmasking(group, 0, {})))
    assert group.answer(0) == reply
    state = group.members[0].file.load()
    assert state is not None
    assert (state.held, state.secret, state.change.size) == ((), b"", 0)

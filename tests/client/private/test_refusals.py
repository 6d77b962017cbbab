"""What a device refuses in a round that it is in: neighbours, boxes, survivors, shares."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from pocketquery.client.device import Declined
from pocketquery.client.private.binding import Privacy
from pocketquery.client.private.keys import Certificate, sign_certificate
from pocketquery.client.private.messages import (
    CollectedBoxes,
    Confirmation,
    Invitation,
    Stage,
    Unmasking,
    survivors_digest,
)
from pocketquery.client.private.replies import Kind, Shares
from pocketquery.client.private.state_file import SecureProgress
from pocketquery.sdk.bundle.signature import sign
from pocketquery.sdk.errors import InvalidInputError
from tests.client.private.group import (
    AUTHORITY,
    FEDERATION,
    NOW,
    OFFER,
    SMALL,
    Group,
    announce,
    binding_of,
    declined,
    member,
    ready_group,
)

DEVICES = [member(n) for n in range(3)]
STRANGER = member(50)


# Certificates of neighbours, through the device itself.


def invited(change: Callable[[Invitation], Invitation], **rules: Any) -> str:
    group = ready_group(6, 5, 4, rules=replace(SMALL, **rules))
    said = change(Invitation.parse(group.sum.message(0)))
    found = group.answer(0, said.to_bytes())
    assert isinstance(found, Declined)
    assert group.members[0].file.load() is None
    return found.reason


def with_first(certificate: Certificate) -> Callable[[Invitation], Invitation]:
    return lambda said: replace(said, certificates=(certificate, *said.certificates[1:]))


def signed(key: bytes, expiry: int = int(NOW) + 100) -> Certificate:
    """As an authority would that signs any key."""
    text = b"pocketquery-enrolment-1\n" + FEDERATION + key + expiry.to_bytes(4, "big")
    return Certificate(key, expiry, sign(text, AUTHORITY))


LOW_ORDER = 325606250916557431795983626356110631294008115727848805560023387167927233504


NEIGHBOURS: dict[str, tuple[Certificate, str]] = {
    "of another authority": (
        sign_certificate(bytes(32), FEDERATION, STRANGER.key.public, int(NOW) + 100),
        "is not by this authority",
    ),
    "for another federation": (
        sign_certificate(AUTHORITY, bytes(16), STRANGER.key.public, int(NOW) + 100),
        "is not by this authority",
    ),
    "expired": (
        sign_certificate(AUTHORITY, FEDERATION, STRANGER.key.public, int(NOW)),
        "expired at",
    ),
    "the device's own": (DEVICES[0].certificate, "own key is a neighbour's"),
    "another neighbour's": (DEVICES[2].certificate, "the same device key"),
}


@pytest.mark.parametrize("name", NEIGHBOURS)
def test_a_neighbours_certificate_that_does_not_hold_is_refused(name: str) -> None:
    certificate, reason = NEIGHBOURS[name]
    assert reason in invited(with_first(certificate))


@pytest.mark.parametrize("key", [bytes(32), b"\1" + bytes(31), LOW_ORDER.to_bytes(32, "little")])
def test_a_key_of_small_order_is_refused_though_it_is_certified(key: bytes) -> None:
    assert "small order" in invited(with_first(signed(key)))


def test_a_revoked_neighbour_is_refused() -> None:
    revoked = frozenset({DEVICES[1].key.public})
    assert "is revoked" in invited(lambda said: said, revoked=revoked)


def test_a_certified_device_off_the_ring_opens_no_box() -> None:
    group = ready_group(9, 4, 3, rules=replace(SMALL, neighbours=4))
    ring = group.binding.ring
    stranger = next(n for n in range(1, 9) if n not in ring[0])
    said = Invitation.parse(group.sum.message(0))
    certificates = (group.members[stranger].certificate, *said.certificates[1:])
    reply = group.answer(0, replace(said, certificates=certificates).to_bytes())
    assert isinstance(reply, bytes)
    group.sum, _ = group.sum.receive(Stage.INVITE, 0, reply)
    group.exchange()
    assert group.close() is None
    assert "is not one that it dealt this device" in declined(group.answer(0))


def test_a_position_beyond_the_group_or_another_number_of_neighbours_is_no_invitation() -> None:
    group = ready_group(6, 5, 4)
    said = Invitation.parse(group.sum.message(0))
    for bad in (replace(said, position=6), replace(said, certificates=said.certificates[1:])):
        assert "an invitation holds" in declined(group.answer(0, bad.to_bytes()))
    assert isinstance(group.answer(0), bytes)  # nothing was changed


def test_a_device_with_an_expired_or_anothers_certificate_takes_no_part() -> None:
    old = member(0, expiry=int(NOW))
    found = old.participant.answer(Stage.OFFER, announce(), OFFER)
    assert "expired at" in declined(found)
    assert not old.trainer.trained
    with pytest.raises(InvalidInputError, match="have this one certified"):
        replace_certificate(old, DEVICES[1].certificate)


def replace_certificate(one: Any, certificate: Certificate) -> None:
    one.certificate = certificate
    one.restart()


# Boxes, survivors and what is revealed, through the device itself.


def masked_group(privacy: Privacy | None = None, **rules: Any) -> Group:
    group = ready_group(10, 9, 6, privacy=privacy, rules=replace(SMALL, **rules))
    group.run_to(Stage.CONFIRM)
    return group


def told_survivors(group: Group, committed: Sequence[int], survivors: Sequence[int]) -> str:
    """Why device 0 declines to confirm these sets."""
    digest = survivors_digest(group.binding.digest, committed, survivors, 10)
    said = Confirmation(group.binding.digest, tuple(committed), tuple(survivors), digest)
    return declined(group.answer(0, said.to_bytes(group.binding)))


def test_fewer_boxes_than_the_threshold_are_refused() -> None:
    group = ready_group(10, 9, 6)
    group.run_to(Stage.COLLECT)
    said = CollectedBoxes.parse(group.sum.message(0), group.binding)
    few = replace(said, members=said.members[:5], boxes=said.boxes[:5])
    found = group.answer(0, few.to_bytes(group.binding))
    assert "boxes of 5 neighbours came, expected at least 6" in declined(found)
    assert group.members[0].file.load() is None
    assert group.members[0].ledger.account(FEDERATION).last_masked is None


SETS: dict[str, tuple[tuple[int, ...], tuple[int, ...], str]] = {
    "not itself a survivor": (tuple(range(10)), tuple(range(1, 10)), "this device itself is not"),
    "not itself committed": (tuple(range(1, 10)), tuple(range(1, 10)), "this device itself is not"),
    "not a subset": (tuple(range(9)), tuple(range(10)), "survivors that were not committed"),
    "others committed": (tuple(range(9)), tuple(range(9)), "not those whose boxes came"),
    "few neighbours": (
        tuple(range(10)),
        tuple(range(6)),
        "5 neighbours survive, expected at least 6",
    ),
}


@pytest.mark.parametrize("name", SETS)
def test_survivors_that_break_one_rule_are_refused_by_it(name: str) -> None:
    committed, survivors, reason = SETS[name]
    group = masked_group()
    assert reason in told_survivors(group, committed, survivors)
    assert group.members[0].file.load() is None


def test_another_digest_of_the_survivors_is_refused() -> None:
    group = masked_group()
    said = Confirmation.parse(group.sum.message(0), group.binding)
    found = group.answer(0, replace(said, digest=bytes(32)).to_bytes(group.binding))
    assert "the digest of the survivors" in declined(found)


def test_fewer_survivors_than_least_are_refused() -> None:
    """Where devices add the noise, that is four fifths of the group."""
    reason = told_survivors(masked_group(least=9), range(10), range(8))
    assert "8 devices survive, expected at least 9" in reason
    noise = Privacy("devices", 2.4, 6, "one", 1)
    group = masked_group(noise, least=3, least_noisy=3)
    assert "7 devices survive, expected at least 8" in told_survivors(group, range(10), range(7))


def unmasked(change: Callable[[Unmasking], Unmasking]) -> bytes | Declined:
    group = ready_group(10, 9, 6)
    group.run_to(Stage.CONFIRM)
    group.exchange()
    assert group.close() is None
    said = change(Unmasking.parse(group.sum.message(0), group.binding))
    found = group.answer(0, said.to_bytes(group.binding))
    if isinstance(found, Declined):
        assert group.members[0].file.load() is None
    return found


def test_fewer_confirm_marks_than_the_threshold_reveal_nothing() -> None:
    def few(said: Unmasking) -> Unmasking:
        return replace(said, confirmers=said.confirmers[:5], confirms=said.confirms[:5])

    assert "5 neighbours confirmed the survivors, expected at least 6" in declined(unmasked(few))


def test_confirm_marks_that_are_not_theirs_do_not_count() -> None:
    def swapped(said: Unmasking) -> Unmasking:
        return replace(said, confirms=(*said.confirms[1:], said.confirms[0]))

    assert "0 neighbours confirmed" in declined(unmasked(swapped))


def test_a_self_seed_is_shared_only_where_a_held_mark_names_the_device() -> None:
    def changed(said: Unmasking) -> Unmasking:
        return replace(said, holders=said.holders[:-1], held=(bytes(16), *said.held[1:-1]))

    found = unmasked(changed)
    assert isinstance(found, bytes)
    shares = Shares.parse(found, binding_of([member(n) for n in range(10)], 9, 6)).shares
    kinds = [one.kind for one in shares]
    assert kinds == [Kind.NONE, *[Kind.SELF] * 7, Kind.NONE]


def test_nothing_is_revealed_after_the_expiry() -> None:
    group = ready_group(10, 9, 6)
    group.run_to(Stage.UNMASK)
    one = group.members[0]
    one.now[0] = float(group.binding.expiry)
    assert "the round expired" in declined(group.answer(0))
    assert one.file.load() is None
    late = group.members[1]
    assert isinstance(group.answer(1), bytes)
    late.now[0] = float(group.binding.expiry)
    assert "the round expired" in declined(group.answer(1))  # not even what was revealed before


def test_an_expiry_far_away_keeps_nothing_longer_than_a_day() -> None:
    members = [member(n) for n in range(6)]
    group = ready_group(6, 5, 4, members=members)
    binding = replace(group.binding, expiry=2**32 - 1)
    said = replace(Invitation.parse(group.sum.message(0)), binding=binding)
    assert isinstance(group.answer(0, said.to_bytes()), bytes)
    state = members[0].file.load()
    assert state is not None
    assert (state.progress, state.kept_until) == (SecureProgress.SHARED, NOW + 86_400)

"""Each rule of a device, broken alone: it is this rule that refuses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from pocketquery.client.device import Declined
from pocketquery.client.secure.binding import Binding, Privacy
from pocketquery.client.secure.encoding import Encoding
from pocketquery.client.secure.keys import Certificate, sign_certificate
from pocketquery.client.secure.ledger import Account
from pocketquery.client.secure.messages import (
    Collection,
    Confirmation,
    Invitation,
    Stage,
    Unmasking,
    survivors_digest,
)
from pocketquery.client.secure.replies import Kind, Shares
from pocketquery.client.secure.rules import DeviceRules, Trained
from pocketquery.client.secure.state_file import Progress
from pocketquery.sdk.bundle.signature import sign
from pocketquery.sdk.errors import InvalidInputError
from tests.client.secure.group import (
    AUTHORITY,
    FEDERATION,
    NOW,
    OFFER,
    SMALL,
    WIDE,
    Group,
    announce,
    binding_of,
    member,
    ready_group,
)

NOISE = Privacy("devices", 2.4, 64, "one", 1)
SIZE, K, T = 100, 84, 51
MEMBERS = [member(n) for n in range(SIZE)]
BINDING = binding_of(MEMBERS, K, T, privacy=NOISE, encoding=replace(WIDE, exponent=10))
TRAINED = Trained(
    FEDERATION, 7, BINDING.release_sha256, BINDING.settings_sha256, BINDING.encoding.size, 1.0
)
RULES = DeviceRules()
NEW = Account()


def refusal(
    binding: Binding = BINDING, rules: DeviceRules = RULES, account: Account = NEW
) -> str | None:
    return rules.of_invitation(binding, TRAINED, account, NOW)


def noisy(**changes: Any) -> Binding:
    return replace(BINDING, privacy=replace(NOISE, **changes))


def test_a_round_by_the_rules_is_not_refused() -> None:
    assert refusal() is None
    assert RULES.of_offer(NOISE, 7, NEW) is None


BROKEN: dict[str, tuple[Binding, str]] = {
    "group below least": (
        replace(BINDING, size=99),
        "the group has 99 devices, expected at least 100",
    ),
    "few neighbours": (
        replace(BINDING, neighbours=82, threshold=51),
        "82 neighbours, expected at least 84",
    ),
    "low threshold": (replace(BINDING, threshold=49), "the threshold is 49 of 84 neighbours"),
    "release": (replace(BINDING, release_sha256="0" * 64), "release: found 0"),
    "settings": (replace(BINDING, settings_sha256="0" * 64), "settings: found 0"),
    "size": (
        replace(BINDING, encoding=replace(BINDING.encoding, size=25)),
        "number of values: found 25",
    ),
    "clip": (
        replace(BINDING, encoding=replace(BINDING.encoding, clip=1.5)),
        "clip_norm: found 1.5",
    ),
    "expired": (replace(BINDING, expiry=int(NOW)), "the round expired"),
    "no noise": (replace(BINDING, privacy=Privacy()), "accepts its own alone"),
    "server's noise": (noisy(mode="server"), "accepts its own alone"),
    "little noise": (noisy(noise_multiplier=1.9), "the noise multiplier is 1.9"),
    "counted on too many": (noisy(counted_on=65), "expected at most 64"),
    "season's participations": (noisy(participations=1), "took part 1 times in the season, of 1"),
    "coarse": (
        replace(BINDING, encoding=Encoding(24, 16, 0, 0.5, 1.0)),
        "the noise is of",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_an_invitation_that_breaks_one_rule_is_refused_by_it(name: str) -> None:
    binding, reason = BROKEN[name]
    account = NEW
    if name == "season's participations":
        account = NEW.charged(0, binding.privacy, 1)
        account = replace(account, last_masked=None)
    found = refusal(binding, account=account)
    assert found is not None
    assert reason in found


def test_without_noise_a_group_of_twenty_is_enough_and_of_nineteen_is_not() -> None:
    rules = DeviceRules(privacy="any")
    plain = binding_of(MEMBERS[:20], 19, 12)
    assert refusal(plain, rules) is None
    few = binding_of(MEMBERS[:19], 18, 11)
    assert "19 devices, expected at least 20" in str(refusal(few, rules))
    assert refusal(noisy(mode="server", counted_on=0), rules) is None


def test_a_complete_group_has_as_many_neighbours_as_there_are() -> None:
    rules = DeviceRules(privacy="any")
    assert refusal(binding_of(MEMBERS[:20], 18, 11), rules) == (
        "each device has 18 neighbours, expected at least 19"
    )
    assert "does not withstand" in str(refusal(binding_of(MEMBERS[:20], 19, 11), rules))


@pytest.mark.parametrize(
    ("rest", "last", "allowed"), [(8, 0, False), (7, 0, True), (8, None, True)]
)
def test_a_device_rests(rest: int, last: int | None, allowed: bool) -> None:
    rules, account = replace(RULES, rest=rest), replace(NEW, last_masked=last)
    for found in (refusal(BINDING, rules, account), rules.of_offer(NOISE, 7, account)):
        assert (found is None) == allowed
        if found:
            assert "rests for 8" in found


def test_a_device_stays_away_for_as_long_as_the_servers_noise_is_correlated() -> None:
    rules, account = DeviceRules(privacy="any", rest=1), replace(NEW, last_masked=0)
    for bands, allowed in ((7, True), (8, False)):
        privacy = Privacy("server", 4.0, 0, "one", 1, bands)
        assert (rules.of_offer(privacy, 7, account) is None) == allowed


def test_the_ledger_has_room_for_a_round_or_it_is_refused() -> None:
    wide = replace(RULES, participations=5)
    spent = replace(NEW.charged(0, noisy(participations=5).privacy, 200_000), last_masked=None)
    assert refusal(noisy(participations=5), wide, spent) is None
    assert "took part 1 times" in str(refusal(noisy(participations=5), RULES, spent))
    assert "took part 1 times" in str(refusal(noisy(participations=1), wide, spent))
    much = replace(spent, spent=300_000)
    assert "epsilon 4.52" in str(refusal(noisy(participations=5), wide, much))
    assert refusal(noisy(participations=5), replace(wide, epsilon=5.0), much) is None
    tight = replace(RULES, epsilon=1.9)
    assert "epsilon 1.98 at delta 1e-06, of 1.9" in str(refusal(rules=tight))


def test_another_season_needs_the_devices_leave() -> None:
    spent = replace(NEW.charged(0, replace(NOISE, season="zero"), 1), last_masked=None)
    assert "raise seasons" in str(refusal(account=spent))
    assert refusal(rules=replace(RULES, seasons=2), account=spent) is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("secure", "never"),
        ("least", 1),
        ("collusion", 1.0),
        ("collusion", -0.1),
        ("rest", 0),
        ("privacy", "server"),
        ("noise_least", -1.0),
        ("participations", 0),
        ("seasons", 0),
        ("epsilon", 0.0),
        ("delta", 1.0),
        ("revoked", ["a"]),
    ],
)
def test_a_rule_out_of_range_is_refused(name: str, value: object) -> None:
    with pytest.raises(InvalidInputError, match=f"{name} is"):
        DeviceRules(**{name: value})  # type: ignore[arg-type]


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


def test_a_neighbour_certified_by_another_authority_is_refused() -> None:
    stranger = sign_certificate(bytes(32), FEDERATION, MEMBERS[50].key.public, int(NOW) + 100)
    assert "is not by this authority" in invited(with_first(stranger))


def test_a_neighbour_certified_for_another_federation_is_refused() -> None:
    stranger = sign_certificate(AUTHORITY, bytes(16), MEMBERS[50].key.public, int(NOW) + 100)
    assert "is not by this authority" in invited(with_first(stranger))


def test_a_neighbour_whose_certificate_expired_is_refused() -> None:
    old = sign_certificate(AUTHORITY, FEDERATION, MEMBERS[50].key.public, int(NOW))
    assert "expired at" in invited(with_first(old))


def test_the_devices_own_key_as_a_neighbours_is_refused() -> None:
    assert "own key is a neighbour's" in invited(with_first(MEMBERS[0].certificate))


def test_one_key_for_two_neighbours_is_refused() -> None:
    assert "the same device key" in invited(with_first(MEMBERS[2].certificate))


@pytest.mark.parametrize("key", [bytes(32), b"\1" + bytes(31), LOW_ORDER.to_bytes(32, "little")])
def test_a_key_of_small_order_is_refused_though_it_is_certified(key: bytes) -> None:
    assert "small order" in invited(with_first(signed(key)))


def test_a_revoked_neighbour_is_refused() -> None:
    revoked = frozenset({MEMBERS[1].key.public})
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


def declined(found: bytes | Declined) -> str:
    assert isinstance(found, Declined), "it answered"
    return found.reason


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
        replace_certificate(old, MEMBERS[1].certificate)


def replace_certificate(one: Any, certificate: Certificate) -> None:
    one.certificate = certificate
    one.restart()


# Boxes, survivors and what is revealed, through the device itself.


def masked_group(**rules: Any) -> Group:
    group = ready_group(10, 9, 6, rules=replace(SMALL, **rules))
    group.run_to(Stage.CONFIRM)
    return group


def test_fewer_boxes_than_the_threshold_are_refused() -> None:
    group = ready_group(10, 9, 6)
    group.run_to(Stage.COLLECT)
    said = Collection.parse(group.sum.message(0), group.binding)
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
    digest = survivors_digest(group.binding.digest, committed, survivors, 10)
    said = Confirmation(group.binding.digest, committed, survivors, digest)
    assert reason in declined(group.answer(0, said.to_bytes(group.binding)))
    assert group.members[0].file.load() is None


def test_another_digest_of_the_survivors_is_refused() -> None:
    group = masked_group()
    said = Confirmation.parse(group.sum.message(0), group.binding)
    found = group.answer(0, replace(said, digest=bytes(32)).to_bytes(group.binding))
    assert "the digest of the survivors" in declined(found)


def test_fewer_survivors_than_least_are_refused() -> None:
    group = masked_group(least=9)
    everybody, survivors = tuple(range(10)), tuple(range(8))
    digest = survivors_digest(group.binding.digest, everybody, survivors, 10)
    said = Confirmation(group.binding.digest, everybody, survivors, digest)
    found = group.answer(0, said.to_bytes(group.binding))
    assert "8 devices survive, expected at least 9" in declined(found)


def test_where_devices_add_the_noise_four_fifths_of_the_group_must_survive() -> None:
    rules = replace(SMALL, least=3, least_noisy=3)
    assert rules.least_survivors(BINDING) == 80
    assert replace(rules, least_noisy=90).least_survivors(BINDING) == 90
    assert rules.least_survivors(noisy(mode="server")) == 3
    assert rules.least_survivors(replace(BINDING, size=101)) == 81
    noise = Privacy("devices", 2.4, 6, "one", 1)
    group = ready_group(10, 9, 6, privacy=noise, rules=rules)
    group.run_to(Stage.CONFIRM)
    everybody, survivors = tuple(range(10)), tuple(range(7))
    digest = survivors_digest(group.binding.digest, everybody, survivors, 10)
    said = Confirmation(group.binding.digest, everybody, survivors, digest)
    found = group.answer(0, said.to_bytes(group.binding))
    assert "7 devices survive, expected at least 8" in declined(found)


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
    assert (state.progress, state.kept_until) == (Progress.SHARED, NOW + 86_400)

"""Each rule of a device, broken alone: it is this rule that refuses."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pocketquery.client.private.binding import Binding, Privacy
from pocketquery.client.private.encoding import Encoding
from pocketquery.client.private.ledger import Account
from pocketquery.client.private.rules import DeviceRules, Trained
from pocketquery.sdk.errors import InvalidInputError
from tests.client.private.group import (
    FEDERATION,
    NOW,
    SMALL,
    WIDE,
    binding_of,
    member,
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


def test_a_group_counts_as_no_larger_than_a_device_can_believe() -> None:
    """A server may say anything of a group's size; each device's noise is a share of so many's."""
    large = replace(BINDING, size=20_000)
    for counted, largest, allowed in (
        (12_800, 1_000, False), (641, 1_000, False), (640, 1_000, True), (12_800, 20_000, True),
    ):  # fmt: skip
        rules, privacy = replace(RULES, largest_group=largest), replace(NOISE, counted_on=counted)
        for found in (
            refusal(replace(large, privacy=privacy), rules),
            rules.of_offer(privacy, 7, NEW),
        ):
            assert (found is None) == allowed
            if found:
                assert f"{counted} devices is counted on, this device accepts at most 640" in found
                assert "its largest-group is 1000" in found
    assert DeviceRules().largest_group == 1_000
    assert refusal(replace(large, privacy=Privacy()), DeviceRules(privacy="any")) is None


def test_without_noise_a_group_of_twenty_is_enough_and_of_nineteen_is_not() -> None:
    rules = DeviceRules(privacy="any")
    plain = binding_of(MEMBERS[:20], 19, 12)
    assert refusal(plain, rules) is None
    few = binding_of(MEMBERS[:19], 18, 11)
    assert "19 devices, expected at least 20" in str(refusal(few, rules))


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


def test_a_device_without_budget_is_not_ready_either() -> None:
    """Told from the offer, before it trains: it would spoil the round of its group later."""
    spent = replace(NEW.charged(0, NOISE, 86_806), last_masked=None)
    for rules, account in (
        (RULES, spent),
        (RULES, replace(spent, season="zero")),
        (replace(RULES, epsilon=1.9), NEW),
    ):
        reason = rules.of_offer(NOISE, 7, account)
        assert reason is not None
        assert reason == refusal(rules=rules, account=account)


def test_a_round_without_noise_is_not_refused_for_what_others_cost() -> None:
    spent = replace(NEW.charged(0, NOISE, 10**9), last_masked=None)
    assert refusal(replace(BINDING, privacy=Privacy()), DeviceRules(privacy="any"), spent) is None


def test_another_season_needs_the_devices_leave() -> None:
    spent = replace(NEW.charged(0, replace(NOISE, season="zero"), 1), last_masked=None)
    assert "raise seasons" in str(refusal(account=spent))
    assert refusal(rules=replace(RULES, seasons=2), account=spent) is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("secure", "never"),
        ("least", 1),
        ("largest_group", 1),
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


def test_four_fifths_must_survive_where_devices_add_the_noise() -> None:
    rules = replace(SMALL, least=3, least_noisy=3)
    assert rules.least_survivors(BINDING) == 80
    assert replace(rules, least_noisy=90).least_survivors(BINDING) == 90
    assert rules.least_survivors(replace(BINDING, privacy=Privacy())) == 3
    assert rules.least_survivors(replace(BINDING, size=101)) == 81

"""Who may train for a round, and how long a place is a device's."""

from __future__ import annotations

import pytest

from pocketquery_gateway.limits import Leases

TIME = 600.0  # seconds of a lease


class Places:
    """Leases of one cohort, and devices by a letter."""

    def __init__(self, free: int) -> None:
        self.leases, self.free = Leases(TIME), free

    def ask(self, devices: str, now: float) -> str:
        """The devices that get the offer, of those that ask one after the other."""
        return "".join(
            who for who in devices if self.leases.take(who.encode(), "cohort", self.free, now)
        )


@pytest.mark.parametrize("every", [1.0, 60.0, 299.0, 500.0, 599.0])
def test_asking_again_holds_no_place(every: float) -> None:
    places, now = Places(2), 0.0
    assert places.ask("ab", now) == "ab"
    while now + every < TIME:
        now += every
        assert places.ask("abc", now) == "ab"
    assert "c" in places.ask("abc", TIME + 1)


@pytest.mark.parametrize(
    ("asked", "offered"),
    [
        # One after the other: when, who asks, who gets it. Two places.
        ([(0, "ab"), (601, "ab")], ["ab", "ab"]),  # nobody waits
        ([(0, "ab"), (1, "c"), (601, "abc")], ["ab", "", "ac"]),  # one place is over
        ([(0, "ab"), (1, "cd"), (601, "abcd")], ["ab", "", "cd"]),
        ([(0, "ab"), (1, "cd"), (602, "ab"), (603, "cd")], ["ab", "", "", "cd"]),
        ([(0, "ab"), (1, "cd"), (1300, "ab")], ["ab", "", "ab"]),  # c and d have gone
        ([(0, "ab"), (1, "cd"), (601, "cd"), (602, "ab"), (1202, "abcd")],
         ["ab", "", "cd", "", "ab"]),
        # Of those that lapsed a place is kept for who waits and lapsed less often.
        ([(0, "ab"), (601, "ab"), (602, "c"), (1202, "abc"), (1203, "b"), (1803, "abc"),
          (1804, "b")],
         ["ab", "ab", "", "ac", "", "ab", "b"]),
    ],
)  # fmt: skip
def test_who_lapsed_goes_behind_those_who_wait(
    asked: list[tuple[float, str]], offered: list[str]
) -> None:
    places = Places(2)
    assert [places.ask(devices, now) for now, devices in asked] == offered


@pytest.mark.parametrize("counts", [True, False])
def test_what_does_not_count_is_a_lapse(counts: bool) -> None:
    places = Places(1)
    assert places.ask("abc", 0) == "a"
    places.leases.give_back(b"a", 1, counts=counts)
    assert places.ask("abc", 2) == ("a" if counts else "b")


def test_another_cohort_begins_anew_and_a_lapse_is_forgotten_after_a_day() -> None:
    places = Places(1)
    assert places.ask("ab", 0) == "a"
    assert places.ask("ba", 601) == "b"
    assert places.leases.take(b"a", "another", 1, 602)
    places = Places(1)
    assert places.ask("a", 0) == "a"
    assert places.ask("ba", 700) == "b"
    later = 700 + 86_400
    assert places.ask("c", later - 1) == "c"
    assert places.ask("d", later) == ""
    assert places.ask("a", later + TIME) == "a"


def test_memory_does_not_grow_with_who_asks() -> None:
    leases = Leases(TIME, most=10)
    for number in range(1000):
        who = number.to_bytes(2)
        leases.take(who, "cohort", 5, float(number))
        leases.give_back(who, float(number), counts=False)
    assert len(leases._lapses) <= 10
    assert all(len(level) <= 10 for level in leases._waiting)

from __future__ import annotations

import pytest

from pocketquery.server.pretraining.round_robin import WeightedRoundRobin


def test_everyone_has_their_share_exactly_in_every_round() -> None:
    turns = WeightedRoundRobin([3, 1], (0,))
    for first in (0, 256):
        dealt = [turns[number].who for number in range(first, first + 256)]
        assert dealt.count(0) == 192


def test_before_counts_the_owners_earlier_turns_whatever_was_asked_before() -> None:
    counts = [0, 0, 0]
    turns = WeightedRoundRobin([5, 2, 1], (1,))
    expected = []
    for number in range(600):
        turn = turns[number]
        assert turn.before == counts[turn.who]
        counts[turn.who] += 1
        expected.append(turn)
    assert [WeightedRoundRobin([5, 2, 1], (1,))[n] for n in (599, 3, 300)] == [
        expected[n] for n in (599, 3, 300)
    ]


def test_the_smallest_share_still_has_a_turn() -> None:
    turns = WeightedRoundRobin([1e9, 1], (0,))
    assert {turns[number].who for number in range(300)} == {0, 1}


def test_rounds_are_shuffled_and_seeds_differ() -> None:
    def order(seed: int, first: int) -> list[int]:
        turns = WeightedRoundRobin([1, 1], (seed,))
        return [turns[number].who for number in range(first, first + 256)]

    assert order(0, 0) != order(0, 256)
    assert order(0, 0) != order(1, 0)
    assert order(0, 0) == order(0, 0)


@pytest.mark.parametrize("count", [1, 7, 300])
def test_equal_shares_differ_by_one_turn_at_most(count: int) -> None:
    turns = WeightedRoundRobin([1.0] * count, (0,))
    dealt = [turns[number].who for number in range(max(256, count))]
    sizes = [dealt.count(who) for who in range(count)]
    assert max(sizes) - min(sizes) <= 1

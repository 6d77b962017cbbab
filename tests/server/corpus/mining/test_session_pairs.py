from __future__ import annotations

import random
import tracemalloc

import pytest

from pocketquery.sdk.errors import InvalidInputError
from pocketquery.server.corpus.groups import Group
from pocketquery.server.corpus.mining.named_streams import named_seed
from pocketquery.server.corpus.mining.session_pairs import (
    SessionPairsConfig,
    mine_session,
    mine_session_pairs,
)

SESSION = Group("s", ("u0", "a1", "u2", "a3"), ("user", "agent", "user", "agent"), "en")


def texts(config: SessionPairsConfig, session: Group = SESSION) -> list[tuple[str, ...]]:
    return [pair.texts for pair in mine_session(session, config)]


def test_any_turn_of_the_user_goes_with_any_of_the_agent() -> None:
    assert texts(SessionPairsConfig()) == [("u0", "a1"), ("u0", "a3"), ("u2", "a1"), ("u2", "a3")]


def test_adjacent_turns() -> None:
    adjacent = SessionPairsConfig(policy="adjacent")
    assert texts(adjacent) == [("u0", "a1"), ("u2", "a1"), ("u2", "a3")]


def test_a_few_of_many_drawn_by_the_seed_and_the_session() -> None:
    every = texts(SessionPairsConfig())
    drawn = {tuple(texts(SessionPairsConfig(pairs=2, seed=seed))) for seed in range(20)}
    assert len(drawn) > 2
    assert all(len(one) == 2 and set(one) < set(every) for one in drawn)
    one = SessionPairsConfig(pairs=1)
    alone = mine_session(SESSION, one)
    assert list(mine_session_pairs([Group("t", ()), SESSION], one)) == alone


@pytest.mark.parametrize("policy", ["any", "adjacent"])
def test_those_drawn_are_a_sample_of_all_and_of_a_long_session_too(policy: str) -> None:
    roles = [random.Random(n).choice(("user", "agent", "guest")) for n in range(700)]
    for turns in (9, 700):
        session = Group("s", tuple(map(str, range(turns))), tuple(roles[:turns]))
        tracemalloc.start()
        drawn = texts(SessionPairsConfig(policy, pairs=3, seed=1), session)
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert most < 4 << 20  # all pairs of 700 turns are some hundred thousand
        every = [pair.texts for pair in mine_session(session, SessionPairsConfig(policy, 10**7))]
        rng = random.Random(named_seed("1/s"))
        assert drawn == [every[place] for place in sorted(rng.sample(range(len(every)), 3))]


def test_pairs_carry_the_session() -> None:
    assert {(pair.id, pair.lang) for pair in mine_session(SESSION, SessionPairsConfig())} == {
        ("s", "en")
    }


@pytest.mark.parametrize("policy", ["any", "adjacent"])
@pytest.mark.parametrize(
    "session",
    [
        Group("s", ()),
        Group("s", ("a", "b"), ("user", "user")),
        Group("s", ("a", "b"), ("agent", "agent")),
        Group("s", ("a", "b")),
    ],
)
def test_sessions_without_two_speakers_give_nothing(session: Group, policy: str) -> None:
    assert texts(SessionPairsConfig(policy=policy), session) == []


def test_settings_that_cannot_be() -> None:
    with pytest.raises(InvalidInputError, match="policy"):
        SessionPairsConfig(policy="near")
    with pytest.raises(InvalidInputError, match="pairs"):
        SessionPairsConfig(pairs=0)

"""Pairs of a user's and an agent's turn of one session, written down once.

"Auto-MLM: Improved Contrastive Learning for Self-supervised Multi-lingual Knowledge Retrieval",
the section on its data: a session has one intent, so that any turn of the user belongs to any of
the agent's, adjacent or not. Its own objective draws such pairs from sessions anew every epoch;
these are for objectives that read pairs only.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from pocketquery.sdk.errors import InvalidInputError
from pocketquery.server.corpus.groups import Group
from pocketquery.server.corpus.mining.named_streams import named_seed

__all__ = ["POLICIES", "SessionPairsConfig", "mine_session", "mine_session_pairs"]

POLICIES = ("any", "adjacent")


@dataclass(frozen=True)
class SessionPairsConfig:
    """How pairs are taken from sessions.

    Attributes:
        policy: ``"any"`` turn of the user with any of the agent, or ``"adjacent"`` ones.
        pairs: of a session at most.
        user: the role whose turn is the first text; all other roles are the second's.
        seed: of the choice among more pairs than that.
    """

    policy: str = "any"
    pairs: int = 4
    user: str = "user"
    seed: int = 0

    def __post_init__(self) -> None:
        if self.policy not in POLICIES:
            raise InvalidInputError(
                f'policy is "{self.policy}"; expected one of {", ".join(POLICIES)}'
            )
        if self.pairs < 1:
            raise InvalidInputError(f"pairs is {self.pairs}; expected at least 1")


def mine_session_pairs(
    sessions: Iterable[Group], config: SessionPairsConfig | None = None
) -> Iterator[Group]:
    """The pairs of all sessions, one session in memory at a time."""
    config = config or SessionPairsConfig()
    for session in sessions:
        yield from mine_session(session, config)


def mine_session(session: Group, config: SessionPairsConfig) -> list[Group]:
    """The pairs of one session: (user's turn, agent's turn), with the session's id.

    A session of one role has none.
    """
    turns = list(zip(session.roles, session.texts, strict=bool(session.roles)))
    asked = [place for place, (role, _) in enumerate(turns) if role == config.user]
    answered = [place for place, (role, _) in enumerate(turns) if role != config.user]
    if config.policy == "adjacent":
        answers = set(answered)
        both = [(u, a) for u in asked for a in (u - 1, u + 1) if a in answers]
        chosen = _chosen(len(both), session.id, config)
        pairs = [both[place] for place in chosen]
    else:  # by number: all of them are as many as the square of the turns
        chosen = _chosen(len(asked) * len(answered), session.id, config)
        pairs = [(asked[n // len(answered)], answered[n % len(answered)]) for n in chosen]
    return [Group(session.id, (turns[u][1], turns[a][1]), lang=session.lang) for u, a in pairs]


def _chosen(count: int, id: str, config: SessionPairsConfig) -> Sequence[int]:
    """Which of ``count`` pairs are taken, rising."""
    if count <= config.pairs:
        return range(count)
    rng = random.Random(named_seed(f"{config.seed}/{id}"))
    return sorted(rng.sample(range(count), config.pairs))

"""Two texts that belong together, drawn from a session, a titled document, a pair or a window.

"Auto-MLM: Improved Contrastive Learning for Self-supervised Multi-lingual Knowledge Retrieval",
the section on its training pairs: a session has one intent, so any turn of the agent and any turn
of the user go together. The section's text calls the user's turn q_a; its figure and the
subscripts say agent, and those are followed here.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple

from pocketquery.sdk.errors import InvalidInputError
from pocketquery.server.corpus.groups import Group, Source
from pocketquery.server.corpus.readers.sessions import KNOWN_ROLES
from pocketquery.server.objectives.shared.losses import plain_text

__all__ = [
    "Neighbours",
    "TextPair",
    "SessionTurn",
    "check_user_role",
    "draw_adjacent",
    "draw_neighbours",
    "draw_pair",
    "session_turns",
]

_USERS = frozenset(name for name, side in KNOWN_ROLES.items() if side == "user")
_MOST_SHOWN = 10  # roles that an error names


class TextPair(NamedTuple):
    """What one group gave: two texts of one intent, or a single text.

    Attributes:
        group: the id of the group; a batch never holds two pairs of one group.
        user: a user's turn, a title, a pair's first text, or the text that stands alone.
        agent: an agent's turn, a sentence under the title, a pair's second text; ``""`` where
            ``user`` stands alone.
    """

    group: str
    user: str
    agent: str = ""


class SessionTurn(NamedTuple):
    """Consecutive messages of one side of a session, joined by single blanks."""

    by_user: bool
    text: str


def session_turns(group: Group, user_role: str = "") -> list[SessionTurn]:
    """The turns of a session, sides alternating; empty messages are left out.

    Args:
        group: with roles.
        user_role: who is the user; by default a role that is called so ("user", "U", "customer"),
            or else the first speaker, who is the one who asks in a help channel. Everyone else is
            the agent.
    """
    users = _users(group.roles, user_role)
    spoken = [
        SessionTurn(role in users, text.strip())
        for role, text in zip(group.roles, group.texts, strict=True)
        if text.strip()
    ]
    return [
        SessionTurn(by_user, " ".join(turn.text for turn in turns))
        for by_user, turns in groupby(spoken, key=lambda turn: turn.by_user)
    ]


def check_user_role(source: Source, user_role: str) -> None:
    """Refuse a ``user_role`` that nobody has in all of the sessions.

    Raises:
        InvalidInputError: it is so; says which roles there are.
    """
    if not user_role or source.kind != "sessions":
        return
    known: set[str] = set()
    for row in range(len(source)):
        known.update(source[row].roles)
        if user_role in known:
            return
    shown = ", ".join(sorted(known)[:_MOST_SHOWN])
    raise InvalidInputError(
        f'user_role is "{user_role}", which nobody has in the {len(source)} sessions; expected one '
        f"of their {len(known)} roles: {shown} (a store of sessions has user and agent alone)"
    )


def draw_pair(group: Group, rng: random.Random, *, user_role: str = "") -> TextPair | None:
    """A pair of a group: drawn anew from the same group, it may be another one.

    A session gives a turn of either side; a document with a title gives the title and a sentence;
    two texts without roles are a pair. Everything else (plain sentences, a session with one
    speaker) gives one text alone, and empty groups give None.

    Args:
        group: of any kind.
        rng: the source of randomness.
        user_role: see :func:`session_turns`.
    """
    if group.roles:
        return _from_session(group, session_turns(group, user_role), rng)
    texts = _filled(group.texts)
    if not texts:
        return None
    if len(texts) > 1 and group.title and group.texts[0].strip():
        return TextPair(group.id, user=texts[0], agent=rng.choice(texts[1:]))
    if len(group.texts) == len(texts) == 2:
        return TextPair(group.id, user=texts[0], agent=texts[1])
    return TextPair(group.id, user=rng.choice(texts))


def draw_adjacent(group: Group, rng: random.Random) -> tuple[str, str] | None:
    """Two texts that follow one another in a group, or None where it has not two."""
    texts = [turn.text for turn in session_turns(group)] if group.roles else _filled(group.texts)
    if len(texts) < 2:
        return None
    first = rng.randrange(len(texts) - 1)
    return texts[first], texts[first + 1]


def _from_session(
    group: Group, turns: Sequence[SessionTurn], rng: random.Random
) -> TextPair | None:
    if not turns:
        return None
    if len(turns) == 1:
        return TextPair(group.id, user=turns[0].text)
    user = rng.choice([turn.text for turn in turns if turn.by_user])
    return TextPair(group.id, user, rng.choice([turn.text for turn in turns if not turn.by_user]))


def _users(roles: Sequence[str], user_role: str) -> frozenset[str]:
    if user_role:
        return frozenset({user_role})
    return frozenset(role for role in roles if role.casefold() in _USERS) or frozenset(roles[:1])


def _filled(texts: Sequence[str]) -> list[str]:
    return [text.strip() for text in texts if text.strip()]


class Neighbours(NamedTuple):
    """A sentence and another of its window."""

    centre: str
    context: str
    language: str
    document: str
    centre_position: int
    context_position: int


def draw_neighbours(
    group: Group, window_len: int, least_letters: int, rng: random.Random
) -> Neighbours | None:
    """A centre, uniform among those that have a neighbour, and one of its neighbours, uniform.

    Positions count all sentences of the document, a title being its first; near-empty sentences and
    repetitions of an earlier one are in the count but are never drawn. None where no two are left
    inside one window.

    Args:
        group: an ordered document.
        window_len: W; neighbours are at most W - 1 apart.
        least_letters: letters and digits a sentence needs.
        rng: the source of randomness.
    """
    usable = _usable(group.texts, least_letters)
    reach = range(1, window_len)
    neighbours = {
        place: [
            other for step in reach for other in (place - step, place + step) if other in usable
        ]
        for place in sorted(usable)
    }
    centres = [place for place, others in neighbours.items() if others]
    if not centres:
        return None
    centre = rng.choice(centres)
    context = rng.choice(neighbours[centre])
    texts = group.texts
    return Neighbours(texts[centre], texts[context], group.lang, group.id, centre, context)


def _usable(texts: Sequence[str], least_letters: int) -> set[int]:
    seen: set[str] = set()
    places = set()
    for place, text in enumerate(texts):
        plain = plain_text(text)
        if plain not in seen and sum(map(str.isalnum, plain)) >= least_letters:
            places.add(place)
        seen.add(plain)
    return places

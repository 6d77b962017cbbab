"""Drawing a sentence and another of its window."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import NamedTuple

from pocketquery.server.corpus.groups import Group

__all__ = ["Neighbours", "draw_neighbours", "plain_text"]


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


def plain_text(text: str) -> str:
    """The text without differences of case and spaces: what makes two texts the same."""
    return " ".join(text.casefold().split())


def _usable(texts: Sequence[str], least_letters: int) -> set[int]:
    seen: set[str] = set()
    places = set()
    for place, text in enumerate(texts):
        plain = plain_text(text)
        if plain not in seen and sum(map(str.isalnum, plain)) >= least_letters:
            places.add(place)
        seen.add(plain)
    return places

"""Words left out, swapped or shuffled; characters in scripts that write no spaces."""

from __future__ import annotations

import random
from dataclasses import dataclass
from itertools import pairwise

from pocketquery.client.views.augmenters import RuleAugmenter, Strength, check_share
from pocketquery.client.views.text_units import cut
from pocketquery.sdk.validation import check_count

__all__ = ["NeighbourSwap", "Shuffle", "WordDrop"]

_LIGHT_DROP = 0.1


@dataclass(frozen=True)
class WordDrop(RuleAugmenter):
    """Each word left out with probability ``rate``, at least ``at_least`` of them; one stays.

    Light at a rate up to 0.1 with nothing forced, else heavy.

    Raises:
        InvalidInputError: ``rate`` is no share.
    """

    rate: float = 0.2
    at_least: int = 1
    name = "word_drop"

    def __post_init__(self) -> None:
        check_share(self.rate, "rate")
        if self.at_least:
            check_count(self.at_least, "at_least")

    @property
    def strength(self) -> Strength:
        """By the rate."""
        return "light" if self.rate <= _LIGHT_DROP and self.at_least < 1 else "heavy"

    def rewrite(self, text: str, rng: random.Random) -> str:
        """``text`` without some of its words."""
        units = cut(text)
        count = len(units.texts)
        if count < 2:
            return text
        drawn = sum(rng.random() < self.rate for _ in range(count))
        dropped = rng.sample(range(count), min(max(drawn, self.at_least), count - 1))
        return units.without(set(dropped))


@dataclass(frozen=True)
class NeighbourSwap(RuleAugmenter):
    """Two neighbouring words change places, and so do others, up to ``swaps`` pairs.

    Raises:
        InvalidInputError: ``swaps`` is no count.
    """

    swaps: int = 1
    name = "neighbour_swap"

    def __post_init__(self) -> None:
        check_count(self.swaps, "swaps")

    def rewrite(self, text: str, rng: random.Random) -> str:
        """``text`` with neighbours swapped."""
        units = cut(text)
        texts = list(units.texts)
        places = [p for p, (a, b) in enumerate(pairwise(texts)) if a != b]
        for _ in range(self.swaps):
            if not places:
                break
            at = rng.choice(places)
            texts[at], texts[at + 1] = texts[at + 1], texts[at]
            places = [place for place in places if abs(place - at) > 1]  # or it could be undone
        return units.arranged(texts)


@dataclass(frozen=True)
class Shuffle(RuleAugmenter):
    """The words in any other order."""

    name = "shuffle"

    def rewrite(self, text: str, rng: random.Random) -> str:
        """``text`` shuffled; never itself where its words differ."""
        units = cut(text)
        texts = list(units.texts)
        rng.shuffle(texts)
        if tuple(texts) == units.texts:
            texts = texts[1:] + texts[:1]
        return units.arranged(texts)

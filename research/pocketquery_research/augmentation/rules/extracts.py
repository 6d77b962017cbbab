"""What is left of a query: a stretch of it, or its words that carry meaning."""

from __future__ import annotations

import random
from dataclasses import dataclass

from pocketquery.client.views.augmenters import AugResult, RuleAugmenter, Strength, check_share
from pocketquery.client.views.text_units import cut
from pocketquery.sdk.errors import InvalidInputError
from pocketquery_research.augmentation.rules.stopwords import STOPWORDS
from pocketquery_research.augmentation.rules.word_edges import bare

__all__ = ["Crop", "StopwordDrop"]


@dataclass(frozen=True)
class Crop(RuleAugmenter):
    """Neighbouring words, between the shares ``least`` and ``most`` of them; one or more go.

    Heavy: of a query, the word that is missing may be the one that mattered.

    Raises:
        InvalidInputError: no shares, or ``least`` above ``most``.
    """

    least: float = 0.6
    most: float = 0.9
    name = "crop"

    def __post_init__(self) -> None:
        check_share(self.least, "least")
        check_share(self.most, "most")
        if self.least > self.most:
            raise InvalidInputError(
                f"least is {self.least} and most {self.most}; expected least up to most"
            )

    def rewrite(self, text: str, rng: random.Random) -> str:
        """A stretch of ``text``."""
        units = cut(text)
        count = len(units.texts)
        if count < 2:
            return text
        length = min(max(round(rng.uniform(self.least, self.most) * count), 1), count - 1)
        start = rng.randint(0, count - length)
        stays = range(start, start + length)
        return units.without(set(range(count)) - set(stays)).strip()


@dataclass(frozen=True)
class StopwordDrop(RuleAugmenter):
    """The query without its stop words: as keywords. Light, for a search.

    Attributes:
        language: of queries that do not say theirs; one of those of
            :data:`pocketquery_research.augmentation.rules.stopwords.STOPWORDS`.

    Raises:
        InvalidInputError: there are no stop words of that language.
    """

    language: str = "en"
    name = "stopword_drop"
    languages = frozenset(STOPWORDS)

    def __post_init__(self) -> None:
        if self.language not in STOPWORDS:
            raise InvalidInputError(
                f"language is {self.language!r}, expected one of {', '.join(sorted(STOPWORDS))}"
            )

    @property
    def strength(self) -> Strength:
        """What is searched for stays."""
        return "light"

    def augment(self, text: str, rng: random.Random, lang: str | None = None) -> AugResult:
        """``text`` without the stop words of ``lang``."""
        if lang is None or lang == self.language or lang not in STOPWORDS:
            return super().augment(text, rng, lang)
        return StopwordDrop(lang).augment(text, rng, lang)

    def rewrite(self, text: str, rng: random.Random) -> str:
        """``text`` without stop words; itself where nothing would be left."""
        units = cut(text)
        words = [bare(unit).casefold().replace("’", "'") for unit in units.texts]
        dropped = {p for p, word in enumerate(words) if word in STOPWORDS[self.language]}
        if not dropped or len(dropped) == len(words):
            return text
        return units.without(dropped).strip()

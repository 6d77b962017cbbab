"""Views of a query as it may be typed: mistyped, unfinished, in another letter case, unchanged."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass

from pocketquery.client.views.augmenters import RuleAugmenter, Strength, check_share
from pocketquery.client.views.hangul import compose, is_syllable, keystrokes
from pocketquery.client.views.text_units import pieces
from pocketquery.client.views.typing_noise import mistype

__all__ = ["DropoutView", "NoiseCase", "Typo", "Unfinished"]


@dataclass(frozen=True)
class Typo(RuleAugmenter):
    """Each letter mistyped with probability ``rate``, as keyboards of its script produce it.

    See :func:`pocketquery.client.views.typing_noise.mistype`. At 0.08, short ones often have none.

    Raises:
        InvalidInputError: ``rate`` is no share.
    """

    rate: float = 0.08
    name = "typo"

    def __post_init__(self) -> None:
        check_share(self.rate, "rate")

    def rewrite(self, text: str, rng: random.Random) -> str:
        """``text`` mistyped."""
        return mistype(text, self.rate, rng)


@dataclass(frozen=True)
class Unfinished(RuleAugmenter):
    """The query as far as it was typed when somebody looked: a prefix.

    A Korean syllable may be cut between its keystrokes. At least the share ``least`` of the
    keystrokes is kept, and at least one is missing.

    Raises:
        InvalidInputError: ``least`` is no share.
    """

    least: float = 0.4
    name = "unfinished"

    def __post_init__(self) -> None:
        check_share(self.least, "least")

    def rewrite(self, text: str, rng: random.Random) -> str:
        """A prefix of ``text``, without the spaces at its end."""
        characters = pieces(text.strip())
        total = sum(len(_strokes(character)) for character in characters)
        if total < 2:
            return text
        remaining = rng.randint(min(max(1, math.ceil(self.least * total)), total - 1), total - 1)
        typed = ""
        for character in characters:
            keys = _strokes(character)
            typed += character if remaining >= len(keys) else compose(keys[:remaining])
            remaining = max(remaining - len(keys), 0)
        return typed.rstrip()


def _strokes(character: str) -> list[str]:
    """The keystrokes of a Korean syllable; anything else is one."""
    syllable = len(character) == 1 and is_syllable(character)
    return keystrokes(character) if syllable else [character]


@dataclass(frozen=True)
class NoiseCase(RuleAugmenter):
    """Other letter case: all small, all capitals, first letter or first letters capital. Light.

    Letters whose case does not come back (the German sharp s, the Turkish dotless i) stay.
    """

    name = "noise_case"

    @property
    def strength(self) -> Strength:
        """It keeps the meaning."""
        return "light"

    def rewrite(self, text: str, rng: random.Random) -> str:
        """``text`` in another case; itself in scripts that have none."""
        small = _mapped(text, str.lower)
        capital = _mapped(text, str.upper)
        starts = {place for place in range(len(text)) if not text[:place][-1:].isalnum()}
        first = min((p for p in range(len(text)) if small[p] != capital[p]), default=-1)
        styles = (
            small,
            capital,
            "".join(capital[p] if p == first else small[p] for p in range(len(text))),
            "".join(capital[p] if p in starts else small[p] for p in range(len(text))),
        )
        others = [style for style in dict.fromkeys(styles) if style != text]
        return rng.choice(others) if others else text


def _mapped(text: str, change: Callable[[str], str]) -> str:
    """``text`` with each letter changed that comes back: as many characters as before."""
    return "".join(changed if (changed := change(c)).swapcase() == c else c for c in text)


@dataclass(frozen=True)
class DropoutView(RuleAugmenter):
    """The query itself; dropout in the encoder, or the other network, makes it a view. Light."""

    name = "dropout_view"

    @property
    def strength(self) -> Strength:
        """It keeps the meaning."""
        return "light"

    def rewrite(self, text: str, rng: random.Random) -> str:
        """``text``."""
        return text

"""Pronounceable words that no corpus has, for the synthetic fixtures of the claims."""

from __future__ import annotations

import random

__all__ = ["made_up_words"]

_ONSETS = "b d f g k l m n p r s t v z br dr gr kl pl st tr".split()
_VOWELS = "a e i o u ai ou".split()
_CODAS = ["", "", "n", "r", "l", "s", "m"]


def made_up_words(count: int, rng: random.Random) -> list[str]:
    """``count`` distinct words of two or three syllables."""
    words: dict[str, None] = {}
    while len(words) < count:
        syllables = rng.choice((2, 2, 3))
        parts = [rng.choice(_ONSETS) + rng.choice(_VOWELS) for _ in range(syllables)]
        words["".join(parts) + rng.choice(_CODAS)] = None
    return list(words)

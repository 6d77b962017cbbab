"""Punctuation as searchers leave it out or put it in."""

from __future__ import annotations

import random
import unicodedata
from dataclasses import dataclass

from pocketquery.client.views.augmenters import RuleAugmenter, Strength
from pocketquery.client.views.text_units import is_unspaced

__all__ = ["Punct"]

_MARKS = ".,;:?!…。、，．？！；：؟،؛।;·"
_QUESTION = {"GREEK": ";", "ARABIC": "؟", "CJK": "？", "HIRAGANA": "？", "KATAKANA": "？"}


@dataclass(frozen=True)
class Punct(RuleAugmenter):
    """Marks at the ends of words left out, or the mark at the query's end left out or put there.

    What stands inside a word ("node.js", "don't", "3.5") and symbols ("c++", "c#") stay. Light.
    """

    name = "punct"

    @property
    def strength(self) -> Strength:
        """It keeps the meaning."""
        return "light"

    def rewrite(self, text: str, rng: random.Random) -> str:
        """``text`` with other punctuation."""
        styles = (_without_marks(text), _other_end(text))
        others = [style for style in dict.fromkeys(styles) if style.strip() and style != text]
        return rng.choice(others) if others else text


def _without_marks(text: str) -> str:
    """Marks go that stand behind a word, before a blank, an end or a script without blanks."""
    kept: list[str] = []
    for place, character in enumerate(text):
        rest = text[place + 1 :].lstrip(_MARKS)
        ends = not rest or rest[0].isspace() or is_unspaced(rest[0])
        if not (character in _MARKS and ends and _follows_word(kept)):
            kept.append(character)
    return "".join(kept)


def _follows_word(kept: list[str]) -> bool:
    """Whether what is kept so far ends in a word, so that marks by themselves stay."""
    return bool(kept) and not kept[-1].isspace() and kept[-1] not in _MARKS


def _other_end(text: str) -> str:
    body = text.rstrip()
    shorter = body.rstrip(_MARKS)
    if shorter != body:
        return shorter
    return body + _mark(body) if body[-1:].isalnum() else text


def _mark(text: str) -> str:
    """The question mark of the script the text ends in."""
    script = unicodedata.name(text[-1], "").partition(" ")[0]
    return _QUESTION.get(script, "?")

"""English contractions, taken apart and put together.

Only those with one reading: "he'd" may be "he had" or "he would" and is left alone. "it's" is read
as "it is", which in queries it nearly always is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

__all__ = ["CONTRACTIONS", "Phrases", "contract", "expand"]

CONTRACTIONS: Mapping[str, str] = {
    "aren't": "are not",
    "can't": "cannot",
    "couldn't": "could not",
    "didn't": "did not",
    "doesn't": "does not",
    "don't": "do not",
    "hasn't": "has not",
    "haven't": "have not",
    "how's": "how is",
    "i'll": "i will",
    "i'm": "i am",
    "i've": "i have",
    "isn't": "is not",
    "it's": "it is",
    "shouldn't": "should not",
    "that's": "that is",
    "they're": "they are",
    "wasn't": "was not",
    "we're": "we are",
    "we've": "we have",
    "weren't": "were not",
    "what's": "what is",
    "where's": "where is",
    "who's": "who is",
    "won't": "will not",
    "wouldn't": "would not",
    "you're": "you are",
    "you've": "you have",
}


class Phrases:
    """Phrases by what replaces them, found as whole words without regard to case.

    A capital first letter stays one; typographic apostrophes are found as plain ones.
    """

    def __init__(self, table: Mapping[str, str]) -> None:
        self._table = dict(table)
        longest_first = sorted(self._table, key=len, reverse=True)
        words = "|".join(re.escape(phrase).replace("'", "['’]") for phrase in longest_first)
        # a: a long s is no s, and no phrase of the table.
        self._pattern = re.compile(rf"(?<![\w'’])(?ai:{words})(?![\w'’])")

    def replace(self, text: str) -> str:
        """``text`` with every phrase replaced."""
        return self._pattern.sub(self._like, text)

    def _like(self, found: re.Match[str]) -> str:
        phrase = found.group()
        other = self._table[phrase.lower().replace("’", "'")]
        return other[:1].upper() + other[1:] if phrase[:1].isupper() else other


_EXPANSION = Phrases(CONTRACTIONS)
_CONTRACTION = Phrases(
    {**{full: short for short, full in CONTRACTIONS.items()}, "can not": "can't"}
)


def expand(text: str) -> str:
    """``text`` without contractions.

    >>> expand("What's wrong? It doesn't start")
    'What is wrong? It does not start'
    """
    return _EXPANSION.replace(text)


def contract(text: str) -> str:
    """``text`` with the contractions that speakers use.

    >>> contract("why does it not start, it is new")
    "why does it not start, it's new"
    """
    return _CONTRACTION.replace(text)

"""A word without the punctuation around it, and another word put in its place."""

from __future__ import annotations

import unicodedata

__all__ = ["bare", "dressed"]


def bare(word: str) -> str:
    """``word`` without punctuation and symbols at its ends; itself where it is nothing else.

    >>> bare("(don't!)")
    "don't"
    """
    start, end = _inside(word)
    return word[start:end]


def dressed(word: str, other: str) -> str:
    """``other`` with the punctuation around ``word``, and with its first capital.

    >>> dressed("(Car!)", "automobile")
    '(Automobile!)'
    """
    start, end = _inside(word)
    if word[start : start + 1].isupper():
        other = other[:1].upper() + other[1:]
    return word[:start] + other + word[end:]


def _inside(word: str) -> tuple[int, int]:
    """Where in ``word`` the punctuation at its start ends, and that at its end begins."""
    inside = [p for p, c in enumerate(word) if unicodedata.category(c)[0] not in "PS"]
    return (inside[0], inside[-1] + 1) if inside else (0, len(word))

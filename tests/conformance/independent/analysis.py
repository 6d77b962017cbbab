"""Text to terms by docs/formats, "Analyser": without FTS5, from the tables."""

from __future__ import annotations

import itertools
import unicodedata
from collections import Counter

from tests.conformance.independent.characters import Characters, pairs, table
from tests.conformance.independent.porter import stem

_TABLES = table("analysis.json")
_WORDS = Characters(_TABLES["words"])
_FOLDED = pairs(_TABLES["folded"])
_UNSPACED = Characters(_TABLES["unspaced"])
_MARKS = Characters(_TABLES["unspaced_marks"])
_ACCENTS = Characters(_TABLES["accents"])


def terms(text: str) -> Counter[str]:
    """How often each term occurs."""
    return Counter(_term(word) for word in _words(spaced(text)))


def spaced(text: str) -> str:
    """Steps 1 to 4."""
    if text.isascii():
        return text
    text = "".join(_stream_safe(text))
    bare = "".join(c for c in unicodedata.normalize("NFKD", text) if c not in _ACCENTS)
    runs = itertools.groupby(unicodedata.normalize("NFC", bare), _UNSPACED.__contains__)
    parts = [(cut, "".join(run)) for cut, run in runs]
    return "".join(_pieces(run) if cut else run for cut, run in parts)


def _stream_safe(text: str) -> list[str]:
    kept, run = [], 0
    for character in text:
        first = unicodedata.normalize("NFKD", character)[0]
        run = run + 1 if unicodedata.combining(first) or first == "\u034f" else 0
        if run <= 30:
            kept.append(character)
    return kept


def _pieces(run: str) -> str:
    characters: list[str] = []
    for character in run:
        if characters and character in _MARKS:
            characters[-1] += character
        else:
            characters.append(character)
    both = [left + right for left, right in itertools.pairwise(characters)]
    return f" {' '.join(characters + both)} "


def _words(text: str) -> list[str]:
    folded = "".join(_fold(character) for character in text)
    return [word for word in folded.split(" ") if word]


def _fold(character: str) -> str:
    if character.isascii():
        return character.lower() if character.isalnum() else " "
    return _FOLDED.get(character, character) if character in _WORDS else " "


def _term(word: str) -> str:
    data = word.encode()[:32_768]
    if 3 <= len(data) <= 64:
        data = stem(data)
    return data.decode("utf-8", "ignore")

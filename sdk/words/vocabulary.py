"""What an index's vocabulary adds to a query: words that are nearly the same, longer or compound.

A word that no document has stands for the nearest ones: one letter left out, put in, replaced or
swapped with its neighbour (Damerau), two of these in a word of eight letters and more; else for the
longest term that it begins with, since a mistyped ending hides the stem. The last word, while it is
being typed, stands for all that begin with it. And in languages that write compounds as one word, a
word finds the compounds that begin or end with it, and a compound its parts.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping

import numpy as np

from pocketquery.sdk.words.query import Query

__all__ = ["COMPOUNDING", "Vocabulary", "expand"]

COMPOUNDING = frozenset(
    ("german", "dutch", "swedish", "danish", "norwegian", "finnish", "estonian", "hungarian")
)
"""Languages that write compounds as one word."""

_NEAREST = 3  # words that stand for one that is not there
_DISCOUNT = 0.5  # of the weight, for each letter that differs
_COMPLETIONS = 20
_COMPLETION_WEIGHT = 0.7
_COMPOUNDS = 30
_COMPOUND_WEIGHT = 0.25
_LEAST_PART = 4  # letters of a compound's part
_LEAST_REST = 3
_TWO_EDITS = 8  # letters of a word in which two may differ
_MOST_ENDING = 5  # letters that a stemmer may cut off
_LINKS = ("", "s", "es", "n", "en", "er", "e")  # between the parts of a compound


class Vocabulary:
    """The terms of an index.

    Args:
        terms: each once, in the order of code points.
        frequency: how many documents have a term.
    """

    def __init__(self, terms: Iterable[str], frequency: Callable[[str], int]) -> None:
        self.terms = list(terms)
        self.frequency = frequency
        self._lines = "\n".join(["", *self.terms, ""])
        self._signatures: tuple[np.ndarray, np.ndarray] | None = None

    def __contains__(self, term: str) -> bool:
        place = bisect_left(self.terms, term)
        return place < len(self.terms) and self.terms[place] == term

    def beginning_with(self, prefix: str) -> list[str]:
        """All terms that begin with ``prefix``, in their order."""
        first = bisect_left(self.terms, prefix)
        return self.terms[first : bisect_left(self.terms, prefix + "\U0010ffff", first)]

    def ending_with(self, suffix: str) -> list[str]:
        """All terms that end with ``suffix``, in their order."""
        lines, ends = self._lines, []
        sought = f"{suffix}\n"
        place = lines.find(sought)
        while place >= 0:
            ends.append(lines[lines.rfind("\n", 0, place) + 1 : place] + suffix)
            place = lines.find(sought, place + 1)
        return ends

    def nearest(self, term: str, edits: int) -> list[tuple[str, int]]:
        """Terms that differ from ``term`` by 1 to ``edits`` edits, and by how many: the nearest
        first, of these the most frequent."""
        letters, lengths = self._signature()
        own, length = _bag(term), len(term)
        close = np.abs(lengths - length) <= edits
        close &= np.bitwise_count(letters ^ np.uint64(own)) <= 2 * edits
        near = []
        for place in np.flatnonzero(close).tolist():
            distance = _distance(term, self.terms[place], edits)
            if 0 < distance <= edits:
                near.append((distance, -self.frequency(self.terms[place]), self.terms[place]))
        return [(one, distance) for distance, _, one in sorted(near)]

    def _signature(self) -> tuple[np.ndarray, np.ndarray]:
        """The letters of each term as bits, uint64 (n,), and its length, int64 (n,)."""
        if self._signatures is None:
            lengths = np.fromiter(map(len, self.terms), np.int64, len(self.terms))
            points = np.frombuffer("".join(self.terms).encode("utf-32-le"), "<u4")
            bits = np.uint64(1) << (points % 64).astype(np.uint64)
            starts = np.cumsum(lengths) - lengths
            letters = np.bitwise_or.reduceat(bits, starts) if len(starts) else bits
            self._signatures = letters, lengths
        return self._signatures


def _bag(term: str) -> int:
    bits = 0
    for letter in term:
        bits |= 1 << ord(letter) % 64
    return bits


def _distance(one: str, other: str, most: int) -> int:
    """Edits between two words, a swap of neighbours as one (optimal string alignment); any number
    over ``most`` where there are more."""
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, letter in enumerate(one, 1):
        older, before, row = before, row, [i]
        for j, second in enumerate(other, 1):
            cost = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (letter != second))
            if i > 1 and j > 1 and letter == other[j - 2] and one[i - 2] == second:
                cost = min(cost, older[j - 2] + 1)
            row.append(cost)
        if min(row) > most:
            return most + 1
    return row[-1]


def expand(query: Query, vocabulary: Vocabulary, language: str) -> Mapping[str, float]:
    """The weights of a query's terms and of what the vocabulary has for them.

    Args:
        query: as ``Analyzer.query`` gives.
        vocabulary: of the index.
        language: of the index.
    """
    weights = dict(query.terms)

    def add(term: str, weight: float) -> None:
        weights[term] = max(weights.get(term, 0.0), weight)

    if query.prefix:
        for term in _most_frequent(vocabulary, _completions(query.prefix, vocabulary)):
            add(term, _COMPLETION_WEIGHT)
    for term, typed in sorted(query.words.items()):
        weight = query.terms[term]
        if term not in vocabulary:
            near = vocabulary.nearest(term, 2 if len(term) >= _TWO_EDITS else 1)[:_NEAREST]
            near = near or [(begun, 2) for begun in _begun(typed, vocabulary, _MOST_ENDING)]
            for other, distance in near:
                add(other, weight * _DISCOUNT**distance)
        if language in COMPOUNDING and len(term) >= _LEAST_PART:
            for other in _compounds(term, vocabulary):
                add(other, weight * _COMPOUND_WEIGHT)
    return weights


def _completions(prefix: str, vocabulary: Vocabulary) -> list[str]:
    """Terms that begin with ``prefix``; where there are none, the longest that it begins with."""
    return vocabulary.beginning_with(prefix) or _begun(prefix, vocabulary, _MOST_ENDING)


def _begun(word: str, vocabulary: Vocabulary, most: int) -> list[str]:
    """The longest term that ``word`` begins with and that lacks at most so many letters: its stem,
    where the ending is not complete, or mistyped."""
    for length in range(len(word) - 1, max(len(word) - most, _LEAST_REST) - 1, -1):
        if word[:length] in vocabulary:
            return [word[:length]]
    return []


def _most_frequent(vocabulary: Vocabulary, terms: list[str]) -> list[str]:
    return sorted(terms, key=lambda term: (-vocabulary.frequency(term), term))[:_COMPLETIONS]


def _compounds(term: str, vocabulary: Vocabulary) -> list[str]:
    """Compounds that begin or end with ``term``, the shortest first, and its own parts."""
    longer = [
        other
        for other in {*vocabulary.beginning_with(term), *vocabulary.ending_with(term)}
        if len(other) >= len(term) + _LEAST_REST
    ]
    parts = [
        part
        for split in range(_LEAST_PART, len(term) - _LEAST_PART + 1)
        if (head := term[split:]) in vocabulary
        and (modifier := _modifier(term[:split], vocabulary))
        for part in (modifier, head)
    ]
    return sorted(longer, key=lambda one: (len(one), one))[:_COMPOUNDS] + parts


def _modifier(text: str, vocabulary: Vocabulary) -> str:
    for link in _LINKS:
        stem = text[: len(text) - len(link)]
        if text.endswith(link) and len(stem) >= _LEAST_REST and stem in vocabulary:
            return stem
    return ""

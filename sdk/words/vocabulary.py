"""What an index's vocabulary adds to a query: words that are nearly the same, longer or compound.

A word that no document has stands for the nearest ones: one letter left out, put in, replaced or
swapped with its neighbour (Damerau), two of these in a word of eight letters and more; else for the
longest term that it begins with, since a mistyped ending hides the stem. The last word, while it is
being typed, stands for all that begin with it. And in languages that write compounds as one word, a
word finds the compounds that begin or end with it, and a compound its parts: where no document has
the word, it is worth what these are.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

import numpy as np

from pocketquery.sdk.words.analyzer import Analyzer
from pocketquery.sdk.words.characters import bare
from pocketquery.sdk.words.query import Query

__all__ = ["COMPOUNDING", "Vocabulary", "expand"]

COMPOUNDING = frozenset(
    ("german", "dutch", "swedish", "danish", "norwegian", "finnish", "estonian", "hungarian")
)
"""Languages that write compounds as one word."""

_NEAREST = 3  # words that stand for one that is not there
_MOST_SOUGHT = 16  # words of a query whose nearest are looked for
_DISCOUNT = 0.5  # of the weight, for each letter that differs
_COMPLETIONS = 20
_COMPLETION_WEIGHT = 0.7
_COMPOUNDS = 30
_COMPOUND_WEIGHT = 0.25  # of a word that a document has, else:
_ABSENT_WEIGHT = 0.5
_LEAST_PART = 4  # letters of a compound's part
_LEAST_REST = 3
_TWO_EDITS = 8  # letters of a word in which two may differ
_MOST_ENDING = 5  # letters that a stemmer may cut off
_BEFORE = "bananas"  # written before a word, gives the stem that it has at a compound's end
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
        self._reversed: list[str] | None = None  # in their order
        self._signatures: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None

    def __contains__(self, term: str) -> bool:
        place = bisect_left(self.terms, term)
        return place < len(self.terms) and self.terms[place] == term

    def beginning_with(self, prefix: str) -> list[str]:
        """All terms that begin with ``prefix``, in their order."""
        return _beginning(self.terms, prefix)

    def ending_with(self, suffix: str) -> list[str]:
        """All terms that end with ``suffix``."""
        if self._reversed is None:
            self._reversed = sorted(term[::-1] for term in self.terms)
        return [term[::-1] for term in _beginning(self._reversed, suffix[::-1])]

    def nearest(self, term: str, edits: int) -> list[tuple[str, int]]:
        """Terms that differ from ``term`` by 1 to ``edits`` edits, and by how many: the nearest
        first, of these the most frequent."""
        near = []
        close = self._close(term, edits)
        for other, distance in zip(close, _distances(term, close, edits), strict=True):
            if 0 < distance <= edits:
                near.append((distance, -self.frequency(other), other))
        return [(other, distance) for distance, _, other in sorted(near)]

    def _close(self, term: str, edits: int) -> list[str]:
        """The terms whose lengths and letters allow so few edits."""
        places, starts, letters = self._signature()
        own, close = np.uint64(_bag(term)), []
        for longer in range(-edits, edits + 1):
            first, stop = np.searchsorted(starts, [len(term) + longer, len(term) + longer + 1])
            some = letters[first:stop]
            few = np.bitwise_count(some & ~own) <= min(edits, edits + longer)
            few &= np.bitwise_count(own & ~some) <= min(edits, edits - longer)
            close += [self.terms[place] for place in places[first:stop][few].tolist()]
        return close

    def _signature(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The places of the terms by length, int64 (n,); the lengths, int64 (n,); the letters of
        each as bits, uint64 (n,)."""
        if self._signatures is None:
            lengths = np.fromiter(map(len, self.terms), np.int64, len(self.terms))
            points = np.frombuffer("".join(self.terms).encode("utf-32-le"), "<u4")
            bits = np.uint64(1) << (points % 64).astype(np.uint64)
            starts = np.cumsum(lengths) - lengths
            letters = np.bitwise_or.reduceat(bits, starts) if len(starts) else bits
            places = np.argsort(lengths, kind="stable")
            self._signatures = places, lengths[places], letters[places]
        return self._signatures


def _beginning(ordered: list[str], prefix: str) -> list[str]:
    first = bisect_left(ordered, prefix)
    return ordered[first : bisect_left(ordered, prefix + "\U0010ffff", first)]


def _bag(term: str) -> int:
    bits = 0
    for letter in term:
        bits |= 1 << ord(letter) % 64
    return bits


def _distances(term: str, others: list[str], most: int) -> list[int]:
    """Edits between a word and each of others, a swap of neighbours as one (optimal string
    alignment); any number over ``most`` where there are more."""
    distances = np.full(len(others), most + 1)
    if not others:
        return []
    columns = np.array(others)
    letters = columns.view(np.uint32).reshape(len(others), -1).T  # (longest, others)
    remaining = np.arange(len(others))
    steps = np.arange(len(letters) + 1, dtype=np.int16)[:, None]
    row = np.repeat(steps, len(others), 1)  # by the others' first letters, 0 and more of them
    before, last = row, letters != ord(term[0])
    for i, letter in enumerate(term, 1):
        older, before, differs = before, row, letters != ord(letter)
        row = before + 1
        np.minimum(row[1:], before[:-1] + differs, out=row[1:])
        if i > 1:
            swapped = differs[:-1] | last[1:]
            np.minimum(row[2:], older[:-2] + 1 + swapped * most, out=row[2:])
        row = np.minimum.accumulate(row - steps) + steps
        hopeful = row.min(0) <= most
        row, before, last = row[:, hopeful], before[:, hopeful], differs[:, hopeful]
        letters, remaining = letters[:, hopeful], remaining[hopeful]
    lengths = np.count_nonzero(letters, 0)
    distances[remaining] = row[lengths, np.arange(len(remaining))]
    result: list[int] = distances.tolist()
    return result


class Expansion(NamedTuple):
    """A query's terms, and what the vocabulary has for them.

    Attributes:
        weights: of each term.
        instead: of each compound of a word that no document has, that word's term.
    """

    weights: Mapping[str, float]
    instead: Mapping[str, str]


def expand(query: Query, vocabulary: Vocabulary, analyzer: Analyzer) -> Expansion:
    """The weights of a query's terms and of what the vocabulary has for them.

    Args:
        query: as ``analyzer`` gives.
        vocabulary: of the index.
        analyzer: of the index.
    """
    weights, instead = dict(query.terms), dict[str, str]()

    def add(term: str, weight: float) -> None:
        weights[term] = max(weights.get(term, 0.0), weight)

    if query.prefix:
        for term in _most_frequent(vocabulary, _completions(query.prefix, vocabulary)):
            add(term, _COMPLETION_WEIGHT)
    absent = 0
    for term, typed in query.words.items():
        weight = query.terms[term]
        is_absent = term not in vocabulary
        if is_absent:
            absent += 1
            near: list[tuple[str, int]] = []
            if absent <= _MOST_SOUGHT:
                near = vocabulary.nearest(term, 2 if len(term) >= _TWO_EDITS else 1)[:_NEAREST]
            near = near or [(begun, 2) for begun in _begun(bare(typed), vocabulary, _MOST_ENDING)]
            for other, distance in near:
                add(other, weight * _DISCOUNT**distance)
        for other in _compounds(term, typed, vocabulary, analyzer):
            add(other, weight * (_ABSENT_WEIGHT if is_absent else _COMPOUND_WEIGHT))
            if is_absent and other not in query.terms:
                instead.setdefault(other, term)
    return Expansion(weights, instead)


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


def _compounds(term: str, typed: str, vocabulary: Vocabulary, analyzer: Analyzer) -> list[str]:
    """Compounds that begin or end with a word, the shortest first, and its own parts; none in
    languages that write no compounds.

    Args:
        term: the word's.
        typed: the word as it was typed, in lower case.
        vocabulary, analyzer: of the index.
    """
    if analyzer.language not in COMPOUNDING or len(term) < _LEAST_PART:
        return []
    within = analyzer.term(_BEFORE + typed).removeprefix(_BEFORE)
    longer = [(other, term) for other in vocabulary.beginning_with(term)]
    longer += [(other, term) for other in vocabulary.ending_with(term)]
    if len(within) >= _LEAST_PART and within not in vocabulary:
        longer += [(other, within) for other in vocabulary.ending_with(within)]
    compounds = {other for other, form in longer if len(other) >= len(form) + _LEAST_REST}
    parts = [
        part
        for split in range(_LEAST_PART, len(typed) - _LEAST_PART + 1)
        if len(head := analyzer.term(typed[split:])) >= _LEAST_REST
        and head in vocabulary
        and (modifier := _modifier(typed[:split], vocabulary, analyzer))
        for part in (modifier, head)
    ]
    return sorted(compounds, key=lambda one: (len(one), one))[:_COMPOUNDS] + parts


def _modifier(text: str, vocabulary: Vocabulary, analyzer: Analyzer) -> str:
    for link in _LINKS:
        stem = analyzer.term(text[: len(text) - len(link)])
        if text.endswith(link) and len(stem) >= _LEAST_REST and stem in vocabulary:
            return stem
    return ""

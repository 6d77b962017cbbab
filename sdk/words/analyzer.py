"""From text to terms, for indexing and for queries alike."""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np

from pocketquery.sdk.arrays import NDArray
from pocketquery.sdk.words.characters import bare
from pocketquery.sdk.words.common_words import COMMON_IN
from pocketquery.sdk.words.query import Query, parse
from pocketquery.sdk.words.stemming import check_language, stem_of
from pocketquery.sdk.words.tokens import IDENTIFIER, cut, has_word

__all__ = ["Analyzer", "Terms", "analyzer_for"]

# Of a query's terms. What is beside words takes weight from them, so that a long query does not
# turn on its one compound. Chosen on SciFact's training claims, three forums and the names in
# Flower's documentation.
_WEIGHTS_BESIDE = (1.0, 0.5, 0.5)  # compounds, joins, parts
_WEIGHTS_ALONE = (1.0, 1.0, 0.5)  # likewise, where a name is all that is asked
_INNER = 0.5  # less for a compound within another
_WORDS_OF_A_COMPOUND = 0.5
_WORDS_OF_A_JOIN = 0.75
_FEWEST_COMMON = 2  # words, by which a query's language is told
_LEAST_SOUGHT = 4  # letters of a word whose nearest are looked for
_MOST_CACHED = 1 << 17  # chunks, words: of a large vocabulary, some 40 MB
_LONGEST_CACHED = 64  # characters of a chunk
_PLAIN = re.compile("[\"'(\\[]*([A-Za-z0-9]{1,128})[\"')\\],.;:!?]*")  # a word as most are


class Terms(NamedTuple):
    """The terms of a chunk of text, which has no blank inside.

    Attributes:
        words: of its words in their order; of unspaced scripts of the letters.
        pairs: neighbours in unspaced scripts. Words and pairs make a document's length.
        compounds, joins, parts: what stands beside, see :class:`~pocketquery.sdk.words.tokens.Cut`.
    """

    words: tuple[str, ...]
    pairs: tuple[str, ...] = ()
    compounds: tuple[str, ...] = ()
    joins: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()

    @property
    def sharpest(self) -> frozenset[str]:
        """What a document must have to have this chunk: the whole name, where it is one."""
        return frozenset(self.compounds[-1:] or self.joins or self.pairs or self.words)


class Analyzer:
    """Terms of texts in one language. Safe to use from threads.

    Args:
        language: one of LANGUAGES, or ``"none"``, which keeps words whole.

    Raises:
        InvalidInputError: another language.
    """

    def __init__(self, language: str = "english") -> None:
        self.language = check_language(language)
        self._stem = stem_of(self.language)
        self._turkish = self.language == "turkish"
        self._counted: dict[str, tuple[int, tuple[str, ...]]] = {}
        self._of_words: dict[str, str] = {}

    def occurrences(
        self, texts: Sequence[str]
    ) -> tuple[Counter[tuple[str, int]], NDArray[np.uint32]]:
        """How often each term occurs in each text, by (term, position of the text), and how long
        the texts are: their words, uint32 (n,)."""
        occurrences: dict[tuple[str, int], int] = {}
        lengths = np.zeros(len(texts), np.uint32)
        counted = self._counted
        for row, text in enumerate(texts):
            length = 0
            counts: dict[str, int] = {}
            for chunk, times in Counter(text.split()).items():
                words, terms = counted.get(chunk) or self._count(chunk)
                length += times * words
                for term in terms:
                    counts[term] = counts.get(term, 0) + times
            lengths[row] = length
            occurrences.update({(term, row): count for term, count in counts.items()})
        return Counter(occurrences), lengths

    def _count(self, chunk: str) -> tuple[int, tuple[str, ...]]:
        """A chunk's words and pairs, how many; and all its terms."""
        terms = self.terms_of(chunk)
        counted = len(terms.words) + len(terms.pairs), tuple(chain.from_iterable(terms))
        if len(chunk) <= _LONGEST_CACHED:
            if len(self._counted) >= _MOST_CACHED:
                self._counted.clear()
            self._counted[chunk] = counted
        return counted

    def sequence(self, text: str) -> list[str]:
        """The terms of a text's words in their order, in which phrases are looked for."""
        return [term for chunk in text.split() for term in self.terms_of(chunk).words]

    def query(self, text: str, *, prefix: bool = False) -> Query:
        """A query's terms, and what a document must have.

        Args:
            text: as a user typed it, see :mod:`pocketquery.sdk.words.query`.
            prefix: the last word is being typed, and stands for all that begin with it.
        """
        parsed = parse(text)
        weights: dict[str, float] = {}
        words: dict[str, str] = {}
        whole = set[str]()
        chunks = parsed.plain.split()
        for chunk in chunks:
            written, terms = self._analyzed(chunk)
            for word in written:
                term = self.term(word)
                if len(term) >= _LEAST_SOUGHT and term.isalpha():
                    words.setdefault(term, self._lower(word))
            own, beside = 1.0, _WEIGHTS_BESIDE
            if len(chunks) == 1 and not terms.compounds:
                beside = _WEIGHTS_ALONE
            if terms.compounds or terms.joins:
                own = _WORDS_OF_A_COMPOUND if terms.compounds else _WORDS_OF_A_JOIN
            whole.update(terms.words, terms.pairs)
            for some, weight in zip(terms, (own, own, *beside), strict=True):
                for term in some:
                    weights[term] = weights.get(term, 0.0) + weight
            for term in terms.compounds[:-1]:
                weights[term] -= _INNER
        typed = has_word(text[-1:]) and parsed.plain.endswith(text.split()[-1])
        last = cut(text.split()[-1]).words[-1:] if prefix and typed else []
        return Query(
            plain=parsed.plain,
            terms=weights,
            words=words,
            beside=frozenset(weights) - whole,
            required=frozenset[str]().union(*map(self._sharpest, parsed.required)),
            excluded=tuple(map(self._sharpest, parsed.excluded)),
            phrases=tuple(tuple(self.sequence(phrase)) for phrase in parsed.phrases),
            excluded_phrases=tuple(tuple(self.sequence(one)) for one in parsed.excluded_phrases),
            required_phrases=tuple(tuple(self.sequence(one)) for one in parsed.required_phrases),
            prefix=bare(last[0].casefold()) if last else "",
        )

    def common_terms(self, asked: Query) -> list[str]:
        """The terms of a query's common words in the language that has most of them, in the order
        of the query. None where fewer than two are; none of those that a hit must have."""
        written = [word for chunk in asked.plain.split() for word in cut(chunk).words]
        languages = [COMMON_IN.get(word.casefold(), frozenset()) for word in written]
        counts = Counter(chain.from_iterable(languages))
        most = max(counts.values(), default=0)
        if most < _FEWEST_COMMON:
            return []
        spoken = {language for language, count in counts.items() if count == most}
        common = zip(written, languages, strict=True)
        terms = dict.fromkeys(self.term(word) for word, some in common if some & spoken)
        needed = asked.required.union(*asked.phrases)
        return [term for term in terms if term in asked.terms and term not in needed]

    def _sharpest(self, chunk: str) -> frozenset[str]:
        return self.terms_of(chunk).sharpest

    def terms_of(self, chunk: str) -> Terms:
        """The terms of a chunk of text, which has no blank inside."""
        return self._analyzed(chunk)[1]

    def _analyzed(self, chunk: str) -> tuple[Sequence[str], Terms]:
        """A chunk's words as written, and its terms."""
        plain = _PLAIN.fullmatch(chunk)
        if plain and not IDENTIFIER.search(plain[1]) and len(chunk) <= _LONGEST_CACHED:
            return [plain[1]], Terms((self.term(plain[1]),))
        made = cut(chunk)
        words, pairs, joins, parts = (
            tuple(filter(None, map(self.term, some)))  # a run of accents alone is no term
            for some in (made.words, made.pairs, made.joins, made.parts)
        )
        compounds = tuple(bare(one.casefold()) for one in made.compounds)
        return made.words, Terms(words, pairs, compounds, joins, parts)

    def term(self, word: str) -> str:
        """The term of one word; empty where it is a run of accents alone."""
        lower = self._lower(word)
        term = self._of_words.get(lower)
        if term is None:
            term = bare(self._stem(lower))
            if len(self._of_words) >= _MOST_CACHED:
                self._of_words.clear()
            self._of_words[lower] = term
        return term

    def _lower(self, word: str) -> str:
        return (word.replace("I", "\u0131") if self._turkish else word).casefold()


@functools.lru_cache(maxsize=4)
def analyzer_for(language: str) -> Analyzer:
    """An analyzer that all share, for what it knows of words it has met."""
    return Analyzer(language)

"""What a search box is asked: words, ``"phrases"``, ``+must``, ``-without``.

An operator counts only where it cannot be part of a word: a sign follows a blank and a letter
follows the sign. ``--flag``, ``-5``, ``e-mail``, ``C++``, ``a - b``, an inch's ``5"`` and a
quotation mark without its pair are text. So is all of a query that has more than seven words beside
its phrases: it is a sentence, whose signs are its own (``Privatpersonen und -organisationen``).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from pocketquery.sdk.words.characters import HYPHENS
from pocketquery.sdk.words.tokens import has_word

__all__ = ["Parsed", "Query", "is_blank", "parse", "without_operators"]

_MOST_WORDS = 7  # beside phrases, of a query with operators
_QUOTES = ('"\u201c\u201d\u201e\u201f\u301d\u301e\u301f\uff02', "\u00ab\u00bb", "\u2039\u203a")
_SIGN = f"[+\uff0b{re.escape(HYPHENS)}]"
_PHRASE = "|".join(f"[{quotes}]([^{quotes}]+)[{quotes}](?!\\w)" for quotes in _QUOTES)
_PART = re.compile(
    rf"(?<!\S)(?P<sign>{_SIGN})?(?:{_PHRASE})"
    rf"|(?<!\S)(?P<operator>{_SIGN})(?P<word>(?=[^\w\s+{re.escape(HYPHENS)}]?[^\W\d])\S+)"
)


class Parsed(NamedTuple):
    """A query's parts, as written.

    Attributes:
        plain: the text without operators and without what is excluded; it is what an encoder gets.
        required, excluded: what stands behind a + or a -.
        phrases, excluded_phrases: what stands in quotation marks.
        required_phrases: those of the phrases that stand behind a +.
    """

    plain: str
    required: list[str]
    excluded: list[str]
    phrases: list[str]
    excluded_phrases: list[str]
    required_phrases: list[str]


@dataclass(frozen=True)
class Query:
    """A query as terms.

    Attributes:
        plain: the text without operators and without what is excluded, for an encoder.
        terms: the weight of each term that scores.
        words: those of them that are words of letters, and each as it was typed, in lower case:
            where no document has one, :func:`~pocketquery.sdk.words.vocabulary.expand` looks for
            the nearest.
        beside: those of the terms that no word is: compounds, joins and parts.
        required: terms that a document must have, all of them.
        excluded: a document that has all terms of one of these is no hit.
        phrases: sequences of words, each of which a document must have if any document of the index
            has it.
        excluded_phrases: those that it must not have.
        required_phrases: those of the phrases that it must have in any case.
        prefix: the beginning of the word that is being typed, in lower case; empty for none.
    """

    plain: str
    terms: Mapping[str, float]
    words: Mapping[str, str] = field(default_factory=dict)
    beside: frozenset[str] = frozenset()
    required: frozenset[str] = frozenset()
    excluded: tuple[frozenset[str], ...] = ()
    phrases: tuple[tuple[str, ...], ...] = ()
    excluded_phrases: tuple[tuple[str, ...], ...] = ()
    required_phrases: tuple[tuple[str, ...], ...] = ()
    prefix: str = ""

    def without(self, terms: Collection[str]) -> Query:
        """The query without some of its terms."""
        kept = {term: weight for term, weight in self.terms.items() if term not in terms}
        words = {term: word for term, word in self.words.items() if term not in terms}
        return replace(self, terms=kept, words=words)

    def phrases_in(self, words: Sequence[str]) -> frozenset[tuple[str, ...]]:
        """The phrases, excluded ones among them, that a text has.

        Args:
            words: of the text, as ``Analyzer.sequence`` gives.
        """
        phrases = {*self.phrases, *self.excluded_phrases}
        return frozenset(phrase for phrase in phrases if _within(phrase, words))


def _within(phrase: Sequence[str], words: Sequence[str]) -> bool:
    first, length = phrase[0], len(phrase)
    return any(
        word == first and tuple(words[start : start + length]) == phrase
        for start, word in enumerate(words)
    )


def without_operators(text: str) -> str:
    """``text`` as words alone, for what nobody typed as a query: ``a "b" -c`` is ``a b c``."""
    while (plain := _PART.sub(_body, text)) != text:
        text = plain  # a sign within quotation marks is behind a blank now
    return text


def _body(match: re.Match[str]) -> str:
    return next(filter(None, match.group(*range(2, 2 + len(_QUOTES)))), "") or match["word"]


def is_blank(text: str) -> bool:
    """Whether a query is nothing but blanks, quotation marks and signs: asks for nothing yet."""
    return not "".join(text.split()).strip("".join(_QUOTES) + "+\uff0b" + HYPHENS)


def parse(text: str) -> Parsed:
    """The parts of a query."""
    parsed = Parsed("", [], [], [], [], [])
    pieces, done, words = [], 0, 0
    for match in _PART.finditer(text):
        body, phrase = _body(match), not match["word"]
        if not has_word(body):
            continue
        excludes = (match["sign"] or match["operator"] or "+") not in "+\uff0b"
        if phrase:
            (parsed.excluded_phrases if excludes else parsed.phrases).append(body)
            parsed.required_phrases.extend([body] if match["sign"] and not excludes else [])
        else:
            (parsed.excluded if excludes else parsed.required).append(body)
        before = text[done : match.start()]
        words += sum(map(has_word, before.split())) + (not phrase)
        pieces += [before, "" if excludes else body]
        done = match.end()
    if words + sum(map(has_word, text[done:].split())) > _MOST_WORDS:
        return Parsed(text.strip(), [], [], [], [], [])
    return parsed._replace(plain="".join([*pieces, text[done:]]).strip())

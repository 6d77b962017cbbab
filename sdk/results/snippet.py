"""The part of a text that shows why it was found: around the query's words, which are marked.

::

    for hit in hits:
        print(sdk.snippet(hit, "what did I plant in March").marked("**", "**"))

    ... in **March** we **planted** tomatoes and beans along the wall. The soil was ...
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

from pocketquery.sdk.errors import InvalidInputError
from pocketquery.sdk.validation import check_text
from pocketquery.sdk.words.analyzer import Analyzer, analyzer_for
from pocketquery.sdk.words.characters import DROPPED, UNSPACED
from pocketquery.sdk.words.common_words import is_common
from pocketquery.sdk.words.query import Query

__all__ = ["HasText", "Snippet", "snippet"]

_ELLIPSIS = "…"
_CONTEXT = 0.25  # of the length: what is shown before the first marked word
_LONGEST_NAME = 256  # characters without a blank, within which a compound is looked for
_SENTENCE_ENDS = ".!?…。！？।؟"
_LEAST_OF_SENTENCES = 0.6  # of the length, before a snippet without marks ends with a sentence
Span = tuple[int, int]


class HasText(Protocol):
    """A hit, or a document."""

    @property
    def text(self) -> str: ...


@dataclass(frozen=True)
class Snippet:
    """A part of a text.

    Attributes:
        text: in one line; an ellipsis stands where it was cut.
        marks: where the query's words are in ``text``: first and one past the last, in code points,
            as Python slices texts; rising, none touches another.
    """

    text: str
    marks: tuple[Span, ...] = ()

    def __str__(self) -> str:
        return self.text

    def marked(self, before: str, after: str, escape: Callable[[str], str] = str) -> str:
        """The text with each mark between ``before`` and ``after``; ``escape`` (``html.escape``)
        is applied to the pieces of the text."""
        pieces, done = [], 0
        for start, stop in self.marks:
            pieces += [escape(self.text[done:start]), before, escape(self.text[start:stop]), after]
            done = stop
        return "".join([*pieces, escape(self.text[done:])])


def snippet(
    hit: HasText | str, query: str | Query, *, length: int = 160, language: str = "english"
) -> Snippet:
    """The passage around the words of ``query``, marked; where none is there, as in a hit that was
    found by meaning, the beginning. The name and tags of a file, with which its text begins in an
    index, are left out where the words are not there alone.

    Args:
        hit: a hit, a document or a text.
        query: as it was searched. Words such as "the" and "how" are marked in phrases only. A
            :class:`~pocketquery.sdk.words.Query` may have more terms, such as the nearest ones.
        length: most characters, at least 20.
        language: of the index, ``index.language``; it says which forms are one word.

    Raises:
        InvalidInputError: no text, a length below 20, another language.
    """
    text = check_text(getattr(hit, "text", hit))
    if not isinstance(length, int) or length < 20:
        raise InvalidInputError(f"the length of a snippet is {length!r}, expected at least 20")
    analyzer = analyzer_for(language)
    asked = query if isinstance(query, Query) else analyzer.query(check_text(query, "the query"))
    line, whole = (" ".join(one.split()) for one in (text[_preamble(hit, text) :], text))
    marks = _marks(line, analyzer, asked)
    if not marks and len(line) < len(whole) and (marks := _marks(whole, analyzer, asked)):
        line = whole
    start, stop = _window(line, marks, length)
    before, after = _ELLIPSIS * (start > 0), _ELLIPSIS * (stop < len(line))
    shown = [(first, last) for first, last, _ in marks if first >= start and last <= stop]
    shift = len(before) - start
    return Snippet(
        before + line[start:stop] + after,
        tuple((first + shift, last + shift) for first, last in _united(shown)),
    )


def _preamble(hit: object, text: str) -> int:
    """How much of the beginning says what a file is called, which stands beside the snippet."""
    length = getattr(hit, "metadata", {}).get("preamble")
    return length if isinstance(length, int) and text[:length].endswith("\n") else 0


def _marks(line: str, analyzer: Analyzer, asked: Query) -> list[tuple[int, int, int]]:
    """First, one past the last, and which word of the query, in the order of the text."""
    strong, weak = _wanted(asked, analyzer)
    chunks = list(_chunks(line))
    phrases = _phrases(chunks, asked, analyzer)
    for wanted in (strong, weak):
        marks = [
            (start + first, start + last, word)
            for start, chunk in chunks
            if wanted.keys() & _all_terms(analyzer, chunk)
            for first, last, word in _in_chunk(chunk, wanted, analyzer)
        ]
        if marks or phrases:
            break
    return sorted(marks + phrases)


def _wanted(asked: Query, analyzer: Analyzer) -> tuple[dict[str, int], dict[str, int]]:
    """Terms that are marked, with the number of their word in the query; and those that are where
    none of the others is in the text: letters and digits of longer names, which are everywhere."""
    strong, weak, known = dict[str, int](), dict[str, int](), set[str]()
    chunks = asked.plain.split()
    for number, chunk in enumerate(chunks):
        terms = _all_terms(analyzer, chunk)
        known |= terms
        if is_common("".join(filter(str.isalnum, chunk)).lower(), analyzer.language):
            continue
        for term in terms:
            weak.setdefault(term, number)
            if len(terms) == 1 or (len(term) > 1 and not term.isdigit()):
                strong.setdefault(term, number)
    more = dict.fromkeys(asked.terms.keys() - known, len(chunks))
    return strong | more, weak | more


def _all_terms(analyzer: Analyzer, chunk: str) -> frozenset[str]:
    return frozenset(term for some in analyzer.terms_of(chunk) for term in some)


def _chunks(line: str) -> Iterator[tuple[int, str]]:
    start = 0
    for chunk in line.split(" "):
        yield start, chunk
        start += len(chunk) + 1


def _phrases(
    chunks: list[tuple[int, str]], asked: Query, analyzer: Analyzer
) -> list[tuple[int, int, int]]:
    if not asked.phrases:
        return []
    words = [
        (start, chunk, term) for start, chunk in chunks for term in analyzer.terms_of(chunk).words
    ]
    terms = tuple(term for _, _, term in words)
    return [
        (_first_word(*words[at][:2]), _last_word(*words[at + len(phrase) - 1][:2]), -1 - number)
        for number, phrase in enumerate(asked.phrases)
        for at in range(len(words) - len(phrase) + 1)
        if terms[at : at + len(phrase)] == phrase
    ]


def _first_word(start: int, chunk: str) -> int:
    return start + next(iter(_atoms(chunk)), (0,))[0]


def _last_word(start: int, chunk: str) -> int:
    return start + max((last for _, last, _ in _atoms(chunk)), default=len(chunk))


def _in_chunk(
    chunk: str, wanted: dict[str, int], analyzer: Analyzer
) -> Iterator[tuple[int, int, int]]:
    """Where in a chunk, which has no blank inside, wanted terms are."""
    atoms, missing = _atoms(chunk), wanted.keys() & _all_terms(analyzer, chunk)
    parts = [(start, stop, _all_terms(analyzer, chunk[start:stop])) for start, stop, _ in atoms]
    parts += [
        (left[0], right[1], frozenset(analyzer.terms_of(chunk[left[0] : right[1]]).pairs))
        for left, right in pairwise(atoms)
        if left[2] and right[2] and left[1] == right[0]
    ]
    for start, stop, terms in parts:
        if hits := terms & wanted.keys():
            yield start, stop, min(wanted[term] for term in hits)
            missing -= hits
    for term in missing if len(chunk) <= _LONGEST_NAME else ():
        yield (*_shrunk(chunk, term, atoms, analyzer), wanted[term])


def _shrunk(chunk: str, term: str, atoms: list[tuple[int, int, bool]], analyzer: Analyzer) -> Span:
    """The least part of ``chunk``, of whole words, that still has ``term``."""
    start, stop = 0, len(chunk)
    while start < stop - 1 and term in _all_terms(analyzer, chunk[start + 1 : stop]):
        start += 1
    while start < stop - 1 and term in _all_terms(analyzer, chunk[start : stop - 1]):
        stop -= 1
    touched = [(first, last) for first, last, _ in atoms if first < stop and last > start]
    return min([start, *(one[0] for one in touched)]), max([stop, *(one[1] for one in touched)])


def _atoms(chunk: str) -> list[tuple[int, int, bool]]:
    """The words in a chunk, with whether it is a letter of a script that writes no spaces."""
    atoms: list[tuple[int, int, bool]] = []
    for position, character in enumerate(chunk):
        unspaced = UNSPACED.match(character) is not None
        follows = bool(atoms) and atoms[-1][1] == position
        if follows and (
            _extends(character) or not (unspaced or atoms[-1][2] or not character.isalnum())
        ):
            atoms[-1] = atoms[-1][0], position + 1, atoms[-1][2]
        elif unspaced or character.isalnum():
            atoms.append((position, position + 1, unspaced))
    return atoms


def _window(line: str, marks: list[tuple[int, int, int]], length: int) -> Span:
    """What is shown: the most words of the query, where a sentence or at least a word begins."""
    if len(line) <= length:
        return 0, len(line)
    if not marks:
        stop = _word_end(line, 0, length - 1)
        ends = range(stop, int(stop * _LEAST_OF_SENTENCES), -1)
        stop = next((at for at in ends if _begins_sentence(line, at)), stop)
        return 0, len(line[:stop].rstrip())
    context = int(length * _CONTEXT)
    most, first = (-1, -1), 0
    for at, (start, _, _) in enumerate(marks):
        inside = [
            word for _, last, word in marks[at : at + length] if last <= start + length - context
        ]
        phrases = len({word for word in inside if word < 0})
        if (score := (len(set(inside)) + 2 * phrases, len(inside))) > most:
            most, first = score, start
    start = _beginning(line, max(0, min(first - context, len(line) - length + 1)), first, length)
    stop = start + length - 1 - (start > 0)
    return start, len(line) if stop + 1 >= len(line) else _word_end(line, start, stop)


def _beginning(line: str, earliest: int, first: int, length: int) -> int:
    """Where a snippet begins, at most at ``first``: with a sentence, else with a word."""
    if earliest == 0:
        return 0
    words = [at for at in range(earliest, first + 1) if _is_word_edge(line, at) and line[at] != " "]
    near = earliest + int(length * _CONTEXT)
    sentences = [at for at in words if at <= near and _begins_sentence(line, at)]
    return (sentences or words or [_whole_character(line, earliest)])[0]


def _word_end(line: str, start: int, most: int) -> int:
    """Where a snippet from ``start`` on ends, at most at ``most``."""
    for stop in range(most, start + (most - start) // 2, -1):
        if _is_word_edge(line, stop):
            return len(line[:stop].rstrip())
    return _whole_character(line, most)  # in one long word


def _begins_sentence(line: str, at: int) -> bool:
    before = line[max(0, at - 2) : at].rstrip()[-1:] if _is_word_edge(line, at) else ""
    return before != "" and before in _SENTENCE_ENDS


def _is_word_edge(line: str, at: int) -> bool:
    """Whether no word is cut between the characters before and at ``at``."""
    if at <= 0 or at >= len(line) or " " in (line[at - 1], line[at]):
        return True
    unspaced = UNSPACED.match(line[at - 1]) or UNSPACED.match(line[at])
    return bool(unspaced) and _whole_character(line, at) == at


def _whole_character(line: str, at: int) -> int:
    """``at``, or before it, where no visible character is cut."""
    while at > 0 and at < len(line) and _joins(line, at):
        at -= 1
    return at


def _joins(line: str, at: int) -> bool:
    before, here = line[at - 1], line[at]
    if _extends(here) or before == "\u200d":
        return True
    if "\u1100" <= before <= "\u11ff" and "\u1160" <= here <= "\u11ff":  # letters of one syllable
        return True
    flags = 0  # a flag is two regional indicators
    while flags < at and "\U0001f1e6" <= line[at - 1 - flags] <= "\U0001f1ff":
        flags += 1
    return flags % 2 == 1 and "\U0001f1e6" <= here <= "\U0001f1ff"


def _extends(character: str) -> bool:
    """Whether it is seen as part of the character before: accents, vowel signs, tones, joiners."""
    if character.isascii():
        return False
    if unicodedata.category(character) in ("Mn", "Mc", "Me", "Cf") or DROPPED.match(character):
        return True
    return "\U0001f3fb" <= character <= "\U0001f3ff" or character in "\uff9e\uff9f\u0e33\u0eb3"


def _united(spans: Iterable[Span]) -> list[Span]:
    """Spans in order, those that touch as one."""
    united: list[Span] = []
    for start, stop in sorted(spans):
        if united and start <= united[-1][1]:
            united[-1] = united[-1][0], max(stop, united[-1][1])
        else:
            united.append((start, stop))
    return united

"""Literals such as "[SEP]" that a tokenizer maps to an id wherever they occur in a text.

The rules are those of `tokenizers`' added vocabulary: the leftmost longest literal wins, and each
token says whether it must stand alone and whether it swallows the white space beside it.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from functools import cache
from typing import NamedTuple

from pocketquery.sdk.tokenizers.bert_normalizer import WORD_CHARACTERS

__all__ = ["AddedToken", "AddedTokens", "is_word_character"]

_WHITESPACE = r"[\t-\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]*"


class AddedToken(NamedTuple):
    """A literal and its id.

    Attributes:
        single_word: matches only where no word character stands beside it.
        lstrip: takes the white space before it too.
        rstrip: takes the white space after it too.
        normalized: is looked for in the normalised text instead of the raw one.
    """

    content: str
    id: int
    single_word: bool = False
    lstrip: bool = False
    rstrip: bool = False
    normalized: bool = False


class AddedTokens:
    """Finds added tokens in a text. Safe to share between threads."""

    def __init__(self, tokens: Iterable[AddedToken]) -> None:
        self._tokens: dict[str, AddedToken] = {}
        for token in tokens:
            if token.content:
                self._tokens.setdefault(token.content, token)
        longest_first = sorted(self._tokens, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, longest_first)) or r"(?!)")

    def __len__(self) -> int:
        return len(self._tokens)

    def split(self, text: str) -> Iterable[str | int]:
        """The ids of the literals in ``text`` and the stretches of text between them, in order."""
        if self._pattern.search(text) is None:
            return (text,) if text else ()
        return self._split(text)

    def _split(self, text: str) -> Iterator[str | int]:
        done = 0
        for match in self._pattern.finditer(text):
            token = self._tokens[match.group()]
            start, stop = match.span()
            if token.single_word and not _stands_alone(text, start, stop):
                continue
            if token.lstrip:
                start = max(_start_of_space(text, start), done)
            if token.rstrip:
                stop = _spaces().match(text, stop).end()  # type: ignore[union-attr]
            if done < start:
                yield text[done:start]
            yield token.id
            done = stop
        if done < len(text):
            yield text[done:]


@cache
def _spaces() -> re.Pattern[str]:
    return re.compile(_WHITESPACE)  # when a text first needs it, which most starts do not


def _start_of_space(text: str, end: int) -> int:
    while end and _spaces().fullmatch(text[end - 1]):
        end -= 1
    return end


def _stands_alone(text: str, start: int, stop: int) -> bool:
    return not (start and is_word_character(text[start - 1])) and not (
        stop < len(text) and is_word_character(text[stop])
    )


def is_word_character(character: str) -> bool:
    """Unicode's ``\\w`` (UTS 18, annex C), which is wider than Python's: marks and joiners too."""
    category = unicodedata.category(character)
    return (
        category[0] in "LM"
        or category in ("Nd", "Nl", "Pc")
        or character in "\u200c\u200d"
        or "\u24b6" <= character <= "\u24e9"  # circled and squared letters are alphabetic
        or "\U0001f130" <= character <= "\U0001f149"
        or "\U0001f150" <= character <= "\U0001f169"
        or "\U0001f170" <= character <= "\U0001f189"
        or character in WORD_CHARACTERS
    )

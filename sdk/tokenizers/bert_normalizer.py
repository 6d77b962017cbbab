"""BERT's text normalisation and splitting into words, as the `tokenizers` library does them.

Every step but one looks at a single character, so the whole chain (clean, set ideographs apart,
decompose, strip accents, lower-case, split) is one ``str.translate`` whose table fills itself as
characters are met. The exception is canonical ordering, which moves a few rare marks past each
other: texts that hold one of those take the steps one by one.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable
from functools import cache

from pocketquery.sdk.tokenizers.bert_unicode import (
    DECOMPOSED,
    IDEOGRAPHS,
    LOWERCASED,
    MARKS,
    PUNCTUATION,
    REMOVED,
    REORDERED,
    WHITESPACE,
    parse_pairs,
)

__all__ = ["BertNormalizer", "split_words"]

# A printable ASCII text has no control characters, and what is neither alphanumeric nor a space in
# it is punctuation.
_ASCII_WORD = re.compile(r"[0-9A-Za-z]+|[^ ]")
_TABLE_LIMIT = 1 << 16  # characters remembered per table: every script in use, 6 MB at most


class _OrderMatters(Exception):
    """A character whose result depends on its neighbours."""


class _TranslationTable(dict[int, str]):
    """A table for ``str.translate`` that computes a character when it is first met."""

    def __init__(self, convert: Callable[[str], str]) -> None:
        super().__init__()
        self._convert = convert

    def __missing__(self, point: int) -> str:
        converted = self._convert(chr(point))
        if len(self) < _TABLE_LIMIT:
            self[point] = converted
        return converted


class BertNormalizer:
    """The normaliser of BERT's tokenizers (Devlin et al., 2019, as released with the models).

    Args:
        clean_text: drop control characters and make every white space a plain space.
        handle_chinese_chars: put spaces around ideographs, so that each is a word.
        strip_accents: drop accents after canonical decomposition; None means "if lowercase".
        lowercase: lower-case, character by character.

    Safe to share between threads.
    """

    def __init__(
        self,
        *,
        clean_text: bool = True,
        handle_chinese_chars: bool = True,
        strip_accents: bool | None = None,
        lowercase: bool = True,
    ) -> None:
        self._clean_text = clean_text
        self._handle_chinese_chars = handle_chinese_chars
        self._strip_accents = lowercase if strip_accents is None else strip_accents
        self._lowercase = lowercase
        self._normalized = _TranslationTable(self._normalize_character)
        self._spaced = _TranslationTable(lambda c: _space_out(self._normalize_character(c)))

    def normalize(self, text: str) -> str:
        """The normalised text."""
        try:
            return text.translate(self._normalized)
        except _OrderMatters:
            return self._normalize_in_order(text)

    def words(self, text: str) -> Iterable[str]:
        """The words and punctuation marks of the normalised text."""
        if text.isascii() and text.isprintable():
            return _ASCII_WORD.findall(text.lower() if self._lowercase else text)
        try:
            return filter(None, text.translate(self._spaced).split(" "))
        except _OrderMatters:
            return split_words(self._normalize_in_order(text))

    def _normalize_character(self, character: str) -> str:
        text = self._clean(character)
        if self._strip_accents:
            if character in REORDERED:
                raise _OrderMatters
            text = _strip_marks("".join(map(_decompose, text)))
        return self._lower(text)

    def _normalize_in_order(self, text: str) -> str:
        text = "".join(map(self._clean, text))
        return self._lower(_strip_marks(_order_marks("".join(map(_decompose, text)))))

    def _clean(self, character: str) -> str:
        if self._clean_text:
            if character in REMOVED:
                return ""
            if character in WHITESPACE:
                return " "
        if self._handle_chinese_chars and character in IDEOGRAPHS:
            return f" {character} "
        return character

    def _lower(self, text: str) -> str:
        # One by one: str.lower of a whole text makes a last sigma final, the library does not.
        return "".join(map(_lower_character, text)) if self._lowercase else text


def split_words(text: str) -> Iterable[str]:
    """Split at white space and around each punctuation mark (BERT's pre-tokenizer)."""
    return filter(None, text.translate(_spacing()).split(" "))


@cache
def _spacing() -> _TranslationTable:
    return _TranslationTable(_space_out)


@cache
def _young_letters() -> dict[str, str]:
    return parse_pairs(LOWERCASED)


def _space_out(text: str) -> str:
    """Plain spaces for white space and around punctuation, so that words can be split at them."""
    return "".join(f" {c} " if c in PUNCTUATION else " " if c in WHITESPACE else c for c in text)


def _decompose(character: str) -> str:
    return unicodedata.normalize("NFD", character) if character in DECOMPOSED else character


def _strip_marks(text: str) -> str:
    return "".join(c for c in text if c not in MARKS)


def _lower_character(character: str) -> str:
    return _young_letters().get(character) or character.lower()


def _combining_class(character: str) -> int:
    """The canonical combining class, 0 for marks younger than the library's tables."""
    if character in MARKS or character in REORDERED:
        return unicodedata.combining(character)
    return 0


def _order_marks(text: str) -> str:
    """Unicode's canonical ordering: each run of marks sorted, stably, by combining class."""
    ordered: list[str] = []
    run: list[str] = []
    for character in text:
        if _combining_class(character):
            run.append(character)
        else:
            ordered += sorted(run, key=_combining_class)
            ordered.append(character)
            run = []
    return "".join(ordered + sorted(run, key=_combining_class))

"""Stems of words, by Snowball's algorithm of the language, or of the word's script.

An index has one language. A word whose script that language does not write gets the stemmer of
the language that writes this script most: a Russian word in an English manual finds its other
forms. Words with a digit are never stemmed.
"""

from __future__ import annotations

import importlib
import re
import threading
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from pocketquery.sdk.validation import check, one_of

__all__ = ["AUTO", "CODES", "LANGUAGES", "NONE", "check_language", "script_of", "stem_of"]

NONE = "none"
"""The language that leaves every word whole."""
AUTO = "auto"
"""The language of an index without documents: the first to be added say which it is in."""

_SCRIPTS = {  # first and last code points
    "latin": ((0x41, 0x24F), (0x1E00, 0x1EFF)),
    "greek": ((0x370, 0x3FF), (0x1F00, 0x1FFF)),
    "cyrillic": ((0x400, 0x52F),),
    "armenian": ((0x530, 0x58F),),
    "hebrew": ((0x590, 0x5FF),),
    "arabic": ((0x600, 0x6FF), (0x750, 0x77F)),
    "devanagari": ((0x900, 0x97F),),
    "tamil": ((0xB80, 0xBFF),),
}
_OF_SCRIPT = {
    "latin": "english",
    "greek": "greek",
    "cyrillic": "russian",
    "armenian": "armenian",
    "arabic": "arabic",
    "devanagari": "hindi",
    "tamil": "tamil",
}
LANGUAGES = {
    **dict.fromkeys(
        "basque catalan czech danish dutch english esperanto estonian finnish french german "
        "hungarian indonesian irish italian lithuanian norwegian polish portuguese romanian "
        "spanish swedish turkish".split(),
        ("latin",),
    ),
    "arabic": ("arabic",),
    "armenian": ("armenian",),
    "greek": ("greek",),
    "hindi": ("devanagari",),
    "nepali": ("devanagari",),
    "persian": ("arabic",),
    "russian": ("cyrillic",),
    "serbian": ("latin", "cyrillic"),
    "tamil": ("tamil",),
    "yiddish": ("hebrew",),
}
"""The languages with a stemmer, and the scripts that each is written in."""

_DIGIT = re.compile("[0-9]")
_LEAST, _MOST = 3, 64  # letters of a word that is stemmed
_ONE_AT_A_TIME = threading.Lock()  # a stemmer holds the word that it works on
_Stem = Callable[[str], str]


CODES = dict(
    code.split(":")
    for code in "ar:arabic ca:catalan cs:czech da:danish de:german el:greek en:english "
    "eo:esperanto es:spanish et:estonian eu:basque fa:persian fi:finnish fr:french ga:irish "
    "hi:hindi hu:hungarian hy:armenian id:indonesian it:italian lt:lithuanian nb:norwegian "
    "ne:nepali nl:dutch nn:norwegian no:norwegian pl:polish pt:portuguese ro:romanian "
    "ru:russian sr:serbian sv:swedish ta:tamil tr:turkish yi:yiddish".split()
)


def check_language(language: str) -> str:
    """The name of a language: one of LANGUAGES, or NONE.

    Args:
        language: that name, in any case, or a code: ``de``, ``pt-BR``.

    Raises:
        InvalidInputError: it is neither.
    """
    name = language.casefold() if isinstance(language, str) else language
    if isinstance(name, str):
        name = CODES.get(re.split("[-_]", name)[0], name)
    check("language", name, one_of(*sorted(LANGUAGES), NONE))
    return name


def script_of(letter: str) -> str:
    """The script of a letter, empty for one without stemmers."""
    point = ord(letter)
    for name, spans in _SCRIPTS.items():
        if any(first <= point <= last for first, last in spans):
            return name
    return ""


def stem_of(language: str) -> _Stem:
    """The function that stems a word, in lower case and with its accents, in an index of a
    language."""
    if language == NONE:
        return lambda word: word
    by_script = _OF_SCRIPT | dict.fromkeys(LANGUAGES[language], language)

    def stem(word: str) -> str:
        if not _LEAST <= len(word) <= _MOST or _DIGIT.search(word):
            return word
        name = by_script.get("latin" if word.isascii() else script_of(word[0]))
        if name is None:
            return word
        with _ONE_AT_A_TIME:
            return _stemmer(name)(word) or word

    return stem


@cache
def _stemmer(name: str) -> _Stem:
    module = importlib.import_module(f"snowballstemmer.{name}_stemmer")
    stemmer = type(name, (_ByLookup, getattr(module, f"{name.capitalize()}Stemmer")), {})()
    method: _Stem = stemmer.stemWord
    return method


class _ByLookup:
    """Looks endings up in a table, where snowballstemmer compares letters one by one: half the
    time."""

    current: str
    cursor: int
    limit: int
    limit_backward: int

    def find_among_b(self, endings: Sequence[Any]) -> int:
        """The result of the longest of ``endings`` that is before the cursor, which moves."""
        table, lengths = _table(endings)
        end = self.cursor
        room = end - self.limit_backward
        for length in lengths:
            if length <= room:
                entry = table.get(self.current[end - length : end])
                if entry is not None:
                    self.cursor = end - length
                    if entry.method is None:
                        return int(entry.result)
                    if entry.method(self):
                        self.cursor = end - length
                        return int(entry.result)
        return 0

    def find_among(self, beginnings: Sequence[Any]) -> int:
        """The result of the longest of ``beginnings`` that is behind the cursor, which moves."""
        table, lengths = _table(beginnings)
        start = self.cursor
        room = self.limit - start
        for length in lengths:
            if length <= room:
                entry = table.get(self.current[start : start + length])
                if entry is not None:
                    self.cursor = start + length
                    if entry.method is None:
                        return int(entry.result)
                    if entry.method(self):
                        self.cursor = start + length
                        return int(entry.result)
        return 0


_tables: dict[int, tuple[dict[str, Any], list[int]]] = {}


def _table(entries: Sequence[Any]) -> tuple[dict[str, Any], list[int]]:
    """Snowball's list, which lives as long as its class, by text; the lengths, longest first."""
    made = _tables.get(id(entries))
    if made is None:
        table = {entry.s: entry for entry in entries}
        made = _tables[id(entries)] = table, sorted({*map(len, table)}, reverse=True)
    return made

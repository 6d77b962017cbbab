"""Cutting running text into sentences, for scripts with and without blanks."""

from __future__ import annotations

import re

__all__ = ["split_sentences"]

# The marks of scripts without ASCII punctuation (CJK, Devanagari, Arabic, Urdu, Armenian, Ethiopic,
# Burmese, Khmer, Tibetan) end a sentence by themselves. The ASCII ones also abbreviate and divide,
# so they count only before a blank.
_WIDE_SENTENCE_ENDS = "。！？｡؟۔।॥։።፧၊။។᙮༎‼⁇⁈⁉"
_CLOSERS = "\"'”’»›)\\]）］」』】》〉"
_SENTENCE_BREAK = re.compile(
    rf"(?<=[{_WIDE_SENTENCE_ENDS}])[{_CLOSERS}]*+(?![{_WIDE_SENTENCE_ENDS}])\s*"
    rf"|(?<![.!?…])[.!?…]++[{_CLOSERS}]*+\s+"
    r"|\n[^\S\n]*\n\s*"
)
_ABBREVIATED = (
    "mr mrs ms dr prof st sr jr vs etc eg ie e.g i.e cf al fig figs eq eqs vol pp eds inc ltd co "
    "corp dept univ approx ca gen sgt capt lt rev hon gov sen rep jan feb aug sept oct nov dec "
    "u.s u.k a.m p.m bzw z.b d.h usw bd hrsg vgl ggf sra srta núm pág т.е т.д т.п др гг им ул см"
)
_ABBREVIATIONS = frozenset(_ABBREVIATED.split())
_NUMBER_ABBREVIATIONS = frozenset({"no", "nos", "nr", "p", "art", "sec", "ch"})


def split_sentences(text: str) -> list[str]:
    """The sentences of ``text`` in order, stripped, none empty.

    Nothing but white space between sentences is lost. A mark before a small letter, and a full
    stop after a known abbreviation or an initial ("J. Smith"), do not end a sentence; a blank
    line always does. Scripts that write no blanks (Chinese, Japanese) end at their own marks.
    """
    sentences: list[str] = []
    start = 0
    for match in _SENTENCE_BREAK.finditer(text):
        if _ends(text, match):
            sentences.append(text[start : match.end()].strip())
            start = match.end()
    sentences.append(text[start:].strip())
    return [sentence for sentence in sentences if sentence]


def _ends(text: str, match: re.Match[str]) -> bool:
    mark = match.group()
    if mark[:1] not in {".", "!", "?", "…"}:
        return True
    after = text[match.end() : match.end() + 1]
    if "\n\n" in mark:
        return True
    return not after.islower() and not (mark[0] == "." and _abbreviates(text, match.start(), after))


def _abbreviates(text: str, stop: int, after: str) -> bool:
    """Whether the full stop at ``stop`` belongs to the word before it."""
    word = re.split(r"[\s(\[\"'“‘«]", text[max(0, stop - 12) : stop])[-1].lower()
    if word in _NUMBER_ABBREVIATIONS:
        return after.isdigit()
    return word in _ABBREVIATIONS or (len(word) == 1 and word.isalpha() and after.isupper())

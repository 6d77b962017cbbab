"""Characters that look or mean alike, made one, before a text is cut into words.

Invisible characters go, and so do the vowel signs of Arabic and Hebrew and the dot below a letter
of Devanagari, which most people do not type. What a zero-width non-joiner parts in Persian, others
write with a blank or as one word, so it is a hyphen there. All apostrophes are one, all hyphens are
one, all decimal digits are ASCII's, compatible characters are made one (NFKC: full-width letters,
ligatures), and letters that Arabic, Persian and Urdu keyboards have for one another are one.

The time is linear in the text. Canonical ordering, a step of NFKD and NFC, sorts each run of
combining marks in the square of its length, and words have no more than a few: of a longer run the
first 30 marks count, as in Unicode's Stream-Safe Text Format (UAX #15, section 13), which breaks
runs there.
"""

from __future__ import annotations

import re
import unicodedata
from itertools import pairwise

__all__ = ["HYPHENS", "UNSPACED", "bare", "letters_of", "normalize"]

# Thai, Lao, Myanmar, Khmer; Kana, Bopomofo, Han and its extensions (Hangul writes spaces).
UNSPACED = re.compile(
    "[\u0e00-\u0e4f\u0e80-\u0ecf\u0edc-\u0eff\u1000-\u103f\u1050-\u108f\u1780-\u17d3"
    "\u3005-\u3007\u3021-\u3029\u3031-\u3035\u3041-\u3096\u3099-\u309a\u309d-\u309f"
    "\u30a1-\u30fa\u30fc-\u30ff\u3105-\u312f\u31a0-\u31bf\u31f0-\u31ff\u3400-\u4dbf"
    "\u4e00-\u9fff\ua9e0-\ua9fe\uaa60-\uaa7f\uf900-\ufaff\U0001b000-\U0001b16f"
    "\U00020000-\U0003ffff]+"
)
"""A run of letters of scripts that write no spaces."""

APOSTROPHES = (
    "'\u0060\u00b4\u02b9\u02bb\u02bc\u02bd\u02c8\u055a\u05f3\u2018\u2019\u201b\u2032\ua78c"
)
HYPHENS = "-\u058a\u05be\u2010\u2011\u2012\u2013\u2212"
# Arabic's alef maksura, Farsi yeh and keheh, heh goal, teh marbuta goal.
ALIKE = {
    "\u0649": "\u064a",
    "\u06cc": "\u064a",
    "\u06a9": "\u0643",
    "\u06c1": "\u0647",
    "\u06c3": "\u0629",
}
# What is dropped besides format characters (Cf) and enclosing marks (Me): the joiner of graphemes,
# fillers of Hangul, variation selectors, the signs of Hebrew, Arabic and Syriac, and the nukta.
DROPPED = re.compile(
    "[\u034f\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0610-\u061a\u0640\u064b-\u065f\u0670"
    "\u06d6-\u06dc\u06df-\u06e4\u06e7\u06e8\u06ea-\u06ed\u0730-\u074a\u08d3-\u08ff\u093c\u115f\u1160"
    "\u180b-\u180f\u3164\ufe00-\ufe0f\U000e0100-\U000e01ef]"
)
_PARTED = re.compile("(?<=[\u0620-\u06ff])\u200c(?=[\u0620-\u06ff])")
_ACCENTS = re.compile("[\u0300-\u036f]+")
_MOST_MARKS = 30
_EXCESS_MARKS = re.compile(f"(?<=1{{{_MOST_MARKS}}})1+")  # in a text of 0 and 1, see _Marks
_MOST_CACHED = 1 << 16  # every script in use


def normalize(text: str) -> str:
    """``text`` with alike characters made one; accents and case stay, for the stemmers."""
    if text.isascii():
        return text.replace("`", "'")
    if "\u200c" in text:
        text = _PARTED.sub("-", text)
    decomposed = unicodedata.normalize("NFKD", _stream_safe(text.translate(_replaced)))
    return unicodedata.normalize("NFC", decomposed.translate(_replaced))


def bare(word: str) -> str:
    """A word in lower case without its accents, dotless i as i."""
    if word.isascii():
        return word
    decomposed = _ACCENTS.sub("", unicodedata.normalize("NFD", word)).replace("\u0131", "i")
    return unicodedata.normalize("NFC", decomposed)


def letters_of(run: str) -> list[str]:
    """The letters of a run of an unspaced script: a vowel sign or tone mark belongs to the letter
    before it."""
    starts = [
        position
        for position, character in enumerate(run)
        if not position or not unicodedata.category(character).startswith("M")
    ]
    return [run[start:stop] for start, stop in pairwise([*starts, len(run)])]


class _Replaced(dict[int, str | None]):
    """A table for ``str.translate``: what each character is replaced by, None where it goes."""

    def __missing__(self, point: int) -> str | None:
        character = chr(point)
        digit = unicodedata.decimal(character, None)
        value: str | None = character
        if character in APOSTROPHES:
            value = "'"
        elif character in HYPHENS:
            value = "-"
        elif DROPPED.match(character) or unicodedata.category(character) in ("Cf", "Me"):
            value = None
        elif digit is not None:
            value = str(digit)
        else:
            value = ALIKE.get(character, character)
        if len(self) < _MOST_CACHED:
            self[point] = value
        return value


_replaced = _Replaced()


class _Marks(dict[int, str]):
    """A table for ``str.translate``: "1" for what canonical ordering may move or what goes before
    it, else "0"."""

    def __missing__(self, point: int) -> str:
        parts = unicodedata.normalize("NFKD", chr(point))
        moved = unicodedata.combining(parts[0]) or not parts.translate(_replaced)
        mark = "1" if moved else "0"
        if len(self) < _MOST_CACHED:
            self[point] = mark
        return mark


_marks = _Marks()


def _stream_safe(text: str) -> str:
    """``text`` with the first 30 of each run of combining marks."""
    pieces, done = [], 0
    for run in _EXCESS_MARKS.finditer(text.translate(_marks)):
        pieces.append(text[done : run.start()])
        done = run.end()
    return "".join([*pieces, text[done:]]) if done else text

"""A chunk of text, which has no blank inside, cut into words and compounds.

Words are maximal runs of letters, marks and digits. What is written as one name is a compound
beside its words: ``get_user_name``, ``3.11.7``, ``C++``, ``.NET``, ``flask.Blueprint``, ``e-mail``.

A *member* is words joined by weak signs (``_ - & +``, a dot between digits, the apostrophe of a
contraction). A *chain* is members joined by strong signs (``. @ :: ->``), with a sign before it
(``.NET``, ``--flag``, ``#12``, ``@name``, ``$HOME``) or behind (``C++``, ``C#``).

Scripts that write no spaces become their letters and pairs of neighbours. A run of Hangul is a
word, with its pairs of syllables beside it: particles are written onto Korean nouns.
"""

from __future__ import annotations

import re
import unicodedata
from itertools import pairwise
from typing import NamedTuple

from pocketquery.sdk.words.characters import UNSPACED, letters_of, normalize

__all__ = ["IDENTIFIER", "Cut", "cut", "has_word"]

_MOST_LETTERS = 128  # of a word or compound


class Cut(NamedTuple):
    """What a chunk of text consists of, as written.

    Attributes:
        words: in their order; of unspaced scripts the letters.
        pairs: neighbours in a run of an unspaced script.
        compounds: whole names; ready terms, as :func:`~pocketquery.sdk.words.characters.bare`
            leaves them.
        joins: words written with a hyphen or an underscore between letters, and digits in groups of
            three, without what is between.
        parts: of a word in camel case; syllable pairs of Hangul.
    """

    words: list[str]
    pairs: list[str]
    compounds: list[str]
    joins: list[str]
    parts: list[str]


_BASE = (
    "[\u231a-\u23ff\u25fb-\u25fe\u2600-\u27bf\u2b05-\u2b55\u3030\u303d\u3297\u3299"
    "\U0001f000-\U0001f1e5\U0001f200-\U0001f3fa\U0001f400-\U0001faff]"
)
_TONES = "[\U0001f3fb-\U0001f3ff]"
_ONE = f"{_BASE}\ufe0f?{_TONES}?"
_EMOJI = re.compile(
    "[\U0001f1e6-\U0001f1ff]{2}|"  # a flag
    "\U0001f3f4[\U000e0061-\U000e007a]+\U000e007f|"  # that of a region
    f"{_ONE}(?:\u200d(?:{_ONE}|[\u2640\u2642\u2695\u2696\u2708]\ufe0f?))*"
)
_MAYBE_EMOJI = re.compile("[\u231a-\u2bff\u3030\u303d\u3297\u3299\U0001f000-\U0001faff]")
_STYLE = re.compile(f"\ufe0f|{_TONES}")

_SIGNS = frozenset("_-.,'@&+:>/#$")


class _Shapes(dict[int, str]):
    """A table for ``str.translate``: w for a letter or mark, 0 a digit, h a letter of an unspaced
    script, k of Hangul, a sign as itself, else a blank."""

    def __missing__(self, point: int) -> str:
        character = chr(point)
        if character.isascii():
            shape = "0" if character.isdigit() else "w" if character.isalpha() else " "
            shape = character if character in _SIGNS else shape
        elif UNSPACED.match(character):
            shape = "h"
        elif 0xAC00 <= point <= 0xD7A3 or 0x1100 <= point <= 0x11FF or 0x3130 <= point <= 0x318F:
            shape = "k"
        elif character.isalnum() or unicodedata.category(character) in ("Mn", "Mc", "Co"):
            shape = "w"
        else:
            shape = " "
        if len(self) < 1 << 16:
            self[point] = shape
        return shape


_shapes = _Shapes()
_RUN = re.compile(
    r"(?P<unspaced>h+)|(?P<hangul>k+)|"
    r"(?P<prefix>(?<![w0.])\.(?=w)|(?<![w0-])--(?=w)|(?<![w0#])\#(?=[w0])|(?<![w0@$])[@$](?=w))?"
    r"(?P<chain>[w0]+(?:(?:_+|[-.'@&]|\+{1,2}|::|->)[w0]+)*)"
    r"(?P<suffix>(?:\+{1,2}|\#)(?![w0]))?"
)
_WORD = re.compile("[w0]+")
_STRONG = re.compile(r"(?<!0)\.|\.(?!0)|@|::|->")
_SLASHED = re.compile(r"(?<![w0/.-])[w0]{1,3}/[w0]{1,3}(?:\+{1,2})?(?![w0/.-])")  # I/O, TCP/IP
_DUNDER = re.compile(r"(?<![w0_])__[w0]+(?:_+[w0]+)*__(?![w0_])")  # __init__
_GROUPED = re.compile("(?<![w0,.])0{1,3}(?:,000)+(?!,?[w0])")  # 1,000,000
_CONTRACTION = re.compile(r"'(?:t|re|ve|ll|d|m)$|^o'", re.IGNORECASE)
_VERSION = re.compile(r"[vV](?=\d+\.\d)")
_NUMBER = re.compile(r"0+(?:\.0+)+(?![w0])")
_DROPPED_SIGN = re.compile(r"(?<!\d)[-_']+|[-_']+(?!\d)")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
IDENTIFIER = re.compile(r"^[a-z][a-z0-9]+[A-Z]|[A-Z][A-Z0-9][A-Z][a-z]{2}")
"""What a name in camel case has: ``getUserName``, ``HTTPServer``; ``JavaScript`` and ``URLs`` are
words."""


def cut(chunk: str) -> Cut:
    """The words and compounds of a chunk of text."""
    made = Cut([], [], [], [], [])
    if _MAYBE_EMOJI.search(chunk):
        chunk = _EMOJI.sub(lambda match: _emoji(made, match[0]), chunk)
    text = normalize(chunk)
    shape = text.translate(_shapes)
    for match in _RUN.finditer(shape):
        run = text[match.start() : match.end()]
        if match["unspaced"]:
            letters = letters_of(run)
            made.words.extend(letters)
            made.pairs.extend(left + right for left, right in pairwise(letters))
        elif match["hangul"]:
            made.words.append(run[:_MOST_LETTERS])
            if len(run) > 2:
                made.parts.extend(left + right for left, right in pairwise(run))
        else:
            start, stop = match.span("chain")
            _chain(made, match["prefix"] or "", text[start:stop], shape[start:stop],
                   match["suffix"] or "")  # fmt: skip
    for pattern in (_SLASHED, _DUNDER):
        made.compounds.extend(text[m.start() : m.end()] for m in pattern.finditer(shape))
    made.joins.extend(text[m.start() : m.end()].replace(",", "") for m in _GROUPED.finditer(shape))
    return made


def has_word(text: str) -> bool:
    """Whether ``text`` has a letter or a digit, so that words can find it."""
    return not set(normalize(text).translate(_shapes)).isdisjoint("w0hk")


def _emoji(made: Cut, sequence: str) -> str:
    whole = sequence.replace("\ufe0f", "")
    parts = [_STYLE.sub("", part) for part in sequence.split("\u200d")]
    made.words.extend(parts)
    if whole != parts[0]:
        made.compounds.append(whole)
    return " "


def _chain(made: Cut, prefix: str, text: str, shape: str, suffix: str) -> None:
    if text[-2:] in ("'s", "'S"):  # Python's
        text, shape = text[:-2], shape[:-2]
    members, start = [], 0
    for sign in [*_STRONG.finditer(shape), None]:
        stop = sign.start() if sign else len(text)
        members.append((start, stop))
        _member(made, text[start:stop], shape[start:stop])
        start = sign.end() if sign else stop
    if len(text) > _MOST_LETTERS:
        return
    if len(members) > 1 and all(stop - start == 1 for start, stop in members):
        made.joins.append("".join(text[start] for start, _ in members))  # U.S.A.
    elif len(members) > 1 or prefix or suffix:
        if len(members) > 2:
            made.compounds.append(text[members[-2][0] :] + suffix)  # Flask.route of app.Flask.route
        if len(members) > 1 and prefix:
            made.compounds.append(text + suffix)  # app.route of @app.route
        made.compounds.append(prefix + text + suffix)


def _member(made: Cut, text: str, shape: str) -> None:
    words = [text[found.start() : found.end()] for found in _WORD.finditer(shape)]
    made.words.extend(word[:_MOST_LETTERS] for word in words)
    for word in words:
        if IDENTIFIER.search(word):
            parts = _CAMEL.split(word)
            if min(map(len, parts)) > 1:
                made.parts.extend(parts)
    if len(words) == 1 or len(text) > _MOST_LETTERS:
        return
    if "'" in text:
        if len(words) == 2 and _CONTRACTION.search(text):
            made.joins.append(text.replace("'", ""))
        return
    if _VERSION.match(text):
        text, shape = text[1:], shape[1:]
    number = _NUMBER.search(shape)
    if number and number[0] != shape:
        made.compounds.append(text[number.start() : number.end()])
    joined = _DROPPED_SIGN.sub("", text)
    (made.joins if joined.isalpha() else made.compounds).append(joined)
    if "_" in text:
        made.compounds.append(text)

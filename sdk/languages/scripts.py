"""Which scripts a text is in, and whether languages are written in them.

An encoder turns any text into a vector. Of a text in letters that it never learnt, that vector says
nothing, and a search that mixes it with words finds less than words alone. So a query is looked at
first, by a rule that is cheap and the same in JavaScript (``words/scripts.ts``).

Languages are codes of BCP 47; of ``pt-BR`` the first part counts.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache, lru_cache
from typing import Any

__all__ = [
    "LANGUAGE_CODE",
    "MOST_READ",
    "RANGES",
    "WRITTEN",
    "base_code",
    "has_unread_letters",
    "language_number",
    "script_counts",
    "scripts_of",
    "usual_letters",
]

# First and last code points of each script's letters, signs and digits (ISO 15924). "Viet" are the
# Latin letters of Vietnamese that hardly another language has: every second word has one.
RANGES = """
Latn 41-5A 61-7A AA-AA BA-BA C0-D6 D8-F6 F8-19F 1A2-1AE 1B1-24F 1E00-1E9F 1EFA-1EFF 2C60-2C7F
Latn A720-A7FF AB30-AB64 FF21-FF3A FF41-FF5A
Viet 1A0-1A1 1AF-1B0 1EA0-1EF9
Grek 370-373 376-377 37B-37D 37F-37F 386-386 388-3E1 3F0-3FF 1F00-1FFF
Cyrl 400-52F 1C80-1C8F 2DE0-2DFF A640-A69F
Armn 531-556 560-588 FB13-FB17
Hebr 591-5F4 FB1D-FB4F
Arab 610-61A 620-6FF 750-77F 870-8FF FB50-FDFF FE70-FEFC
Syrc 700-74F
Thaa 780-7BF
Deva 900-963 966-97F A8E0-A8FF
Beng 980-9FF
Guru A00-A7F
Gujr A80-AFF
Orya B00-B7F
Taml B80-BFF
Telu C00-C7F
Knda C80-CFF
Mlym D00-D7F
Sinh D80-DFF
Thai E01-E3A E40-E4E E50-E59
Laoo E80-EFF
Tibt F00-FFF
Mymr 1000-109F A9E0-A9FE AA60-AA7F
Geor 10A0-10FF 1C90-1CBF 2D00-2D2F
Hang 1100-11FF 3130-318F A960-A97F AC00-D7FF FFA0-FFDC
Ethi 1200-139F 2D80-2DDF AB00-AB2F
Cher 13A0-13FF AB70-ABBF
Khmr 1780-17FF 19E0-19FF
Mong 1800-18AF
Kana 3041-3096 309D-309F 30A1-30FA 30FC-30FF 31F0-31FF FF66-FF9F 1B000-1B16F
Hani 2E80-2FDF 3005-3007 3021-3029 3038-303B 3400-4DBF 4E00-9FFF F900-FAFF 20000-3FFFF
"""
# Languages by script; all read Latin letters, so no row is for these.
WRITTEN = """
Viet vi yo ig
Grek el
Cyrl ab ba be bg ce cv kk ky mk mn os ru sah sr tg tt uk
Armn hy
Hebr he yi
Arab ar ckb fa ps sd ug ur
Syrc syr
Thaa dv
Deva bho hi mai mr ne sa
Beng as bn
Guru pa
Gujr gu
Orya or
Taml ta
Telu te
Knda kn
Mlym ml
Sinh si
Thai th
Laoo lo
Tibt bo dz
Mymr my
Geor ka
Hang ko
Ethi am ti
Cher chr
Khmr km
Kana ja
Hani ja yue zh
"""
LANGUAGE_CODE = re.compile("[a-z]{2,3}(?:-[A-Za-z0-9]{1,8}){0,3}")
"""A code as BCP 47 has it: ``en``, ``pt-BR``."""
MOST_READ = 1000
"""Characters of a text that are looked at."""
_UNREAD_SHARE = 4  # of a text's letters one in so many


def _edges() -> Iterator[tuple[int, str]]:
    for name, *ranges in map(str.split, RANGES.strip().splitlines()):
        for span in ranges:
            first, last = (int(point, 16) for point in span.split("-"))
            yield first, name
            yield last + 1, ""


# Where one script ends and the next begins at the same point, its name sorts last.
_BY_POINT = dict(sorted(_edges()))
_POINTS, _NAMES = list(_BY_POINT), list(_BY_POINT.values())


@lru_cache(1 << 14)
def _script(character: str) -> str:
    """Empty where the table has none: digits, punctuation, emoji, what is not assigned."""
    position = bisect_right(_POINTS, ord(character))
    return _NAMES[position - 1] if position else ""


@cache
def scripts_of(languages: tuple[str, ...]) -> frozenset[str]:
    """The scripts that an encoder of these languages reads, as ISO 15924 has them: theirs, and
    Latin letters, which every tokenizer has. ::

        scripts_of(("en", "ja"))  # {"Latn", "Kana", "Hani"}
    """
    codes = set(map(base_code, languages))
    rows = map(str.split, WRITTEN.strip().splitlines())
    return frozenset({"Latn"}.union(name for name, *written in rows if codes.intersection(written)))


def has_unread_letters(text: str, languages: tuple[str, ...]) -> bool:
    """Whether a quarter of the letters of ``text`` are in words that no language of these writes.

    Such a word, between blanks, has more than half of its letters in scripts of others, or one that
    only Vietnamese has.

    Args:
        text: in Unicode's form C or not.
        languages: codes.
    """
    scripts = scripts_of(languages)
    letters = unread = 0
    for word in unicodedata.normalize("NFC", text[:MOST_READ]).split():
        counts = script_counts(word)
        count = counts.total()
        strange = sum(counts[name] for name in counts if name not in scripts)
        letters += count
        if 2 * strange > count or (counts["Viet"] and "Viet" not in scripts):
            unread += count
    return letters > 0 and _UNREAD_SHARE * unread >= letters


def base_code(code: str) -> str:
    """The language of a code, without region and script; Norwegian's three are one."""
    base = re.split("[-_]", code.casefold())[0]
    return "no" if base in ("nb", "nn") else base


def usual_letters(code: str) -> str:
    """A code as BCP 47 writes it: pt-BR, zh-Hant."""
    first, *rest = code.lower().split("-")
    parts = ({2: one.upper(), 4: one.title()}.get(len(one), one) for one in rest)
    return "-".join([first, *parts])


def language_number(metadata: Mapping[str, Any]) -> int:
    """The language that a document's field ``language`` names, without its region, as a number
    below 27 ** 3: two or three letters in base 27, a is 1. 0 where it names none."""
    code = metadata.get("language")
    if not isinstance(code, str) or not LANGUAGE_CODE.fullmatch(code):
        return 0
    first, second, *third = (ord(letter) - ord("a") + 1 for letter in code.partition("-")[0])
    return (first * 27 + second) * 27 + sum(third)


def script_counts(text: str) -> Counter[str]:
    """How many characters of ``text`` are of each script."""
    counts = Counter(map(_script, text))
    del counts[""]
    return counts

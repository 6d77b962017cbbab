"""The stemmer of docs/formats, "Stemming", on bytes."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

_STEP_2 = (
    "ational>ate tional>tion enci>ence anci>ance izer>ize logi>log bli>ble alli>al entli>ent "
    "eli>e ousli>ous ization>ize ation>ate ator>ate alism>al iveness>ive fulness>ful ousness>ous "
    "aliti>al iviti>ive biliti>ble"
)
_STEP_3 = "ical>ic ness> icate>ic iciti>ic ful> ative> alize>al"
_STEP_4 = "al ance ence er ic able ible ant ement ment ent ion ou ism ate iti ous ive ize"
Rules = Sequence[tuple[bytes, bytes]]


def _rules(text: str) -> Rules:
    return [(a.encode(), b.encode()) for a, _, b in (rule.partition(">") for rule in text.split())]


_TABLES = (_rules(_STEP_2), _rules(_STEP_3), _rules(_STEP_4))


def stem(word: bytes) -> bytes:
    """The stem of a word of 3 to 64 bytes."""
    word = _step_1b(_step_1a(word))
    if word.endswith(b"y") and _has_vowel(word[:-1]):
        word = word[:-1] + b"i"
    for least, rules in zip((1, 1, 2), _TABLES, strict=True):
        word = _replaced(word, rules, least)
    if word.endswith(b"e"):
        rest = word[:-1]
        if _measure(rest) > 1 or (_measure(rest) == 1 and not _ends_short(rest)):
            word = rest
    if word.endswith(b"ll") and _measure(word[:-1]) > 1:
        word = word[:-1]
    return word


def _ends(word: bytes, suffix: bytes) -> bool:
    return len(word) > len(suffix) and word.endswith(suffix)


def _step_1a(word: bytes) -> bytes:
    if _ends(word, b"sses") or _ends(word, b"ies"):
        return word[:-2]
    if word.endswith(b"s") and not word.endswith(b"ss"):
        return word[:-1]
    return word


def _step_1b(word: bytes) -> bytes:
    if _ends(word, b"eed"):
        return word[:-1] if _measure(word[:-3]) else word
    if _ends(word, b"ed"):
        rest = word[:-2]
    elif _ends(word, b"ing"):
        rest = word[:-3]
    else:
        return word
    if not _has_vowel(rest):
        return word
    if any(_ends(rest, suffix) for suffix in (b"at", b"bl", b"iz")):
        return rest + b"e"
    last = rest[-1:]
    if last not in (b"a", b"e", b"i", b"o", b"u", b"l", b"s", b"z") and rest[-2:] == last * 2:
        return rest[:-1]
    return rest + b"e" if _measure(rest) == 1 and _ends_short(rest) else rest


def _replaced(word: bytes, rules: Rules, least: int) -> bytes:
    for suffix, replacement in rules:
        # The rules of a step are looked up by the last byte but one.
        if _ends(word, suffix):
            rest = word[: -len(suffix)]
            fits = _measure(rest) >= least and (suffix != b"ion" or rest[-1:] in (b"s", b"t"))
            return rest + replacement if fits else word
    return word


def _vowels(word: bytes) -> list[bool]:
    """Whether each byte is a vowel; y is one after a consonant."""
    found: list[bool] = []
    for place, byte in enumerate(word):
        plain = byte in b"aeiou"
        found.append(plain or (byte == ord("y") and place > 0 and not found[-1]))
    return found


def _has_vowel(word: bytes) -> bool:
    return any(
        byte in b"aeiou" or (byte == ord("y") and place > 0) for place, byte in enumerate(word)
    )


def _measure(word: bytes) -> int:
    vowels = _vowels(word)
    return sum(left and not right for left, right in itertools.pairwise(vowels))


def _ends_short(word: bytes) -> bool:
    return word[-1:] not in (b"w", b"x", b"y") and _vowels(word)[-3:] == [False, True, False]

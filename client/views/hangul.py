"""Korean syllables as the keys that type them, and back.

A syllable block is one character but two to five keystrokes on the two-set board; mistakes happen
to keystrokes. Arithmetic of the blocks: The Unicode Standard, section 3.12, "Conjoining Jamo
Behavior".
"""

from __future__ import annotations

__all__ = ["is_syllable", "keystrokes", "compose"]

_FIRST_SYLLABLE = 0xAC00
_INITIALS = "ㄱㄲㄴㄷㄸㄹㅁㅂㅃㅅㅆㅇㅈㅉㅊㅋㅌㅍㅎ"
_VOWELS = "ㅏㅐㅑㅒㅓㅔㅕㅖㅗㅘㅙㅚㅛㅜㅝㅞㅟㅠㅡㅢㅣ"
_FINALS = " ㄱㄲㄳㄴㄵㄶㄷㄹㄺㄻㄼㄽㄾㄿㅀㅁㅂㅄㅅㅆㅇㅈㅊㅋㅌㅍㅎ"
_PARTS = {
    "ㅘ": "ㅗㅏ", "ㅙ": "ㅗㅐ", "ㅚ": "ㅗㅣ", "ㅝ": "ㅜㅓ", "ㅞ": "ㅜㅔ", "ㅟ": "ㅜㅣ",
    "ㅢ": "ㅡㅣ", "ㄳ": "ㄱㅅ", "ㄵ": "ㄴㅈ", "ㄶ": "ㄴㅎ", "ㄺ": "ㄹㄱ", "ㄻ": "ㄹㅁ",
    "ㄼ": "ㄹㅂ", "ㄽ": "ㄹㅅ", "ㄾ": "ㄹㅌ", "ㄿ": "ㄹㅍ", "ㅀ": "ㄹㅎ", "ㅄ": "ㅂㅅ",
}  # fmt: skip
_COMPOUND_OF = {parts: whole for whole, parts in _PARTS.items()}


def is_syllable(character: str) -> bool:
    """Whether ``character`` is one of the 11,172 precomposed syllable blocks."""
    return "가" <= character <= "힣"


def keystrokes(syllable: str) -> list[str]:
    """The letters typed for one syllable block: "흙" gives ㅎ, ㅡ, ㄹ, ㄱ."""
    rest, final = divmod(ord(syllable) - _FIRST_SYLLABLE, len(_FINALS))
    initial, vowel = divmod(rest, len(_VOWELS))
    letters = (_INITIALS[initial], _VOWELS[vowel], _FINALS[final].strip())
    return [key for letter in letters for key in _PARTS.get(letter, letter)]


def compose(keys: list[str]) -> str:
    """What an input method shows for ``keys``: blocks, and the letters that fit in none."""
    shown, at = "", 0
    while at < len(keys):
        if keys[at] not in _INITIALS or keys[at + 1 : at + 2] == [] or keys[at + 1] not in _VOWELS:
            shown += keys[at]
            at += 1
            continue
        initial = keys[at]
        vowel, at = _longest(keys, at + 1, _VOWELS)
        final, at = _final(keys, at)
        block = _INITIALS.index(initial) * len(_VOWELS) + _VOWELS.index(vowel)
        shown += chr(_FIRST_SYLLABLE + block * len(_FINALS) + _FINALS.index(final or " "))
    return shown


def _longest(keys: list[str], at: int, letters: str) -> tuple[str, int]:
    """The letter typed at ``at``, of two keys where they join into one, and where it ends."""
    pair = _COMPOUND_OF.get("".join(keys[at : at + 2]), "")
    return (pair, at + 2) if pair and pair in letters else (keys[at], at + 1)


def _final(keys: list[str], at: int) -> tuple[str, int]:
    """The closing consonants at ``at``; one that a vowel follows opens the next block instead."""
    for length in (2, 1):
        typed = "".join(keys[at : at + length])
        letter = _COMPOUND_OF.get(typed, "") if length == 2 else typed
        before_vowel = at + length < len(keys) and keys[at + length] in _VOWELS
        if letter and letter in _FINALS and not before_vowel:
            return letter, at + length
    return "", at

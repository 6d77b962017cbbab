"""Which keys are next to a key, on the keyboards of several scripts.

A layout is three rows of keys; a blank is a key that types nothing we use. Keys are one unit wide
and the rows are shifted as on a physical board, so two keys are neighbours when they touch.
"""

from __future__ import annotations

import functools
import unicodedata

__all__ = ["neighbours"]

_ROW_SHIFTS = (0.0, 0.25, 0.75)

# The first layout that has a character decides; the national variants stand after their script's
# common board and so only add letters it lacks. Shift levels are layouts of their own.
_LAYOUTS = (
    ("qwertyuiop", "asdfghjkl", "zxcvbnm"),
    ("qwertzuiopü", "asdfghjklöä", "yxcvbnmß"),  # German
    ("qwertyuiopå", "asdfghjkløæ", "zxcvbnm"),  # Nordic
    ("qwertyuıopğü", "asdfghjklşi", "zxcvbnmöç"),  # Turkish
    ("qwertyuiop", "asdfghjklñç", "zxcvbnm"),  # Spanish, Portuguese
    ("йцукенгшщзхъ", "фывапролджэ", "ячсмитьбю"),  # Russian
    ("йцукенгшщзхї", "фівапролджєґ", "ячсмитьбю"),  # Ukrainian
    (" ςερτυθιοπ", "ασδφγηξκλ", "ζχψωβνμ"),  # Greek
    ("  קראטוןםפ", "שדגכעיחלךף", "זסבהנמצתץ"),  # Hebrew
    ("ضصثقفغعهخحجد", "شسيبلاتنمكط", "ئءؤر ىةوزظ"),  # Arabic
    ("ضصثقفغعهخحجچ", "شسیبلاتنمکگ", "ظطزرذدپو"),  # Persian
    ("ौैाीूबहगदजड", "ोे्िुपरकतचट", " ंमनवलस  य"),  # Devanagari, InScript
    ("औऐआईऊभङघधझढञ", "ओएअइउफऱखथछठ", " ँणऩऴळशष"),  # the same with shift
    ("ㅂㅈㄷㄱㅅㅛㅕㅑㅐㅔ", "ㅁㄴㅇㄹㅎㅗㅓㅏㅣ", "ㅋㅌㅊㅍㅠㅜㅡ"),  # Korean, two-set
    ("ㅃㅉㄸㄲㅆㅛㅕㅑㅒㅖ", "ㅁㄴㅇㄹㅎㅗㅓㅏㅣ", "ㅋㅌㅊㅍㅠㅜㅡ"),  # the same with shift
)


def neighbours(character: str) -> str:
    """The characters on the keys around ``character``'s key, in its case; "" if it has no key.

    An accented letter without a key of its own stands where its base letter stands. Letters have
    letters as neighbours and combining marks marks, so a replacement never leaves a mark alone.
    """
    lower = character.lower()
    near = _board().get(lower) or _board().get(unicodedata.normalize("NFD", lower)[:1], "")
    if character == lower:
        return near
    return "".join(key.upper() for key in near if len(key.upper()) == 1)


@functools.cache
def _board() -> dict[str, str]:
    board: dict[str, str] = {}
    for layout in _LAYOUTS:
        keys = [
            (key, column + shift, row)
            for row, (characters, shift) in enumerate(zip(layout, _ROW_SHIFTS, strict=True))
            for column, key in enumerate(characters)
            if key != " "
        ]
        for key, x, row in keys:
            beside = (k for k, other, r in keys if k != key and _touch(x - other, row - r))
            near = "".join(k for k in beside if _kind(k) == _kind(key))
            board.setdefault(key, near)
    return board


def _touch(across: float, down: int) -> bool:
    return abs(across) <= 1 if down == 0 else abs(down) == 1 and abs(across) < 1


def _kind(character: str) -> str:
    return unicodedata.category(character)[0]

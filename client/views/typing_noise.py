"""Text as thumbs type it: letters dropped, doubled, swapped or hit on the key beside.

A query encoder meets such text all day, and loses a quarter of its retrieval to one letter in
twelve unless it was trained on it. Used as a view in training and as a condition in evaluation.
"""

from __future__ import annotations

import random
import unicodedata

from pocketquery.client.views.hangul import compose, is_syllable, keystrokes
from pocketquery.client.views.keyboards import neighbours
from pocketquery.sdk.errors import InvalidInputError

__all__ = ["mistype"]


def mistype(text: str, rate: float, rng: random.Random) -> str:
    """Mistype each letter of ``text`` with probability ``rate``.

    A mistyped letter is dropped, doubled, swapped with the letter after it, or replaced by a
    neighbour on the keyboard of its script, in equal shares among those that are possible there.
    Scripts typed through a conversion, as kana and Han, have no neighbours; the last letter of a
    word has nothing to swap with. A letter carries its combining marks along, a Korean syllable is
    mistyped in one of its keystrokes, and nothing but letters is touched. If nothing visible would
    be left, ``text`` comes back as it was.

    Args:
        text: any string.
        rate: share of the letters, 0 to 1; 0 returns ``text`` itself.
        rng: the source of randomness; equal states give equal results.

    Raises:
        InvalidInputError: ``text`` is not a string, or ``rate`` not in [0, 1].
    """
    if not isinstance(text, str):
        raise InvalidInputError(f"text is {type(text).__name__}; expected a string")
    if not 0 <= rate <= 1:
        raise InvalidInputError(f"rate is {rate}; expected a share of letters between 0 and 1")
    pieces = _letters(text)
    typed: list[str] = []
    at = 0
    while at < len(pieces):
        if not _is_letter(pieces[at]) or rng.random() >= rate:
            typed.append(pieces[at])
            at += 1
            continue
        following = pieces[at + 1] if at + 1 < len(pieces) else ""
        slip, used = _slip(pieces[at], following, rng)
        typed.append(slip)
        at += used
    noisy = "".join(typed)
    return noisy if noisy.strip() else text


def _letters(text: str) -> list[str]:
    """``text`` cut into characters, combining marks kept with the letter before them."""
    pieces: list[str] = []
    for character in text:
        if pieces and unicodedata.category(character)[0] == "M" and _is_letter(pieces[-1]):
            pieces[-1] += character
        else:
            pieces.append(character)
    return pieces


def _is_letter(piece: str) -> bool:
    return piece[:1].isalpha()


def _slip(letter: str, following: str, rng: random.Random) -> tuple[str, int]:
    """A mistyped ``letter``, and how many of (letter, following) it stands for."""
    if is_syllable(letter):
        return _slip_in_syllable(letter, rng), 1
    slips = [("", 1), (letter[0] + letter, 1)]
    if _is_letter(following) and following != letter:
        slips.append((following + letter, 2))
    if replaced := _beside(letter, rng):
        slips.append((replaced, 1))
    return rng.choice(slips)


def _beside(letter: str, rng: random.Random) -> str:
    """``letter`` with its base or one of its marks hit on the key beside; "" if none can."""
    places = [place for place, character in enumerate(letter) if neighbours(character)]
    if not places:
        return ""
    place = rng.choice(places)
    return letter[:place] + rng.choice(neighbours(letter[place])) + letter[place + 1 :]


def _slip_in_syllable(letter: str, rng: random.Random) -> str:
    """A Korean syllable (and marks after it, which hardly occur) with one keystroke mistyped."""
    keys = keystrokes(letter[0])
    at = rng.randrange(len(keys))
    following = keys[at + 1] if at + 1 < len(keys) else ""
    slip, used = _slip(keys[at], following, rng)
    return compose([*keys[:at], *slip, *keys[at + used :]]) + letter[1:]

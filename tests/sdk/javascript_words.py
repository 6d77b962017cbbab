"""Write sdk/js/src/words/word_tables.ts: how Python classes each character of a word.

    python -m tests.sdk.javascript_words

An engine's own classes are of whichever Unicode it was built with, and some engines know none. Only
characters that ``normalize`` leaves as they are can reach what asks, and none of ASCII is listed.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator
from pathlib import Path

from pocketquery.sdk.words.characters import UNSPACED, _replaced, normalize
from pocketquery.sdk.words.tokens import _shapes
from tests.sdk.javascript_tables import base36, quoted, runs

TARGET = Path(__file__).parents[2] / "sdk" / "js" / "src" / "words" / "word_tables.ts"
_POINTS = [*range(128, 0xD800), *range(0xE000, 0x110000)]


def tables() -> str:
    """The content of the file."""
    normal = [point for point in _POINTS if normalize(chr(point)) == chr(point)]
    others = frozenset(_POINTS).difference(normal)  # these may be of any class
    words = [point for point in normal if _shapes[point] == "w"]
    replaced = {point: _replaced[point] for point in _POINTS}
    digits = [(p, ord(one)) for p, one in replaced.items() if one and one in "0123456789"]
    folded = {point: chr(point).casefold() for point in normal}
    single = [(p, ord(one)) for p, one in folded.items() if len(one) == 1 and ord(one) != p]
    longer = " ".join(f"{chr(p)}{one}" for p, one in folded.items() if len(one) > 1)
    return "".join(
        [
            "/** How Python classes characters; written by tests/sdk/javascript_words.py. */\n"
            'import { CharacterClass } from "../tokenizer/character_class.js";\n',
            *_class("LETTERS", "Letters", (p for p in words if chr(p).isalpha()), others),
            *_class(
                "OTHERS",
                "What else is of words",
                (p for p in words if not chr(p).isalpha()),
                others,
            ),
            *_class(
                "MARKS",
                "Marks in scripts without spaces, which belong to the letter before",
                (
                    p
                    for p in normal
                    if UNSPACED.match(chr(p)) and unicodedata.category(chr(p))[0] == "M"
                ),
                others,
            ),
            *_class("DROPPED", "What is dropped", (p for p, one in replaced.items() if not one)),
            *_runs("DIGITS", "Decimal digits, and ASCII's", digits),
            *_runs("FOLDED", "Characters without case", single),
            "\n/** Characters that become several without case, with these. */\n"
            f'export const UNFOLDED = "{longer}";\n',
        ]
    )


def _class(
    name: str, meaning: str, points: Iterable[int], others: frozenset[int] = frozenset()
) -> Iterator[str]:
    bounds: list[int] = []
    for point in points:
        if bounds and others.issuperset(range(bounds[-1], point)):
            bounds[-1] = point + 1
        else:
            bounds += [point, point + 1]
    steps = " ".join(base36(b - a) for a, b in zip([0, *bounds], bounds, strict=False))
    yield f"\n/** {meaning}. */\n"
    yield f"export const {name} = /* @__PURE__ */ CharacterClass.ofSteps(\n{quoted(steps)},\n);\n"


def _runs(name: str, meaning: str, pairs: list[tuple[int, int]]) -> Iterator[str]:
    yield f"\n/** {meaning}; for `mapOfRuns`. */\nexport const {name} =\n{quoted(runs(pairs))};\n"


if __name__ == "__main__":
    TARGET.write_text(tables(), encoding="utf-8")

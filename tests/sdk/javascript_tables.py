"""The Unicode tables of the JavaScript SDK, made from Python's.

``python -m tests.sdk.javascript_tables`` writes ``sdk/js/src/tokenizer/unicode_tables.ts`` anew.
"""

from __future__ import annotations

import textwrap
from pathlib import Path

from pocketquery.sdk.tokenizers import bert_normalizer
from pocketquery.sdk.tokenizers.added_tokens import is_word_character
from pocketquery.sdk.tokenizers.bert_normalizer import CharacterClass

_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
TARGET = Path(__file__).parents[2] / "sdk" / "js" / "src" / "tokenizer" / "unicode_tables.ts"

_CLASSES = {
    "REMOVED": "Dropped by clean_text.",
    "IDEOGRAPHS": "Set apart by spaces by handle_chinese_chars.",
    "MARKS": "Dropped by strip_accents.",
    "DECOMPOSED": "Characters with a canonical decomposition; newer ones are left whole.",
    "REORDERED": "Marks that strip_accents leaves but canonical ordering may move.",
    "PUNCTUATION": "Words of their own.",
    "WHITESPACE": "What stands between words.",
}


def tables() -> str:
    """The content of the file."""
    parts = [
        "/** How the `tokenizers` library classes Unicode's characters. Generated from\n"
        " * sdk/tokenizers/bert_normalizer.py by tests/sdk/javascript_tables.py: "
        "change it there. */\n\n"
        'import { CharacterClass } from "./character_class.js";\n'
    ]
    for name, meaning in _CLASSES.items():
        found = getattr(bert_normalizer, name)
        assert isinstance(found, CharacterClass)
        parts.append(_character_class(name, meaning, found.ranges))
    parts.append(_character_class("WORD_CHARACTERS", "Characters of words.", _word_ranges()))
    comment = "/** Lower case beyond ASCII, for `mapOfRuns`: an engine's Unicode may be older. */"
    parts.append(f"{comment}\nexport const LOWERCASED =\n{quoted(runs(_lowercased()))};\n")
    return "\n".join(parts)


def _character_class(name: str, meaning: str, ranges: str) -> str:
    call = f"/* @__PURE__ */ CharacterClass.of(\n{quoted(ranges)},\n)"
    return f"/** {meaning} */\nexport const {name} = {call};\n"


def _lowercased() -> list[tuple[int, int]]:
    """Letters with their small letters, where those are single characters."""
    young = {
        int(capital, 16): int(small, 16)
        for capital, small in (pair.split(">") for pair in bert_normalizer.LOWERCASED.split())
    }
    old = {point: chr(point).lower() for point in range(128, 0x110000)}
    known = {point: ord(small) for point, small in old.items() if len(small) == 1}
    return [(point, small) for point, small in sorted((known | young).items()) if point != small]


def _word_ranges() -> str:
    """All of them: an engine's own classes are of whichever Unicode it was built with."""
    spans: list[list[int]] = []
    for point in range(0x110000):
        if is_word_character(chr(point)):
            if spans and spans[-1][1] == point - 1:
                spans[-1][1] = point
            else:
                spans.append([point, point])
    return " ".join(f"{a:X}" if a == b else f"{a:X}-{b:X}" for a, b in spans)


def quoted(text: str) -> str:
    """``text`` as a constant over several lines."""
    lines = textwrap.wrap(text, 92, break_on_hyphens=False)
    return "\n".join(
        f'  "{line}{" " if number < len(lines) else ""}"{" +" if number < len(lines) else ""}'
        for number, line in enumerate(lines, 1)
    )


def runs(pairs: list[tuple[int, int]]) -> str:
    """(from, to) pairs as runs of equal step and distance."""
    found: list[list[int]] = []  # first, count, step, distance
    for code, to in pairs:
        distance = to - code
        if found:
            first, count, step, last_distance = found[-1]
            gap = code - (first + (count - 1) * step)
            if distance == last_distance and gap in ((1, 2) if count == 1 else (step,)):
                found[-1] = [first, count + 1, gap, distance]
                continue
        found.append([code, 1, 1, distance])
    previous, out = 0, []
    for first, count, step, distance in found:
        out += [base36(first - previous), base36(count), base36(step), base36(distance)]
        previous = first
    return " ".join(out)


def base36(value: int) -> str:
    """``value`` as JavaScript's ``parseInt(text, 36)`` reads it."""
    sign, value, digits = "-" if value < 0 else "", abs(value), ""
    while True:
        value, digit = divmod(value, 36)
        digits = _DIGITS[digit] + digits
        if not value:
            return sign + digits


if __name__ == "__main__":
    TARGET.write_text(tables(), encoding="utf-8")

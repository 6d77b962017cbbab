"""Write src/index/term_tables.ts: how SQLite's FTS5 cuts and folds each character.

    python -m tests.sdk.javascript_terms

The tables are asked of FTS5's tokenizer itself, one character at a time. Only characters that
``lexical.spaced`` leaves as they are can reach it, so only they are listed, and none of ASCII,
whose rules the analyser spells out.
"""

from __future__ import annotations

import sqlite3
import unicodedata
from collections.abc import Iterator
from pathlib import Path

from pocketquery.sdk.index import analysis as lexical

TARGET = Path(__file__).parents[2] / "sdk" / "js" / "src" / "index" / "term_tables.ts"
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


def main() -> None:
    """Write the tables."""
    folded = dict(tokens())
    marks = [
        code
        for code in characters()
        if lexical.UNSPACED.match(chr(code)) and unicodedata.category(chr(code)).startswith("M")
    ]
    changed = [(code, to) for code, to in folded.items() if to != code]
    TARGET.write_text(
        "/**\n"
        " * How FTS5 sees each character beyond ASCII; written by tests/sdk/javascript_terms.py.\n"
        " *\n"
        " * Numbers are in base 36, each the difference to the one before. `WORD` and `MARK` list\n"
        " * ranges (first, last); `FOLD` runs of (first, number of characters, step between them,\n"
        " * what to add to each; signed).\n"
        " */\n\n"
        f'export const WORD = "{ranges(sorted(folded))}";\n\n'
        "/** Marks in scripts without spaces, which belong to the letter before. */\n"
        f'export const MARK = "{ranges(marks)}";\n\n'
        f'export const FOLD = "{runs(changed)}";\n',
        encoding="utf-8",
    )


def characters() -> Iterator[int]:
    """The code points beyond ASCII that can reach the tokenizer."""
    for code in range(128, 0x110000):
        if 0xD800 <= code < 0xE000:
            continue
        bare = lexical._ACCENTS.sub("", unicodedata.normalize("NFKD", chr(code)))
        if unicodedata.normalize("NFC", bare) == chr(code):
            yield code


def tokens() -> Iterator[tuple[int, int]]:
    """The code points that belong to words, and what each is folded to."""
    scratch = sqlite3.connect(":memory:")
    tokenizer = lexical._TOKENIZER.removeprefix("porter ")
    scratch.execute(
        f"CREATE VIRTUAL TABLE texts USING fts5(text, content='', tokenize='{tokenizer}')"
    )
    scratch.execute("CREATE VIRTUAL TABLE terms USING fts5vocab(texts, instance)")
    scratch.executemany(
        "INSERT INTO texts (rowid, text) VALUES (?, ?)",
        ((code, f"x{chr(code)}x") for code in characters()),
    )
    for term, code in scratch.execute("SELECT term, doc FROM terms ORDER BY doc"):
        if term != "x":
            assert len(term) == 3, (term, code)
            yield code, ord(term[1])


def ranges(codes: list[int]) -> str:
    """``codes``, rising, as ranges."""
    numbers: list[int] = []
    for code in codes:
        if numbers and code == numbers[-1] + 1:
            numbers[-1] = code
        else:
            numbers += [code, code]
    return differences(numbers)


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


def differences(numbers: list[int]) -> str:
    """Rising numbers as their differences."""
    return " ".join(
        base36(number - before) for before, number in zip([0, *numbers], numbers, strict=False)
    )


def base36(value: int) -> str:
    """``value`` as JavaScript's ``parseInt(text, 36)`` reads it."""
    sign, value, digits = "-" if value < 0 else "", abs(value), ""
    while True:
        value, digit = divmod(value, 36)
        digits = _DIGITS[digit] + digits
        if not value:
            return sign + digits


if __name__ == "__main__":
    main()

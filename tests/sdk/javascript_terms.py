"""Pairs of code points as runs, as src/tokenizer/unicode_tables.ts has them."""

from __future__ import annotations

_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


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

"""Sentences over a few words, for tests that need texts and no model."""

from __future__ import annotations

__all__ = ["WORDS", "sentences"]

WORDS = (
    "water oxygen norman castle geology rock teacher school pharmacy drug empire trade sky "
    "television network river mountain king battle light plant sugar leaf cell blood heart bone"
).split()  # 27


def sentences(count: int = 200) -> list[str]:
    """Distinct synthetic sentences over :data:`WORDS`."""
    return [
        f"{WORDS[i % 27]} {WORDS[(i * 7 + 3) % 27]} of the {WORDS[(i * 5 + i // 27) % 27]} {i % 10}"
        for i in range(count)
    ]

"""The longest common substring by dynamic programming: the slow reference of the automaton."""

from __future__ import annotations

__all__ = ["common_length", "common_substrings"]


def common_length(a: str, b: str) -> int:
    """Length of the longest common substring, in O(nm)."""
    best, above = 0, [0] * (len(b) + 1)
    for x in a:
        row = [0]
        for column, y in enumerate(b):
            row.append(above[column] + 1 if x == y else 0)
        best, above = max(best, *row), row
    return best


def common_substrings(a: str, b: str) -> set[str]:
    """All longest common substrings, in O(nm) slices."""
    length = common_length(a, b)
    parts = {a[start : start + length] for start in range(len(a) - length + 1)}
    return {part for part in parts if part in b}

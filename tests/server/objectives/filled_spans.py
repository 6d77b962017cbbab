"""The inverse of hiding spans: source and target together are the text."""

from __future__ import annotations

from collections.abc import Sequence


def fill_spans(
    source: Sequence[int], spans: Sequence[Sequence[int]], sentinels: Sequence[int]
) -> list[int]:
    """The source with each sentinel replaced by its span; one without a span is left out."""
    number = {sentinel: index for index, sentinel in enumerate(sentinels)}
    filled: list[int] = []
    for token in source:
        if token not in number:
            filled.append(token)
        elif number[token] < len(spans):
            filled += spans[number[token]]
    return filled

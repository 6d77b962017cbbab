"""A progress bar of one line on stderr, so that the device needs no package for it."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from typing import TextIO, TypeVar

__all__ = ["progress"]

Item = TypeVar("Item")

_WIDTH = 30
_SECONDS_BETWEEN = 0.1


def progress(
    items: Sequence[Item], label: str, *, show: bool = True, stream: TextIO | None = None
) -> Iterator[Item]:
    """The items in order, with a bar, the rate and the time left while ``show``."""
    if not show:
        yield from items
        return
    out = stream or sys.stderr
    start = shown = time.monotonic()
    for done, item in enumerate(items):
        yield item
        now = time.monotonic()
        if now - shown >= _SECONDS_BETWEEN or done + 1 == len(items):
            shown = now
            out.write("\r" + _line(label, done + 1, len(items), now - start))
            out.flush()
    out.write("\n")


def _line(label: str, done: int, total: int, seconds: float) -> str:
    filled = _WIDTH * done // total
    rate = done / seconds if seconds > 0 else 0.0
    left = (total - done) / rate if rate > 0 else 0.0
    bar = "#" * filled + "." * (_WIDTH - filled)
    return f"{label} [{bar}] {done}/{total}  {rate:,.0f}/s  {left:,.0f} s left"

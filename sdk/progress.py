"""Progress on stderr: a bar of one line on a terminal, elsewhere a line every half minute.

So a build's log shows that something moves, and how long it will take. No package is needed for it.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator, Sized
from typing import Self, TextIO, TypeVar

__all__ = ["Progress", "progress"]

Item = TypeVar("Item")

_WIDTH = 30
_SECONDS_BETWEEN = 0.1
_SECONDS_BETWEEN_LINES = 30.0


class Progress:
    """How far something is.

    Args:
        total: how much there is to do; None where nobody knows.
        label: what is done.
        unit: of which so many are done, in the plural.
        done: how much an earlier run did.
        show: nothing is written without it.
        stream: where to; default: stderr.
    """

    def __init__(
        self,
        total: int | None,
        label: str,
        unit: str = "",
        *,
        done: int = 0,
        show: bool = True,
        stream: TextIO | None = None,
    ) -> None:
        self.total = total
        self.done = self._began_at = done
        self._label, self._unit, self._note = label, unit, ""
        self._out = (stream or sys.stderr) if show else None
        self._bar = self._out is not None and self._out.isatty()
        self._start = self._shown = time.monotonic()
        self._written = 0  # characters of the bar

    def update(self, count: int = 1) -> None:
        """So many more are done."""
        self.done += count
        if self._out is None:
            return
        now = time.monotonic()
        between = _SECONDS_BETWEEN if self._bar else _SECONDS_BETWEEN_LINES
        if now - self._shown >= between or (self._bar and self.done == self.total):
            self._shown = now
            self._write(self._line(now - self._start))

    def resume(self, done: int) -> None:
        """So much was done by an earlier run, and does not count for the rate."""
        self.done = self._began_at = done

    def speed(self, count: int) -> str:
        """How fast ``count`` since the beginning is: "38/s"."""
        seconds = time.monotonic() - self._start
        rate = count / seconds if seconds > 0 else 0.0
        return f"{rate:,.1f}/s" if rate < 10 else f"{rate:,.0f}/s"

    def note(self, text: str) -> None:
        """What stands at the end of the line from now on."""
        self._note = text

    def close(self) -> None:
        """End the bar's line."""
        if self._out is not None and self._written:
            self._out.write("\n")
            self._out.flush()
        self._out = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _write(self, line: str) -> None:
        assert self._out is not None
        if self._bar:
            self._out.write("\r" + line.ljust(self._written))
            self._written = len(line)
        else:
            self._out.write(line + "\n")
        self._out.flush()

    def _line(self, seconds: float) -> str:
        unit = f" {self._unit}" if self._unit else ""
        speed = self.speed(self.done - self._began_at)
        if self.total is None:
            return f"{self._label} {self.done:,}{unit}  {speed}{self._end}"
        left = self._seconds_left(seconds)
        remaining = "?" if left is None else _duration(left)
        bar = ""
        if self._bar:
            filled = min(_WIDTH, _WIDTH * self.done // max(1, self.total))
            bar = "[" + "#" * filled + "." * (_WIDTH - filled) + "] "
        return (
            f"{self._label} {bar}{self.done:,}/{self.total:,}{unit}  {speed}  "
            f"{remaining} left{self._end}"
        )

    def _seconds_left(self, seconds: float) -> float | None:
        """None where nobody knows yet."""
        done = self.done - self._began_at
        return ((self.total or 0) - self.done) * seconds / done if done else None

    @property
    def _end(self) -> str:
        return f"  {self._note}" if self._note else ""


def progress(
    items: Iterable[Item],
    label: str,
    unit: str = "",
    *,
    show: bool = True,
    stream: TextIO | None = None,
) -> Iterator[Item]:
    """The items in order, with a bar or lines, the rate and the time left while ``show``.

    Args:
        items: anything; without a length the time left is not known.
        label: as for :class:`Progress`, like the following.
        unit: likewise.
        show: likewise.
        stream: likewise.
    """
    total = len(items) if isinstance(items, Sized) else None
    with Progress(total, label, unit, show=show, stream=stream) as shown:
        for item in items:
            yield item
            shown.update()


def _duration(seconds: float) -> str:
    """As a person says it: 40 s, 5 min, 2 h 10 min."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"

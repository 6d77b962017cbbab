"""Time as rounds need it: a reading that does not jump, and waiting."""

from __future__ import annotations

import time
from typing import Protocol

__all__ = ["Clock", "SystemClock", "VirtualClock"]


class Clock(Protocol):
    """Seconds since some moment, and waiting for some."""

    def now(self) -> float:
        """Seconds; never less than before."""

    def sleep(self, seconds: float) -> None:
        """Return after ``seconds``."""


class SystemClock:
    """This machine's."""

    def now(self) -> float:
        """Seconds since some moment; the machine's date may be set meanwhile."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)


class VirtualClock:
    """A simulation's: nobody waits, and time passes only by waiting, so deadlines do too."""

    def __init__(self) -> None:
        self._now = 0.0

    def now(self) -> float:
        """Seconds that were waited for."""
        return self._now

    def sleep(self, seconds: float) -> None:
        """Let ``seconds`` pass."""
        self._now += seconds

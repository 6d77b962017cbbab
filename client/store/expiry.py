"""How old a kept query is, on devices whose clock jumps.

A device's clock is set by hand, falls back to 1970 with an empty battery and leaps when the network
corrects it. Subtracting two of its readings would then throw away what was kept a minute ago, or
keep it for decades. So age is a counter of our own: it grows by what the clock went forward since
it was last read, but not at all where the clock went backwards, and by no more than a bound at
once.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Age", "is_set"]

# 2025-01-01 and 2500-01-01 (UTC): a clock outside has not been set, whatever it shows.
_EARLIEST = 1_735_689_600.0
_LATEST = 16_725_225_600.0


def is_set(now: float) -> bool:
    """Whether ``now`` (Unix seconds) can be the time of day; NaN cannot."""
    return _EARLIEST <= now < _LATEST


@dataclass(frozen=True)
class Age:
    """The counter and the clock's reading that it stands for.

    Attributes:
        seconds: lived through so far; never shrinks.
        seen: the clock when it was last read, Unix seconds; None where it was never set.
    """

    seconds: float = 0.0
    seen: float | None = None

    def at(self, now: float, most: float) -> Age:
        """The counter when the clock shows ``now``; one step adds ``most`` seconds at the most."""
        if not is_set(now):
            return self
        passed = 0.0 if self.seen is None else now - self.seen
        return Age(self.seconds + min(max(passed, 0.0), most), now)

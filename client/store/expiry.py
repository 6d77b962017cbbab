"""The age of a stored query, on devices whose clock jumps, stands still or was never set.

A device's clock is set by hand, falls back to 1970 with an empty battery and leaps when the network
corrects it. Subtracting two of its readings would then throw away what was kept a minute ago, or
keep it for decades. So age is a counter of our own, which never shrinks, by four rules:

1. Every reading that is later than the last one counts, at most an hour of it, whatever date it
   shows: a clock that begins anew in 1970 at every start still ticks. An opening of the store at
   which it does not even do that, because it stands still or is back before the year 2025, counts
   an hour.
2. Where a clock that is set is up to a day ahead of what was counted, it is believed at once. What
   was counted is not counted again: a clock that goes to and fro counts once.
3. Where it is further ahead, the device was off or the clock is wrong. What it leapt to is believed
   once it is read again a day later or more, half a query's lifetime at a time; where it goes back
   before, not at all.
4. Where it is more than a day before what it showed when the counter began, it was wrong then or is
   now. Read so again a day later or more, it is believed from then on, which adds nothing: else
   nothing but rule 1 would count until it is back where it began.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

__all__ = ["DAY", "Age", "is_set"]

# 2025-01-01 and 2500-01-01 (UTC): a clock outside has not been set, whatever it shows.
_EARLIEST = 1_735_689_600.0
_LATEST = 16_725_225_600.0
_HOUR = 3_600.0
DAY = 86_400.0


def is_set(now: float) -> bool:
    """Whether ``now`` (Unix seconds) can be the time of day; NaN cannot."""
    return _EARLIEST <= now < _LATEST


@dataclass(frozen=True)
class Age:
    """The counter, and what is known of the clock.

    Attributes:
        seconds: lived through so far; never shrinks.
        seen: the clock when it was last read, Unix seconds; None where it was not.
        origin: what a right clock showed when ``seconds`` was 0; None where none was ever set.
        landed: what the clock showed when it leapt further ahead than is believed at once, or to
            before ``origin``; None where it did neither.
    """

    seconds: float = 0.0
    seen: float | None = None
    origin: float | None = None
    landed: float | None = None

    def at(self, now: float, most: float, *, opening: bool = False) -> Age:
        """The counter when the clock shows ``now``.

        Args:
            now: Unix seconds; what is no number is not read.
            most: seconds that one belief in a leap adds at the most.
            opening: whether the store is being opened.
        """
        if not math.isfinite(now):
            return self
        # 1. It ticked, or the store was opened.
        step = 0.0 if self.seen is None else now - self.seen
        seconds = self.seconds + min(max(step, 0.0), _HOUR)
        if opening and self.seen is not None and (step == 0 or (step < 0 and not is_set(now))):
            seconds += _HOUR
        if not is_set(now):
            return Age(seconds, now, self.origin, self.landed)
        origin = now - seconds if self.origin is None else self.origin
        # 4. It is before the beginning.
        if now < origin - DAY:
            if self.landed is None or now < self.landed:
                return Age(seconds, now, origin, now)
            if now - self.landed < DAY:
                return Age(seconds, now, origin, self.landed)
            return Age(seconds, now, now - seconds)
        # 2. It is about where we think.
        ahead = now - origin - seconds
        if ahead <= DAY:
            return Age(seconds + max(ahead, 0.0), now, origin)
        # 3. It leapt.
        if self.landed is None or now < self.landed:
            return Age(seconds, now, origin, now)
        if now - self.landed < DAY:
            return Age(seconds, now, origin, self.landed)
        seconds += min(max(self.landed - origin - seconds, 0.0), most)
        ahead = now - origin - seconds
        return Age(seconds, now, origin, now) if ahead > DAY else Age(seconds + ahead, now, origin)

    @property
    def stamp(self) -> float:
        """The counter that a query kept now belongs to: as if a leap were believed, so that it
        does not age by what had passed before it when the leap is.
        """
        if self.seen is None or self.origin is None or not is_set(self.seen):
            return self.seconds
        return max(self.seconds, self.seen - self.origin)

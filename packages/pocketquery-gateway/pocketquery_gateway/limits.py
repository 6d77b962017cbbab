"""Rate limits in memory that does not grow with the devices: token buckets for requests, leases for
devices that train, and nonces that are accepted once.
"""

from __future__ import annotations

import functools
import ipaddress
from collections import OrderedDict
from dataclasses import dataclass

__all__ = ["Buckets", "Leases", "Nonces", "NoncesFullError", "network_of"]

_WAITING_LEASES = 2  # as long as so many last, who asked in vain counts as waiting
_LAPSED_S = 86_400.0
_MOST_LAPSES = 8  # that are counted


class Buckets:
    """A bucket of tokens for each of those who asked last.

    Args:
        per_minute: tokens that come back in a minute.
        burst: what a bucket holds.
        most: buckets that are kept; who was forgotten begins with a full one.
    """

    def __init__(self, per_minute: float, burst: int, most: int = 50_000) -> None:
        self._rate = per_minute / 60
        self._burst = float(burst)
        self._most = most
        self._left: OrderedDict[bytes, tuple[float, float]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._left)

    def take(self, who: bytes, now: float) -> float:
        """Take a token: 0, or the seconds until there is one."""
        tokens, before = self._left.pop(who, (self._burst, now))
        tokens = min(self._burst, tokens + max(0.0, now - before) * self._rate)
        wait = 0.0 if tokens >= 1 else (1 - tokens) / self._rate
        self._left[who] = (tokens - 1 if tokens >= 1 else tokens, now)
        if len(self._left) > self._most:
            self._left.popitem(last=False)
        return wait


class Leases:
    """Who took an offer, and has not answered it yet: no more devices train than can be taken.

    A place is a device's from its first question on, for so many seconds; asking again does not
    lengthen that. A device whose time ran out, or that sent nothing that counts, has *lapsed*. For
    a day it gets another place only where one is left over by the devices that wait for one and
    have lapsed less often.

    Args:
        seconds: for which a device that took one is waited for.
        most: devices that are remembered as waiting, and as lapsed.
    """

    def __init__(self, seconds: float, most: int = 50_000) -> None:
        self._seconds = seconds
        self._most = most
        self._cohort: str | None = None
        # Each until when, the earliest first.
        self._held: OrderedDict[bytes, float] = OrderedDict()
        self._lapses: OrderedDict[bytes, tuple[float, int]] = OrderedDict()  # and how often
        self._waiting: list[OrderedDict[bytes, float]] = [  # by how often they lapsed
            OrderedDict() for _ in range(_MOST_LAPSES + 1)
        ]

    def take(self, who: bytes, cohort: str, free: int, now: float) -> bool:
        """Whether a device may have the offer.

        Args:
            who: the device.
            cohort: that the offer is of; with another one, all leases are over.
            free: devices that can be taken still.
            now: seconds that do not jump.
        """
        if cohort != self._cohort:
            self._held.clear()
            self._lapses.clear()
            for level in self._waiting:
                level.clear()
            self._cohort = cohort
        while self._held and next(iter(self._held.values())) <= now:
            self._lapse(self._held.popitem(last=False)[0], now)
        while self._lapses and next(iter(self._lapses.values()))[0] <= now:
            self._lapses.popitem(last=False)
        for level in self._waiting:
            level.pop(who, None)
            while level and next(iter(level.values())) <= now:
                level.popitem(last=False)
        if who in self._held:
            return True
        lapses = self._lapses.get(who, (0.0, 0))[1]
        before = sum(map(len, self._waiting[:lapses]))
        if free - len(self._held) - before > 0:
            self._held[who] = now + self._seconds
            return True
        self._waiting[lapses][who] = now + _WAITING_LEASES * self._seconds
        if len(self._waiting[lapses]) > self._most:
            self._waiting[lapses].popitem(last=False)
        return False

    def give_back(self, who: bytes, now: float, *, counts: bool) -> None:
        """A device has answered, with what ``counts`` or not."""
        if self._held.pop(who, None) is not None and not counts:
            self._lapse(who, now)

    def _lapse(self, who: bytes, now: float) -> None:
        lapses = self._lapses.pop(who, (0.0, 0))[1]
        self._lapses[who] = now + _LAPSED_S, min(_MOST_LAPSES, lapses + 1)
        if len(self._lapses) > self._most:
            self._lapses.popitem(last=False)


class NoncesFullError(Exception):
    """More requests came in the window than can be remembered."""


@dataclass
class Nonces:
    """The nonces of signed requests in a window of time, which begins with this process.

    A request that was signed before the process began is refused, for a nonce it was taken with
    may be forgotten; so nothing need be written, and a restart opens no gap.

    Args:
        window: seconds that a device's clock may be off, either way.
        started: when the process began, in seconds since 1970.
        most: nonces that are kept.
    """

    window: int
    started: float
    most: int = 1_000_000

    def __post_init__(self) -> None:
        self._newer: set[bytes] = set()
        self._older: set[bytes] = set()
        self._turned = self.started

    def __len__(self) -> int:
        return len(self._newer) + len(self._older)

    def is_in_time(self, created: float, now: float) -> bool:
        """Whether a request signed at ``created`` is of now, and of this process."""
        return abs(now - created) <= self.window and created > self.started

    def take(self, key: bytes, nonce: bytes, now: float) -> bool:
        """Whether this nonce of this key is new; now it is not.

        Raises:
            NoncesFullError: there is no room; try again later.
        """
        # What was signed within the window of now may come until two windows later.
        if now - self._turned > 2 * self.window:
            fresh = now - self._turned <= 4 * self.window
            self._older, self._newer = (self._newer if fresh else set()), set()
            self._turned = now
        mine = key[:8] + nonce
        if mine in self._newer or mine in self._older:
            return False
        if len(self) >= self.most:
            raise NoncesFullError
        self._newer.add(mine)
        return True


@functools.lru_cache(4096)
def network_of(address: str | None) -> bytes:
    """Whom a request from ``address`` counts for: the address, or an IPv6 customer's /64."""
    try:
        parsed = ipaddress.ip_address((address or "").partition("%")[0])
    except ValueError:
        return b"?"
    if parsed.version == 6 and parsed.ipv4_mapped is not None:
        return parsed.ipv4_mapped.packed
    return parsed.packed[:8] if parsed.version == 6 else parsed.packed

"""When a device may train: idle, charging, on an unmetered network, cool, with enough queries.

A condition on an unknown reading is not met, unless the policy lists it as one that may be unknown.
A phone that cannot tell whether it is charging is not drained on a guess.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

from pocketquery.sdk.errors import InvalidInputError
from pocketquery.sdk.validation import check_count

__all__ = ["DeviceReading", "Guard", "Policy", "Readings"]

_READINGS = ("idle", "charging", "unmetered", "temperature_c")
_READING_S = 1.0  # between two readings, at least


@dataclass(frozen=True)
class DeviceReading:
    """What a device says of itself at one moment; None is "unknown".

    Attributes:
        idle: the user is not using it, and nothing else keeps its processor busy.
        charging: on mains power, or a machine without a battery.
        unmetered: the network that it is in costs nothing by the byte.
        temperature_c: degrees Celsius of what must stay cool: a phone's battery, a processor.
    """

    idle: bool | None = None
    charging: bool | None = None
    unmetered: bool | None = None
    temperature_c: float | None = None

    def read(self) -> DeviceReading:
        """Itself: a reading is a source of readings that never changes."""
        return self


class Readings(Protocol):
    """Where readings come from: :class:`pocketquery.client.readings.SystemReadings` on a computer,
    a phone's own interfaces on a phone. What cannot be read is None; it does not raise.
    """

    def read(self) -> DeviceReading:
        """The device now."""


@dataclass(frozen=True)
class Policy:
    """The conditions; the defaults are for a phone.

    Attributes:
        idle: train only while the device is idle.
        charging: only while it is charging.
        unmetered: only on an unmetered network.
        max_temperature_c: only while it is not hotter. 45 degrees is where makers stop charging a
            battery; a computer's processor is at home up to 80. None: at any temperature.
        min_examples: only with that many queries or more.
        max_seconds: how long one training may take; None: as long as it takes.
        allow_unknown: names of readings (``idle``, ``charging``, ``unmetered``,
            ``temperature_c``) whose condition counts as met where they are unknown.

    Raises:
        InvalidInputError: a value out of range, or a name that is no reading's.
    """

    idle: bool = True
    charging: bool = True
    unmetered: bool = True
    max_temperature_c: float | None = 45.0
    min_examples: int = 16
    max_seconds: float | None = 600.0
    allow_unknown: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_count(self.min_examples, "min_examples")
        limit = self.max_temperature_c
        if limit is not None and not math.isfinite(limit):
            raise InvalidInputError(
                f"max_temperature_c is {limit!r}, expected degrees Celsius, or None for no limit"
            )
        if self.max_seconds is not None and not 0 < self.max_seconds < math.inf:
            raise InvalidInputError(
                f"max_seconds is {self.max_seconds!r}, expected seconds above 0, or None"
            )
        if isinstance(self.allow_unknown, str) or not set(self.allow_unknown) <= set(_READINGS):
            raise InvalidInputError(
                f"allow_unknown is {self.allow_unknown!r}, expected a tuple of names out of "
                f"{', '.join(_READINGS)}"
            )

    @classmethod
    def always(cls) -> Policy:
        """No condition but one query; for machines that do nothing else."""
        return cls(
            idle=False,
            charging=False,
            unmetered=False,
            max_temperature_c=None,
            min_examples=1,
            max_seconds=None,
        )

    def refusal(self, readings: Readings | None, *, examples: int) -> str | None:
        """Why the device may not train now; None where it may.

        Args:
            readings: the device; None: everything is unknown. It is not asked where no condition
                needs it.
            examples: how many queries there are to train on.
        """
        if examples < self.min_examples:
            return f"{examples} queries to learn from, at least {self.min_examples} are needed"
        if not (self.idle or self.charging or self.unmetered or self.max_temperature_c is not None):
            return None
        return next(self._unmet(DeviceReading() if readings is None else readings.read()), None)

    def _unmet(self, reading: DeviceReading) -> Iterator[str]:
        conditions = (
            (self.idle, "idle", reading.idle, "in use"),
            (self.charging, "charging", reading.charging, "not charging"),
            (self.unmetered, "unmetered", reading.unmetered, "on a metered network"),
        )
        for required, name, value, otherwise in conditions:
            if required and value is None and name not in self.allow_unknown:
                yield _unknown(name)
            elif required and value is False:
                yield f"the device is {otherwise}"
        limit, measured = self.max_temperature_c, reading.temperature_c
        if limit is None:
            return
        if measured is None or not math.isfinite(measured):
            if "temperature_c" not in self.allow_unknown:
                yield _unknown("temperature_c")
        elif measured > limit:
            yield f"the device is at {measured:.1f} °C, at most {limit:g} are allowed"


def _unknown(name: str) -> str:
    return f"{name} is unknown on this device, and the policy's allow_unknown does not list it"


class Guard:
    """The policy during a training; called between its steps, it says why to stop, or None.

    The time runs from its making. Readings are taken once a second at the most, and once it has
    said stop, it keeps saying so.

    Args:
        policy: the conditions.
        readings: the device.
        examples: how many queries there are to train on.
        clock: seconds, never going back.
    """

    def __init__(
        self,
        policy: Policy,
        readings: Readings | None,
        *,
        examples: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._policy = policy
        self._readings = readings
        self._examples = examples
        self._clock = clock
        self._begun = clock()
        self._read = -math.inf
        self._reason: str | None = None

    def __call__(self) -> str | None:
        """Why the training must stop now; None where it may go on."""
        now = self._clock()
        if self._reason is None:
            self._reason = self._over_time_reason(now)
        if self._reason is None and now - self._read >= _READING_S:
            self._read = now
            self._reason = self._policy.refusal(self._readings, examples=self._examples)
        return self._reason

    def _over_time_reason(self, now: float) -> str | None:
        limit = self._policy.max_seconds
        if limit is None or now - self._begun <= limit:
            return None
        return f"the training takes longer than {limit:g} s"

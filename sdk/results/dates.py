"""Dates and times in metadata, as filters compare them.

A date is a text such as ``2024``, ``2024-05``, ``2024-05-31``, ``2024-05-31T10:00``,
``2024-05-31 10:00:00.5`` or ``2024-05-31T12:00:00+02:00`` (ISO 8601 and RFC 3339); without a time
zone it is in UTC. A year, a month or a day is a span, a time of day is an instant.
"""

from __future__ import annotations

import re
from calendar import monthrange
from datetime import date
from functools import lru_cache

__all__ = ["in_order", "span"]

_DATE = re.compile(
    r"(\d{4})(?:-(\d\d)(?:-(\d\d)(?:[Tt ](\d\d):(\d\d)(?::(\d\d)(?:\.(\d+))?)?"
    r"(?:[Zz]|([+-])(\d\d)(?::?(\d\d))?)?)?)?)?",
    re.ASCII,
)
_DAY = 86_400_000_000  # microseconds


@lru_cache(1 << 12)
def span(text: str) -> tuple[int, int] | None:
    """The first microsecond of the date in ``text`` and the first after it, counted from the year
    1; None where ``text`` is no date."""
    matched = _DATE.fullmatch(text)
    if matched is None:
        return None
    sign, fraction = matched[8], (matched[7] or "")[:6].ljust(6, "0")
    year, month, day, hour, minute, second, offset_hours, offset_minutes = (
        int(matched[group] or 0) for group in (1, 2, 3, 4, 5, 6, 9, 10)
    )
    if hour > 23 or max(minute, second, offset_minutes) > 59 or offset_hours > 23:
        return None
    try:
        start = date(year, month if matched[2] else 1, day if matched[3] else 1).toordinal() * _DAY
        last = date(year, month or 12, day or monthrange(year, month or 12)[1])
    except ValueError:
        return None
    if matched[4] is None:
        return start, (last.toordinal() + 1) * _DAY
    offset = (offset_hours * 60 + offset_minutes) * (-1 if sign == "-" else 1)
    minutes = hour * 60 + minute - offset
    start += (minutes * 60 + second) * 1_000_000 + int(fraction)
    return start, start + 1


def in_order(value: str, operator: str, bound: str) -> bool:
    """Whether two texts are in that order: as dates where both are, else by code point.

    A date that names more than a year is in no order with a text that is no date. ``$gte`` and
    ``$lt`` ask for the bound's beginning, ``$lte`` and ``$gt`` for its end: ``$lte`` a day takes in
    all of that day.
    """
    if len(value) > 4 or len(bound) > 4:
        own, other = span(value), span(bound)
        if own is not None and other is not None:
            edge = other[0] if operator in ("$gte", "$lt") else other[1]
            return (own[0] < edge) is (operator in ("$lt", "$lte"))
        if len(bound) > 4 and other is not None:
            return False
    below = value < bound or (operator in ("$lte", "$gt") and value == bound)
    return below is (operator in ("$lt", "$lte"))

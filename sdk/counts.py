"""Whole numbers that callers pass: how many hits, dimensions, threads."""

from __future__ import annotations

import operator

from pocketquery.sdk.errors import InvalidInputError

__all__ = ["check_count"]


def check_count(value: object, name: str, *, most: int | None = None) -> int:
    """``value`` as an int, where it is a whole number from 1 to ``most`` (numpy's too).

    Raises:
        InvalidInputError: it is not; calls it ``name``.
    """
    expected = "a whole number from 1" + ("" if most is None else f" to {most}")
    try:
        count = operator.index(value)  # type: ignore[arg-type]  # what it refuses is answered here
    except TypeError as error:
        raise InvalidInputError(f"{name} is {value!r}, expected {expected}") from error
    if count < 1 or (most is not None and count > most):
        raise InvalidInputError(f"{name} is {count}, expected {expected}")
    return count

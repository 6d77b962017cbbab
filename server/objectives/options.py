"""The checks that the objectives' configurations share."""

from __future__ import annotations

import math

from pocketquery.sdk.errors import InvalidInputError

__all__ = ["check_at_least", "check_choice", "check_share"]


def check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    """Raise :class:`InvalidInputError` unless ``value`` is one of ``choices``."""
    if value not in choices:
        raise InvalidInputError(f'{name} is "{value}"; expected one of {", ".join(choices)}')


def check_share(name: str, value: float) -> None:
    """Raise :class:`InvalidInputError` unless 0 < ``value`` < 1."""
    if not 0 < value < 1:
        raise InvalidInputError(f"{name} is {value}; expected between 0 and 1")


def check_at_least(name: str, value: float, least: float) -> None:
    """Raise :class:`InvalidInputError` unless ``value`` is a finite number from ``least`` on."""
    if not (math.isfinite(value) and value >= least):
        raise InvalidInputError(f"{name} is {value}; expected a number of at least {least}")

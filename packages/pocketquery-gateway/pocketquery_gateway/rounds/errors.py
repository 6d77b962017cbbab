"""Why a gateway's round does not take what came."""

from __future__ import annotations

from pocketquery.sdk.errors import InvalidInputError

__all__ = [
    "UNKNOWN",
    "BetweenStepsError",
    "QuotaError",
    "RoundOverError",
    "UnknownDeviceError",
]

UNKNOWN = "this key is not registered here; PUT /v1/device first"


class RoundOverError(InvalidInputError):
    """No round, or not this one, or not this stage of it, takes anything now."""


class BetweenStepsError(InvalidInputError):
    """A buffered round was answered, and the next is not here yet; it may take what came.

    Attributes:
        seconds: after which the next one is here at the latest, but for what the gate takes.
    """

    def __init__(self, message: str, seconds: float) -> None:
        super().__init__(message)
        self.seconds = seconds


class UnknownDeviceError(InvalidInputError):
    """The key is not registered here."""


class QuotaError(InvalidInputError):
    """The device has no upload left today."""

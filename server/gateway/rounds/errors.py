"""Why a gateway's round does not take what came."""

from __future__ import annotations

from pocketquery.sdk.errors import InvalidInputError

__all__ = ["UNKNOWN", "QuotaError", "RoundOverError", "UnknownDeviceError"]

UNKNOWN = "this key is not registered here; PUT /v1/device first"


class RoundOverError(InvalidInputError):
    """No round, or not this one, or not this stage of it, takes anything now."""


class UnknownDeviceError(InvalidInputError):
    """The key is not registered here."""


class QuotaError(InvalidInputError):
    """The device has no upload left today."""

"""Whether a key belongs to a genuine app on a genuine device: for a plug-in to say.

A gateway takes any key unless it is given an :class:`Attestation`:

    class Mine:
        def check(self, binding: bytes, evidence: Mapping[str, Any]) -> None:
            token = evidence.get("token")  # it came from the device: any JSON, or nothing
            if not isinstance(token, str) or not was_made_over(binding, token):
                raise AttestationError("the token was not made over this challenge and key")

and ``attestation = "my_module:make_checker"`` in its configuration names what makes one. There is
one for each of two platforms: :class:`PlayIntegrity` (play_integrity.py), which needs a function
that has Google's server decode a token, and :class:`AppAttest` (app_attest.py), which needs Apple's
root certificate:

    def make_checker() -> Attestation:
        return PlayIntegrity(decode=ask_google, package_name="org.example.app",
                             certificates=["6A:6A:..."])

A publisher of both has ``check`` look at ``evidence`` and ask the one that it is for.
"""

from __future__ import annotations

import hashlib
import importlib
from collections.abc import Mapping
from typing import Any, Protocol

from pocketquery.sdk.errors import InvalidInputError, PocketQueryError

__all__ = ["Attestation", "AttestationError", "binding", "load_attestation"]


class AttestationError(PocketQueryError):
    """The evidence does not show a genuine app with this key."""


class Attestation(Protocol):
    """What looks at a device's evidence when it registers; called in threads of its own, several at
    a time."""

    def check(self, binding: bytes, evidence: Mapping[str, Any]) -> None:
        """Return where ``evidence``, JSON values from the device, was made over ``binding`` (32
        bytes, see :func:`binding`) by a genuine app.

        Raises:
            AttestationError: it was not; its text goes to the device. Any other error says that
                this could not be found out: the device is told to come back.
        """


def binding(challenge: bytes, key: bytes) -> bytes:
    """What evidence is made over: SHA-256 of challenge and public key, 32 bytes. Evidence so holds
    for this key alone, and for this registration."""
    return hashlib.sha256(challenge + key).digest()


def load_attestation(name: str) -> Attestation:
    """What ``name``, "module:function", makes.

    Raises:
        InvalidInputError: there is none, or what it makes cannot check.
    """
    module, _, function = name.partition(":")
    try:
        made = getattr(importlib.import_module(module), function)()
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        raise InvalidInputError(
            f"attestation is {name!r}, expected module:function that makes a checker: {error}"
        ) from error
    if not callable(getattr(made, "check", None)):
        raise InvalidInputError(f"what {name!r} makes is {made!r:.80}, expected a method check()")
    checker: Attestation = made
    return checker

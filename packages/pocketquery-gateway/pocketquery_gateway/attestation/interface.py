"""What a plug-in that attests devices must be, and how a gateway finds one.

A gateway takes any key unless it is given an :class:`Attestation`:

    class Mine:
        def check(self, binding: bytes, evidence: Mapping[str, Any]) -> None:
            token = evidence.get("token")  # from the device: any JSON, or nothing
            if not isinstance(token, str) or not was_made_over(binding, token):
                raise AttestationError("the token was not made over this challenge and key")

Its configuration names a plug-in of the entry-point group ``pocketquery.attestation``
(``attestation = "app-attest"``) or a function (``attestation = "my_module:make_checker"``). Either
is called with the table ``attestation-options`` as keyword arguments. A publisher of several apps
has one ``check`` look at ``evidence`` and call the checker it is for.
"""

from __future__ import annotations

import hashlib
import importlib
from collections.abc import Callable, Mapping
from importlib.metadata import entry_points
from typing import Any, Protocol

from pocketquery.sdk.errors import InvalidInputError, MissingExtraError, PocketQueryError

__all__ = ["Attestation", "AttestationError", "binding", "import_function", "load_attestation"]

_GROUP = "pocketquery.attestation"
_PACKAGE = "pocketquery-attestation"
_OF_PACKAGE = ("app-attest", "play-integrity")  # what _PACKAGE brings


class AttestationError(PocketQueryError):
    """The evidence does not show a genuine app with this key."""


class Attestation(Protocol):
    """Checks a device's evidence when it registers; called in several threads at a time."""

    def check(self, binding: bytes, evidence: Mapping[str, Any]) -> None:
        """Return where ``evidence``, JSON values from the device, was made over ``binding`` (32
        bytes, see :func:`binding`) by a genuine app.

        Raises:
            AttestationError: it was not; the device gets the text. Any other error means that this
                could not be decided: the device is asked to come back.
        """


def binding(challenge: bytes, key: bytes) -> bytes:
    """What evidence is made over: SHA-256 of challenge and public key, 32 bytes. So evidence holds
    for this key and this registration alone."""
    return hashlib.sha256(challenge + key).digest()


def import_function(name: str) -> Callable[..., Any]:
    """The function that ``name``, "module:function", is.

    Raises:
        InvalidInputError: there is none.
    """
    try:
        module, _, function = name.partition(":")
        loaded: Callable[..., Any] = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        raise InvalidInputError(
            f"{name!r} cannot be loaded, expected module:function: {error}"
        ) from error
    return loaded


def load_attestation(name: str, options: Mapping[str, Any] | None = None) -> Attestation:
    """The checker ``name``: an installed plug-in, or what "module:function" returns.

    Args:
        name: as in the gateway's configuration.
        options: keyword arguments; hyphens in names stand for underscores.

    Raises:
        MissingExtraError: the plug-in's package is not installed.
        InvalidInputError: there is no such plug-in or function, or it refuses the options.
    """
    make = import_function(name) if ":" in name else _plugin(name)
    given = {key.replace("-", "_"): value for key, value in (options or {}).items()}
    try:
        checker: Attestation = make(**given)
    except PocketQueryError:
        raise
    except (AttributeError, ImportError, TypeError, ValueError) as error:
        raise InvalidInputError(
            f"attestation is {name!r}, which cannot be set up with the attestation-options "
            f"{sorted(options or {})}: {error}"
        ) from error
    if not callable(getattr(checker, "check", None)):
        raise InvalidInputError(f"{name!r} returns {checker!r:.80}, expected a method check()")
    return checker


def _plugin(name: str) -> Callable[..., Any]:
    points = {point.name: point for point in entry_points(group=_GROUP)}
    missing: ImportError | None = None
    if name in points:
        try:
            loaded: Callable[..., Any] = points[name].load()
            return loaded
        except ImportError as error:  # its package was removed, its metadata was not
            missing = error
    if name in _OF_PACKAGE:
        raise MissingExtraError(
            f'attestation is "{name}", whose package "{_PACKAGE}" is not installed; install it '
            f"with: pip install {_PACKAGE} (from a checkout: pip install ./packages/{_PACKAGE})"
        ) from missing
    if missing is not None:
        raise InvalidInputError(
            f"attestation is {name!r}, a plug-in that cannot be loaded: {missing}; reinstall it"
        ) from missing
    raise InvalidInputError(
        f"attestation is {name!r}, expected module:function or an installed plug-in: "
        f"{', '.join(sorted(points)) or 'none is installed'}"
    )

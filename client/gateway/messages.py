"""What a gateway offers a device, as JSON, and back.

    {"offer": {"round": 3, "release": {"version": "4", "sha256": "…", "bytes": 75210},
               "clip_norm": 1.25, "largest_weight": 256.0, "compress": true,
               "local": {…}, "lineage": "<base64>"},
     "retry_after": 0}

``offer`` is null where there is none for this device now; ``retry_after`` are seconds until asking
again is of use. The release itself is fetched by its version, once. A private round's offer has
``"secure": {"announcement": "<base64>"}`` besides, the body of the first stage's message
(client/private/messages.py).
"""

from __future__ import annotations

import base64
import json
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pocketquery.client.device import FIGURES, Offer
from pocketquery.client.local_config import LocalConfig
from pocketquery.sdk.bundle.adapter import LARGEST_RELEASE
from pocketquery.sdk.errors import CorruptArtifactError, InvalidInputError
from pocketquery.sdk.fields import Fields
from pocketquery.sdk.files import sha256_bytes

if TYPE_CHECKING:  # it takes cryptography, which devices of plain rounds may lack
    from pocketquery.client.private.messages import Announcement

__all__ = [
    "SHA256",
    "STAGE_HEADER",
    "OfferedRound",
    "UnusableOfferError",
    "figures_text",
    "offer_message",
    "read_figures",
    "read_offer_message",
]

STAGE_HEADER = "pocketquery-stage"
"""The header that says in which stage of a private round a message is."""

LARGEST_OFFER = 1 << 20
_LAST_ROUND = 10**18 - 1
_LARGEST_FIGURES = 200
_LARGEST_FIGURE = 1e6
_LONGEST_VERSION = 1024
SHA256 = re.compile("[0-9a-f]{64}")
_SOURCE = "the gateway's offer"


class UnusableOfferError(InvalidInputError):
    """The offer's settings are out of range, or not of this version; the device declines the round.

    Attributes:
        round: its number.
    """

    def __init__(self, round_: int, reason: str) -> None:
        super().__init__(reason)
        self.round = round_


@dataclass(frozen=True)
class OfferedRound:
    """An offer whose release is still to be fetched.

    Attributes:
        version, sha256, size: of the release.
        offer: everything else; its release is empty.
        secure: whether the round is a private one.
        announcement: of a private round, the body of the first stage's message; empty where the
            offer is not of this version, and the device declines.
    """

    version: str
    sha256: str
    size: int
    offer: Offer
    secure: bool = False
    announcement: bytes = b""

    def with_release(self, data: bytes) -> Offer:
        """The offer, whole.

        Raises:
            CorruptArtifactError: ``data`` is another release than the one that was offered.
        """
        if sha256_bytes(data) != self.sha256:
            raise CorruptArtifactError(
                f"{_SOURCE} names release {self.version} with SHA-256 {self.sha256}, the file that "
                f"came has {sha256_bytes(data)}; fetch it again"
            )
        return Offer(**{**_shallow(self.offer), "release": data})


def offer_message(
    offer: Offer, version: str, announced: Announcement | None = None
) -> dict[str, Any]:
    """``offer``, of the release ``version``, as JSON values; of a private round with what is
    ``announced``."""
    said = {} if announced is None else {"secure": {"announcement": _base64(announced.to_bytes())}}
    return {
        "round": offer.round,
        "release": {
            "version": version,
            "sha256": sha256_bytes(offer.release),
            "bytes": len(offer.release),
        },
        "clip_norm": offer.clip_norm,
        "largest_weight": offer.largest_weight,
        "compress": offer.compress,
        "local": offer.config.to_dict(),
        "lineage": _base64(offer.lineage),
        **said,
    }


def read_offer_message(data: bytes) -> tuple[OfferedRound | None, int]:
    """What is offered, and in how many seconds asking again is of use.

    Raises:
        CorruptArtifactError: not what a gateway writes.
        UnusableOfferError: settings out of range.
    """
    fields = Fields.of_json(data, _SOURCE, most_bytes=LARGEST_OFFER)
    wait = fields.integer("retry_after", 0, 86_400)
    if fields.is_null("offer"):
        return None, wait
    try:
        found = dict(fields.items())["offer"]
        release = found["release"]
        number = _whole(found["round"], _LAST_ROUND)
        offered = OfferedRound(
            version=_text(release["version"], _LONGEST_VERSION),
            sha256=_digest(release["sha256"]),
            size=_whole(release["bytes"], LARGEST_RELEASE),
            offer=Offer(
                round=number,
                release=b"",
                clip_norm=_number(found["clip_norm"]),
                largest_weight=_number(found["largest_weight"]),
                compress=found["compress"] is True,
                lineage=base64.b64decode(found["lineage"], validate=True),
            ),
            secure=found.get("secure") not in (None, False),
            announcement=_announcement(found.get("secure")),
        )
        try:
            config = LocalConfig.from_json(json.dumps(found["local"]))
        except InvalidInputError as error:
            raise UnusableOfferError(number, str(error)) from error
        return replace(offered, offer=replace(offered.offer, config=config)), wait
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
        if isinstance(error, InvalidInputError):
            raise
        raise CorruptArtifactError(f"{_SOURCE} is not of this version: {error!s:.200}") from error


def figures_text(figures: dict[str, float]) -> str:
    """How a training went, as a header's value."""
    return json.dumps({name: figures[name] for name in FIGURES if name in figures})


def read_figures(text: str | None) -> dict[str, float]:
    """The figures in a header's value, those of :data:`FIGURES` that are numbers; nothing raises,
    for a server does without them."""
    if not text or len(text) > _LARGEST_FIGURES:
        return {}
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    if not isinstance(found, dict):
        return {}
    numbers = {n: found[n] for n in FIGURES if type(found.get(n)) in (int, float)}
    return {name: float(value) for name, value in numbers.items() if abs(value) < _LARGEST_FIGURE}


def _announcement(secure: object) -> bytes:
    found = secure.get("announcement") if isinstance(secure, dict) else None
    return base64.b64decode(found, validate=True) if isinstance(found, str) else b""


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _shallow(offer: Offer) -> dict[str, Any]:
    return {name: getattr(offer, name) for name in Offer.__dataclass_fields__}


def _whole(found: object, most: int) -> int:
    if type(found) is not int or not 0 <= found <= most:
        raise ValueError(f"found {found!r:.80}, expected a whole number up to {most}")
    return found


def _text(found: object, longest: int) -> str:
    if not isinstance(found, str) or not 0 < len(found) <= longest:
        raise ValueError(f"found {found!r:.80}, expected a text of at most {longest} letters")
    return found


def _digest(found: object) -> str:
    if not isinstance(found, str) or not SHA256.fullmatch(found):
        raise ValueError(f"found {found!r:.80}, expected 64 hexadecimal digits")
    return found


def _number(found: object) -> float:
    if type(found) not in (int, float):
        raise TypeError(f"found {found!r:.80}, expected a number")
    return float(found)  # type: ignore[arg-type]

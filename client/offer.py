"""What the server offers a device in a round, and its one encoding.

    {"format": "pocketquery-offer", "version": "1", "round": 3, "release": "<SHA-256>",
     "clip_norm": 1.25, "largest_weight": 256.0, "compress": true, "local": {...},
     "lineage": "<base64>", "announcement": "<base64>"}

UTF-8 JSON, and equal offers give equal bytes. Flower's messages, gateways' answers and cohort
offers all carry it; JavaScript reads it (sdk/js/src/gateway/offer.ts). The release is named by its
hash and its file travels beside, so that a device which has it already need not fetch it.
"""

from __future__ import annotations

import base64
import dataclasses
import json
from dataclasses import dataclass, field
from typing import Any

from pocketquery.client.local_config import LocalConfig
from pocketquery.client.update import LAST_ROUND
from pocketquery.client.wire_format import WireFormat
from pocketquery.sdk.errors import CorruptArtifactError, InvalidInputError
from pocketquery.sdk.fields import Fields
from pocketquery.sdk.files import sha256_bytes

__all__ = ["LARGEST_OFFER", "Offer", "UnusableOfferError"]

LARGEST_OFFER = 1 << 20

_SOURCE = "the offer"
_FORMAT = WireFormat("pocketquery-offer", _SOURCE, "server and device")


class UnusableOfferError(InvalidInputError):
    """The offer's settings are out of range; the device declines the round.

    Attributes:
        round: its number.
    """

    def __init__(self, round_: int, reason: str) -> None:
        super().__init__(reason)
        self.round = round_


@dataclass(frozen=True)
class Offer:
    """What the server asks of a device.

    Attributes:
        round: its number, from 0.
        release: the file of the release to start from; empty where it is still to be fetched.
        config: how to train.
        clip_norm: largest L2 norm of the change.
        largest_weight: largest weight of the update.
        compress: 8 bits with error feedback, or float32.
        lineage: the registry's statements of what is in force; empty where it signs none.
        announcement: of a private round at a gateway, the body of the first stage's message; empty
            in a plain round.
        release_sha256: of the release, hexadecimal.
    """

    round: int
    release: bytes = b""
    config: LocalConfig = field(default_factory=LocalConfig)
    clip_norm: float = 2.0
    largest_weight: float = 256.0
    compress: bool = True
    lineage: bytes = b""
    announcement: bytes = b""
    release_sha256: str = ""

    def __post_init__(self) -> None:
        if self.release:
            object.__setattr__(self, "release_sha256", sha256_bytes(self.release))

    @property
    def is_private(self) -> bool:
        """Whether a gateway offers a private round."""
        return bool(self.announcement)

    @property
    def digest(self) -> str:
        """Hexadecimal SHA-256 of all that it says of the training."""
        values = {
            "round": self.round,
            "release": self.release_sha256,
            "config": self.config.to_dict(),
            "clip_norm": self.clip_norm,
            "largest_weight": self.largest_weight,
            "compress": self.compress,
        }
        return sha256_bytes(json.dumps(values, sort_keys=True).encode())

    def with_release(self, data: bytes) -> Offer:
        """This offer with the file of its release.

        Raises:
            CorruptArtifactError: ``data`` is another file than the one that was offered.
        """
        if (digest := sha256_bytes(data)) != self.release_sha256:
            raise CorruptArtifactError(
                f"{_SOURCE} names the release with SHA-256 {self.release_sha256}, the file that "
                f"came has {digest}; fetch it again"
            )
        return dataclasses.replace(self, release=data)

    def to_bytes(self) -> bytes:
        """The encoding; the release is named in it and travels beside it."""
        return json.dumps(self.to_dict()).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> Offer:
        """The offer in ``data``, bytes from anywhere; its release is still to be fetched.

        Raises:
            CorruptArtifactError: not what :meth:`to_bytes` writes.
            UnusableOfferError: settings out of range.
        """
        return cls.of_fields(Fields.of_json(data, _SOURCE, most_bytes=LARGEST_OFFER))

    def to_dict(self) -> dict[str, Any]:
        """The encoding as JSON values, for a message that has more in it."""
        return {
            **_FORMAT.labels,
            "round": self.round,
            "release": self.release_sha256,
            "clip_norm": self.clip_norm,
            "largest_weight": self.largest_weight,
            "compress": self.compress,
            "local": self.config.to_dict(),
            "lineage": base64.b64encode(self.lineage).decode(),
            "announcement": base64.b64encode(self.announcement).decode(),
        }

    @classmethod
    def of_fields(cls, fields: Fields) -> Offer:
        """The offer whose :meth:`to_dict` is in ``fields``. Raises as :meth:`from_bytes`."""
        _FORMAT.check(dict(fields.items()))
        offer = cls(
            round=fields.integer("round", 0, LAST_ROUND),
            clip_norm=fields.number("clip_norm"),
            largest_weight=fields.number("largest_weight"),
            compress=fields.flag("compress"),
            lineage=fields.base64("lineage"),
            announcement=fields.base64("announcement"),
            release_sha256=fields.hexadecimal("release", 64),
        )
        local = fields.mapping("local")
        try:
            return dataclasses.replace(offer, config=LocalConfig.from_dict(local))
        except InvalidInputError as error:
            raise UnusableOfferError(offer.round, str(error)) from error
        except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
            raise CorruptArtifactError(
                f"{_SOURCE}: the settings are not of this version ({error!s:.200}); upgrade the "
                "older of server and device"
            ) from error

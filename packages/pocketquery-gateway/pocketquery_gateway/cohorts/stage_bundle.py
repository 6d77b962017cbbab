"""The messages of one stage of a private round for all devices of a gateway, or their replies, as
one.

A gateway relays them and reads none. Its devices have seats, numbered as they said that they are
ready; the server knows a device by the gateway's node and its seat
(members.py).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pocketquery.client.private.messages import Stage
from pocketquery.client.wire_format import WireFormat
from pocketquery.sdk.errors import CorruptArtifactError
from pocketquery.sdk.files import sha256_bytes

__all__ = ["MOST_SEATS", "StageBundle"]

MOST_SEATS = 1 << 32

_FORMAT = WireFormat("pocketquery-stage-bundle", "stage bundle")
_LARGEST_HEADER = 64 << 20
_MOST_SECONDS = 1e9


@dataclass(frozen=True)
class StageBundle:
    """One stage's bodies.

    Attributes:
        round: its number.
        stage: down, the one that is asked; up, the one that is answered.
        bodies: see client/private/messages.py and replies.py, by seat.
        seconds: down, for which the gateway waits before it answers with what is there.
        declined: up in the first stage, how many devices said that they decline.
        gone: up in a later one, the seats of devices that will not reply any more.
    """

    round: int
    stage: Stage
    bodies: Mapping[int, bytes] = field(default_factory=dict)
    seconds: float = 0.0
    declined: int = 0
    gone: tuple[int, ...] = ()

    @property
    def digest(self) -> str:
        """Hexadecimal SHA-256 of :meth:`to_bytes`: what an answer is asked for by."""
        return sha256_bytes(self.to_bytes())

    def to_bytes(self) -> bytes:
        """One safetensors file; equal bundles give equal bytes."""
        seats = sorted(self.bodies)
        body = {
            "round": self.round,
            "stage": int(self.stage),
            "seconds": float(self.seconds),
            "declined": self.declined,
            "gone": list(self.gone),
            "seats": [[seat, len(self.bodies[seat])] for seat in seats],
        }
        bodies = np.frombuffer(b"".join(self.bodies[seat] for seat in seats), np.uint8)
        return _FORMAT.serialize({"bodies": bodies}, json.dumps(body))

    @classmethod
    def from_bytes(cls, data: bytes) -> StageBundle:
        """The bundle in ``data``, bytes from anywhere.

        Raises:
            CorruptArtifactError: not what :meth:`to_bytes` writes.
        """
        tensors, fields = _FORMAT.parse(data, most_bytes=_LARGEST_HEADER)
        try:
            seconds, gone = dict(fields.items())["seconds"], fields.sequence("gone")
            if type(seconds) not in (int, float) or not 0 <= seconds <= _MOST_SECONDS:
                raise ValueError(f"found {seconds!r:.40} seconds")
            if not all(_is_count(seat, MOST_SEATS - 1) for seat in gone):
                raise ValueError("found a seat that is none")
            return cls(
                round=fields.integer("round", 0, 10**18 - 1),
                stage=Stage(fields.integer("stage", 1, 5)),
                bodies=_bodies(tensors, fields.sequence("seats")),
                seconds=float(seconds),
                declined=fields.integer("declined", 0, MOST_SEATS),
                gone=tuple(gone),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise CorruptArtifactError(f"{_FORMAT.source}: {error!s:.200}") from error


def _bodies(tensors: Mapping[str, NDArray[Any]], seats: Sequence[Any]) -> dict[int, bytes]:
    """The bodies that stand one after another in the one tensor, by seat.

    Raises:
        KeyError, TypeError, ValueError: they do not.
    """
    joined = tensors["bodies"]
    if joined.dtype != np.uint8 or joined.ndim != 1 or len(tensors) != 1:
        raise ValueError("found other tensors than one of bytes")
    raw, bodies, at, before = joined.tobytes(), {}, 0, -1
    for seat, length in seats:
        if not (_is_count(seat, MOST_SEATS - 1) and _is_count(length, len(raw) - at)):
            raise ValueError(f"found seat {seat!r:.40} with {length!r:.40} bytes")
        if seat <= before:
            raise ValueError(f"seat {seat} comes after seat {before}")
        bodies[seat], at, before = raw[at : at + length], at + length, seat
    if at != len(raw):
        raise ValueError(f"found {len(raw)} bytes, expected {at}")
    return bodies


def _is_count(value: object, most: int) -> bool:
    return type(value) is int and 0 <= value <= most

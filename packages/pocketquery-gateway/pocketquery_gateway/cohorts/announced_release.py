"""The release in force, as a server announces it to its gateways."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pocketquery.client.wire_format import WireFormat
from pocketquery.sdk.bundle.safetensors import parse_whole, serialize
from pocketquery.sdk.errors import CorruptArtifactError

__all__ = ["AnnouncedRelease"]

_FORMAT = WireFormat("pocketquery-announced-release", "the announced release")
_PARTS = ("release", "lineage", "left_release")


@dataclass(frozen=True)
class AnnouncedRelease:
    """What a gateway is to serve.

    Attributes:
        release: the file of the release in force.
        lineage: its registry's statements; empty where nobody signs.
        left_release: the file of the release that a roll-out leaves to the other devices; empty
            where none runs.
    """

    release: bytes
    lineage: bytes = b""
    left_release: bytes = b""

    def to_bytes(self) -> bytes:
        """One safetensors file."""
        tensors = {name: np.frombuffer(getattr(self, name), np.uint8) for name in _PARTS}
        return serialize(tensors, _FORMAT.labels)

    @classmethod
    def from_bytes(cls, data: bytes) -> AnnouncedRelease:
        """What :meth:`to_bytes` wrote.

        Raises:
            CorruptArtifactError: it is something else.
        """
        tensors, metadata = parse_whole(data, _FORMAT.source)
        _FORMAT.check(metadata)
        if tensors.keys() != set(_PARTS):
            raise CorruptArtifactError(
                f"{_FORMAT.source}: found {sorted(tensors)}, expected {sorted(_PARTS)}"
            )
        return cls(*(tensors[name].tobytes() for name in _PARTS))

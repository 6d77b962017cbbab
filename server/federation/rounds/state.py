"""What the server knows between two rounds; immutable, and bytes at any moment."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pocketquery.sdk.arrays import FloatTensors
from pocketquery.sdk.bundle.bundle import Bundle
from pocketquery.sdk.bundle.manifest import ENCODER_FILE
from pocketquery.sdk.bundle.safetensors import parse, parse_metadata, serialize
from pocketquery.sdk.errors import CorruptArtifactError, InvalidInputError, UnsupportedVersionError
from pocketquery.server.federation.rounds.nonces import NonceSet

__all__ = ["FederationState"]


_FORMAT = "pocketquery-federation-state"
_VERSION = "1"
_SOURCE = "federation state"
_TEXTS = ("version", "space_id", "encoder_sha256")


@dataclass(frozen=True)
class FederationState:
    """The state of a federation.

    Attributes:
        round: the number of the next round, from 0.
        version: the release in force, which devices start from.
        adapter: its tensors, float32 by name. A release rounds them to float16; the server keeps
            what the rounding cuts off, so that small steps add up.
        space_id: the vector space all of it lives in.
        encoder_sha256: hexadecimal SHA-256 of the encoder.onnx the adapter belongs to.
        optimizer: the server optimizer's moments, float32 by name; empty before its first step.
        seen: for each remembered round, the nonces it accepted.
        bases: for each remembered round, where they are buffered, the release it offered; an update
            that began from one of these may still count.
    """

    round: int
    version: str
    adapter: FloatTensors
    space_id: str
    encoder_sha256: str
    optimizer: FloatTensors = field(default_factory=dict)
    seen: Mapping[int, NonceSet] = field(default_factory=dict)
    bases: Mapping[int, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse what no round could start from.

        Raises:
            InvalidInputError: no tensors, or one that is not finite float32.
        """
        if not self.adapter:
            raise InvalidInputError("the adapter holds no tensor; export one with a rank above 0")
        for name, value in {**self.adapter, **self.optimizer}.items():
            if value.dtype != np.float32 or not np.isfinite(value).all():
                raise InvalidInputError(
                    f"tensor {name!r} is {value.dtype} or holds NaN or infinity, expected finite "
                    "float32 values"
                )

    @classmethod
    def of_bundle(cls, bundle: Bundle) -> FederationState:
        """The state before the first round over the devices that have ``bundle``.

        Raises:
            CorruptArtifactError: a file of the bundle is damaged.
            InvalidInputError: the bundle has no adapter to train.
        """
        manifest, tensors = bundle.manifest, bundle.adapter(required=True)
        return cls(
            round=0,
            version=manifest.encoder_version,
            adapter={name: value.astype(np.float32) for name, value in tensors.items()},
            space_id=manifest.space.id,
            encoder_sha256=manifest.files[ENCODER_FILE].sha256,
        )

    def released(self, version: str) -> FederationState:
        """This state under the name that its release was given."""
        return dataclasses.replace(self, version=version)

    def rejected(self, candidate: FederationState) -> FederationState:
        """What is left of a round whose ``candidate`` the gate refused: its number and nonces.

        Adapter, version and moments stay those of this state, in which the round began.
        """
        return dataclasses.replace(
            self, round=candidate.round, seen=candidate.seen, bases=candidate.bases
        )

    def without_moments(self) -> FederationState:
        """This state for another server optimizer to go on from."""
        return dataclasses.replace(self, optimizer={})

    def to_bytes(self) -> bytes:
        """One safetensors file; equal states give equal bytes."""
        tensors: dict[str, NDArray[Any]] = {}
        tensors |= {f"adapter:{name}": value for name, value in self.adapter.items()}
        tensors |= {f"optimizer:{name}": value for name, value in self.optimizer.items()}
        tensors |= {f"seen:{number}": nonces.to_array() for number, nonces in self.seen.items()}
        texts = {name: getattr(self, name) for name in _TEXTS}
        metadata = {"format": _FORMAT, "format_version": _VERSION, "round": str(self.round)}
        if self.bases:
            named = {str(number): version for number, version in sorted(self.bases.items())}
            metadata["bases"] = json.dumps(named)
        return serialize(tensors, metadata | texts)

    @classmethod
    def from_bytes(cls, data: bytes) -> FederationState:
        """The state that :meth:`to_bytes` wrote.

        Raises:
            CorruptArtifactError: not such a file.
            UnsupportedVersionError: written by a newer release.
        """
        metadata = parse_metadata(data, _SOURCE)
        _check_format(metadata)
        parts: dict[str, dict[str, NDArray[Any]]] = {"adapter": {}, "optimizer": {}, "seen": {}}
        for name, value in parse(data, _SOURCE).items():
            part, _, rest = name.partition(":")
            if part not in parts:
                raise CorruptArtifactError(f"{_SOURCE}: found the tensor {name!r}, expected none")
            parts[part][rest] = value
        try:
            return cls(
                round=int(metadata["round"]),
                adapter=parts["adapter"],
                optimizer=parts["optimizer"],
                bases={int(n): str(v) for n, v in json.loads(metadata.get("bases", "{}")).items()},
                seen={int(n): NonceSet.of_array(value) for n, value in parts["seen"].items()},
                **{name: metadata[name] for name in _TEXTS},
            )
        except (AttributeError, KeyError, ValueError) as error:
            raise CorruptArtifactError(f"{_SOURCE}: not a complete state: {error}") from error


def _check_format(metadata: Mapping[str, str]) -> None:
    if metadata.get("format") != _FORMAT:
        raise CorruptArtifactError(
            f"{_SOURCE}: found the format {metadata.get('format')!r}, expected {_FORMAT!r}"
        )
    if metadata.get("format_version") != _VERSION:
        raise UnsupportedVersionError(
            f"{_SOURCE}: found version {metadata.get('format_version')!r}, this release reads "
            f"{_VERSION}; upgrade pocketquery"
        )

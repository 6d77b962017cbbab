"""What a device keeps between rounds: a secret of its own, and what its last round left.

The secret makes a round's nonce and seed: who asks the same device twice in one round, because a
reply was lost or a server was killed, gets the same update under the same nonce, which counts once.
The nonce tells nobody which device it is, and two rounds' nonces cannot be linked without the
secret, which never leaves the device.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pocketquery.sdk.bundle.safetensors import parse, parse_metadata, serialize
from pocketquery.sdk.errors import CorruptArtifactError
from pocketquery.sdk.files import write_atomic

__all__ = ["Keepsake", "RoundMemory"]

Tensors = Mapping[str, NDArray[np.float32]]

_FORMAT = "pocketquery-round-memory"
_VERSION = "1"
_SECRET_BYTES = 32


@dataclass(frozen=True)
class Keepsake:
    """What a round leaves on the device.

    Attributes:
        residual: what rounding cut off the update, float32 by name; it joins the next one.
        adapter: what the training ended with, where the next begins from it; else empty.
    """

    residual: Tensors = field(default_factory=dict)
    adapter: Tensors = field(default_factory=dict)

    def fitting(self, tensors: Mapping[str, NDArray[np.generic]]) -> Keepsake:
        """This, without what is of other tensors: those of an encoder since replaced."""
        shapes = {name: np.shape(value) for name, value in tensors.items()}

        def fits(kept: Tensors) -> bool:
            return {name: value.shape for name, value in kept.items()} == shapes

        return Keepsake(
            self.residual if fits(self.residual) else {}, self.adapter if fits(self.adapter) else {}
        )


class RoundMemory:
    """The memory of one device, in one small file; :meth:`erase` forgets all of it.

    Args:
        path: the file; None keeps everything in this process alone.
        secret: 32 bytes; by default drawn from the system. A simulation gives its own, so that a
            seed decides everything.

    A damaged file is begun anew: what is lost is one rounding error.
    """

    def __init__(self, path: Path | str | None = None, *, secret: bytes | None = None) -> None:
        self._path = None if path is None else Path(path)
        self._given_secret = secret
        self._forget()
        if self._path is not None and self._path.is_file():
            try:
                self._read(self._path.read_bytes())
            except (CorruptArtifactError, ValueError, KeyError):
                self._forget()

    def nonce(self, occasion: str) -> str:
        """32 hexadecimal digits, the same for the same occasion, unlike any other device's."""
        return self._derive("nonce", occasion).hex()[:32]

    def seed(self, occasion: str) -> int:
        """A seed of 63 bits, the same for the same occasion."""
        return int.from_bytes(self._derive("seed", occasion)[:8], "big") >> 1

    def recall(self, occasion: str) -> Keepsake:
        """What the round before ``occasion`` left, also after ``occasion`` itself left its own."""
        return self._before if occasion == self._occasion else self._after

    def keep(self, occasion: str, left: Keepsake) -> None:
        """Keep what ``occasion`` left.

        Raises:
            OSError: the disk is full; what was kept before is kept still.
        """
        before = self.recall(occasion)
        self._write(occasion, before, left)
        self._occasion, self._before, self._after = occasion, before, left

    def erase(self) -> None:
        """Forget everything, the secret too."""
        self._forget()
        if self._path is not None:
            self._path.unlink(missing_ok=True)

    def _forget(self) -> None:
        self._secret = self._given_secret or os.urandom(_SECRET_BYTES)
        self._occasion, self._before, self._after = "", Keepsake(), Keepsake()

    def _derive(self, purpose: str, occasion: str) -> bytes:
        if self._path is not None and not self._path.exists():
            # A nonce binds only if the secret outlives this process.
            self._write(self._occasion, self._before, self._after)
        return hmac.digest(self._secret, f"{purpose}\n{occasion}".encode(), hashlib.sha256)

    def _read(self, data: bytes) -> None:
        source = str(self._path)
        found = parse_metadata(data, source)
        if (found["format"], found["format_version"]) != (_FORMAT, _VERSION):
            raise CorruptArtifactError(f"{source}: found {found}, expected {_FORMAT} {_VERSION}")
        parts: dict[str, dict[str, NDArray[np.float32]]] = {name: {} for name in _parts()}
        for name, value in parse(data, source).items():
            part, _, rest = name.partition(":")
            parts[part][rest] = value
        self._secret = self._given_secret or bytes.fromhex(found["secret"])
        self._occasion = found["occasion"]
        self._before = Keepsake(parts["before.residual"], parts["before.adapter"])
        self._after = Keepsake(parts["after.residual"], parts["after.adapter"])

    def _write(self, occasion: str, before: Keepsake, after: Keepsake) -> None:
        if self._path is None:
            return
        metadata = {"format": _FORMAT, "format_version": _VERSION, "occasion": occasion}
        metadata["secret"] = self._secret.hex()
        kept = dict(zip(_parts(), _tensors(before, after), strict=True))
        tensors = {
            f"{part}:{name}": v for part, values in kept.items() for name, v in values.items()
        }
        self._path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(self._path, serialize(tensors, metadata))
        self._path.chmod(0o600)


def _parts() -> list[str]:
    return [f"{when}.{what}" for when in ("before", "after") for what in ("residual", "adapter")]


def _tensors(before: Keepsake, after: Keepsake) -> list[Tensors]:
    return [before.residual, before.adapter, after.residual, after.adapter]

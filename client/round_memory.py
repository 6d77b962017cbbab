"""What a device keeps between rounds: its secret, and its state after the last round.

The secret makes a round's nonce and seed. A server that asks the same device twice in one round,
because a reply was lost or it was killed, gets the same update under the same nonce. That counts
once. The nonce tells nobody which device it is, and two rounds' nonces cannot be linked without the
secret, which never leaves the device.

What a round left was made of the user's queries. So it carries the epoch of the store that held
them, and is forgotten where the store has another since: one that was erased, or is a new one.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pocketquery.sdk.arrays import FloatTensors
from pocketquery.sdk.bundle.safetensors import parse, parse_metadata, serialize
from pocketquery.sdk.errors import CorruptArtifactError
from pocketquery.sdk.files import make_folder, remove_file, sha256_bytes, write_atomic

__all__ = ["ClientState", "RoundMemory"]


_FORMAT = "pocketquery-round-memory"
_VERSION = "1"
_SECRET_BYTES = 32
_SECRET = re.compile(f"[0-9a-f]{{{2 * _SECRET_BYTES}}}")
_MODE = 0o600
_LARGEST = 64 << 20  # bytes; a file is some hundred thousand


@dataclass(frozen=True)
class ClientState:
    """What a round leaves on the device.

    Attributes:
        residual: what rounding cut off the update, float32 by name; it joins the next one.
        adapter: what the training ended with, where the next begins from it; else empty.
    """

    residual: FloatTensors = field(default_factory=dict)
    adapter: FloatTensors = field(default_factory=dict)

    def fitting(self, tensors: Mapping[str, NDArray[np.generic]]) -> ClientState:
        """This, without what is of other tensors: those of an encoder since replaced."""
        shapes = {name: np.shape(value) for name, value in tensors.items()}

        def fits(values: FloatTensors) -> bool:
            return {name: value.shape for name, value in values.items()} == shapes

        return ClientState(
            self.residual if fits(self.residual) else {}, self.adapter if fits(self.adapter) else {}
        )


class RoundMemory:
    """The memory of one device, in one small file; :meth:`erase` forgets all of it.

    Args:
        path: the file; None keeps everything in this process alone.
        secret: 32 bytes; by default drawn from the system. A simulation gives its own, so that a
            seed decides everything.

    A damaged file is begun anew, and the damaged one removed: what is lost is one rounding error.
    """

    def __init__(self, path: Path | str | None = None, *, secret: bytes | None = None) -> None:
        self._path = None if path is None else Path(path)
        self._given_secret = secret
        self._epoch: str | None = None
        self._forget()
        if self._path is not None and self._path.is_file():
            try:
                self._path.chmod(_MODE)  # earlier releases made it readable for others
                self._read()
            except CorruptArtifactError:
                self.erase()

    def attach(self, epoch: str) -> None:
        """From now on, what is kept is of a store of this ``epoch``; what is of another is
        forgotten, from the disk too.

        Raises:
            OSError: it cannot be removed.
        """
        if epoch != self._epoch:
            self.erase()
            self._epoch = epoch

    def nonce(self, round_key: str) -> str:
        """32 hexadecimal digits, the same for the same round_key, unlike any other device's."""
        return self._derive("nonce", round_key).hex()[:32]

    def seed(self, round_key: str) -> int:
        """A seed of 63 bits, the same for the same round_key."""
        return int.from_bytes(self._derive("seed", round_key)[:8], "big") >> 1

    def recall(self, round_key: str) -> ClientState:
        """What the round before this one left, also after this one itself left its own."""
        return self._before if round_key == self._round_key else self._after

    def keep(self, round_key: str, state: ClientState) -> None:
        """Keep what ``round_key`` left.

        Raises:
            OSError: the disk is full; what was kept before is kept still.
        """
        before = self.recall(round_key)
        self._write(round_key, before, state)
        self._round_key, self._before, self._after = round_key, before, state

    def erase(self) -> None:
        """Forget everything, the secret too."""
        self._forget()
        if self._path is not None:
            remove_file(self._path)

    def _forget(self) -> None:
        self._epoch = None
        self._secret = self._given_secret or os.urandom(_SECRET_BYTES)
        self._round_key, self._before, self._after = "", ClientState(), ClientState()

    def _derive(self, purpose: str, round_key: str) -> bytes:
        if self._path is not None and not self._path.exists():
            # A nonce binds only if the secret outlives this process.
            self._write(self._round_key, self._before, self._after)
        return hmac.digest(self._secret, f"{purpose}\n{round_key}".encode(), hashlib.sha256)

    def _read(self) -> None:
        """What the file holds.

        Raises:
            CorruptArtifactError: it is not what :meth:`_write` writes.
        """
        assert self._path is not None
        source = str(self._path)
        if self._path.stat().st_size > _LARGEST:
            raise CorruptArtifactError(f"{source} is larger than the {_LARGEST} bytes expected")
        data = self._path.read_bytes()
        metadata = parse_metadata(data, source)
        tensors = parse(data, source)
        if metadata.keys() != _fields("", "", "", tensors).keys():
            raise CorruptArtifactError(
                f"{source}: found the fields {sorted(metadata)}, expected those of {_FORMAT} "
                f"{_VERSION}"
            )
        try:
            expected = _fields(metadata["occasion"], metadata["epoch"], metadata["secret"], tensors)
        except UnicodeEncodeError:
            expected = {}
        if metadata != expected or not _SECRET.fullmatch(metadata["secret"]):
            raise CorruptArtifactError(f"{source} was changed or is of another version")
        parts: dict[str, dict[str, NDArray[np.float32]]] = {name: {} for name in _parts()}
        for name, value in tensors.items():
            part, _, rest = name.partition(":")
            if part not in parts or value.dtype != np.float32 or not np.isfinite(value).all():
                raise CorruptArtifactError(
                    f"{source}: {name!r} is {value.dtype}, expected finite float32 numbers of one "
                    f"of {', '.join(parts)}"
                )
            parts[part][rest] = value
        self._secret = self._given_secret or bytes.fromhex(metadata["secret"])
        self._epoch = metadata["epoch"]
        self._round_key = metadata["occasion"]
        self._before = ClientState(parts["before.residual"], parts["before.adapter"])
        self._after = ClientState(parts["after.residual"], parts["after.adapter"])

    def _write(self, round_key: str, before: ClientState, after: ClientState) -> None:
        if self._path is None:
            return
        states = [before.residual, before.adapter, after.residual, after.adapter]
        parts = dict(zip(_parts(), states, strict=True))
        tensors = {
            f"{part}:{name}": v for part, values in parts.items() for name, v in values.items()
        }
        metadata = _fields(round_key, self._epoch or "", self._secret.hex(), tensors)
        make_folder(self._path.parent)
        write_atomic(self._path, serialize(tensors, metadata), mode=_MODE)


def _fields(round_key: str, epoch: str, secret: str, tensors: FloatTensors) -> dict[str, str]:
    """The metadata of a file, with a digest of all that is in it."""
    fields = {"format": _FORMAT, "format_version": _VERSION}
    fields |= {"occasion": round_key, "epoch": epoch, "secret": secret}
    return fields | {"sha256": sha256_bytes(serialize(tensors, fields))}


def _parts() -> list[str]:
    return [f"{when}.{what}" for when in ("before", "after") for what in ("residual", "adapter")]

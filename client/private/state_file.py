"""A device's progress in a private round: one small file, written before a reply is sent.

    READY     trained: the change waits for an invitation
    SHARED    the round secret is drawn, boxes are dealt
    MASKED    the masked change is made; change and secret are erased
    CONFIRMED one set of survivors was confirmed
    REVEALED  shares were revealed; nothing but that reply is left

The change and what masks it were made of the user's queries. So the state carries the epoch of the
query store, as :class:`pocketquery.client.round_memory.RoundMemory` does, lies beside it, and goes
with what is erased there.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pocketquery.client.private.binding import Binding
from pocketquery.client.private.keys import FEDERATION_BYTES, KEY_BYTES
from pocketquery.client.private.messages import Stage
from pocketquery.client.private.rules import Trained
from pocketquery.client.private.sharing import SHARE_BYTES
from pocketquery.client.private.stages import Held
from pocketquery.sdk.bundle.safetensors import parse, parse_metadata, serialize
from pocketquery.sdk.errors import CorruptArtifactError, PocketQueryError
from pocketquery.sdk.files import (
    make_folder,
    remove_file,
    sha256_bytes,
    write_atomic,
)

__all__ = ["SecureProgress", "SecureState", "StateFile"]

_FORMAT = "pocketquery-secure-state"
_VERSION = "1"
_MODE = 0o600
_LARGEST = 64 << 20  # bytes; a file is some hundred thousand

FlatChange = NDArray[np.float32]


class SecureProgress(IntEnum):
    """How far a device came in a round; the number of the stage that it answered."""

    READY = Stage.OFFER
    SHARED = Stage.INVITE
    MASKED = Stage.COLLECT
    CONFIRMED = Stage.CONFIRM
    REVEALED = Stage.UNMASK


@dataclass(frozen=True)
class SecureState:
    """The state of one device in one round.

    Attributes:
        progress: how far it came.
        epoch: of the query store that was trained on.
        trained: what it was trained on.
        kept_until: Unix seconds, after which the round is given up.
        asked: by stage, hexadecimal SHA-256 of the message that was answered.
        replies: by stage, what was answered.
        change: float32 (d,), READY and SHARED alone; else empty.
        secret: the round secret, 32 bytes, SHARED alone; else empty.
        binding: from SHARED to REVEALED.
        position: of this device in the group.
        keys: device keys of its neighbours, in ascending order of position.
        held: the neighbours that it shares masks with, MASKED and CONFIRMED alone.
        committed, survivors: positions, CONFIRMED alone.
    """

    progress: SecureProgress
    epoch: str
    trained: Trained
    kept_until: float
    asked: Mapping[int, str]
    replies: Mapping[int, bytes]
    change: FlatChange = field(default_factory=lambda: np.zeros(0, np.float32))
    secret: bytes = b""
    binding: Binding | None = None
    position: int = 0
    keys: tuple[bytes, ...] = ()
    held: tuple[Held, ...] = ()
    committed: tuple[int, ...] = ()
    survivors: tuple[int, ...] = ()


class StateFile:
    """The state of one device; None where it is in no round.

    Args:
        path: the file; None keeps the state in this process alone.

    A damaged file is removed: the round goes on without this device.
    """

    def __init__(self, path: Path | str | None = None) -> None:
        self._path = None if path is None else Path(path)
        self._state: SecureState | None = None

    def load(self) -> SecureState | None:
        """The state that was kept last.

        Raises:
            OSError: the file cannot be read, or removed.
        """
        if self._path is not None:
            try:
                self._state = _read(self._path)
            except CorruptArtifactError:
                self.erase()
        return self._state

    def keep(self, state: SecureState) -> None:
        """Replace the state; it is on disk when this returns.

        Raises:
            OSError: the disk is full; the old state is kept still.
        """
        if self._path is not None:
            make_folder(self._path.parent)
            write_atomic(self._path, _written(state), mode=_MODE)
        self._state = state

    def erase(self) -> None:
        """Forget the state.

        Raises:
            OSError: the file cannot be removed.
        """
        self._state = None
        if self._path is not None:
            remove_file(self._path)

    def give_up(self, round: int) -> None:
        """Forget the state in ``round``, for which no more comes; that in another round stays.

        Raises:
            OSError: as :meth:`load`.
        """
        with self.exclusive():
            state = self.load()
            if state is not None and state.trained.round == round:
                self.erase()

    def drop_over(self, now: float, epoch: str | None = None) -> None:
        """Forget a state that no message will ever fit, and what a killed :meth:`keep` left.

        Args:
            now: Unix seconds; what was not to be kept for so long goes.
            epoch: of the query store; what was made in another one goes. None: it is not known.

        Raises:
            OSError: as :meth:`load`.
        """
        with self.exclusive():
            state = self.load()
            if state is None or now >= state.kept_until or epoch not in (None, state.epoch):
                self.erase()

    @contextlib.contextmanager
    def exclusive(self) -> Iterator[None]:
        """Keep other processes from answering meanwhile: two could charge a ledger once."""
        if self._path is None or os.name == "nt":  # there Flower runs one after the other
            yield
            return
        import fcntl

        make_folder(self._path.parent)
        descriptor = os.open(self._path.parent, os.O_RDONLY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)


def _written(state: SecureState) -> bytes:
    binding, trained = state.binding, state.trained
    fields: dict[str, Any] = {
        "progress": int(state.progress),
        "epoch": state.epoch,
        "federation": trained.federation.hex(),
        "round": trained.round,
        "release": trained.release_sha256,
        "settings": trained.settings_sha256,
        "size": trained.size,
        "clip_norm": trained.clip_norm,
        "kept_until": state.kept_until,
        "asked": {str(stage): digest for stage, digest in state.asked.items()},
        "binding": None if binding is None else binding.to_bytes().decode("ascii"),
        "position": state.position,
        "holds": [one.position for one in state.held],
    }
    tensors: dict[str, NDArray[Any]] = {
        "change": state.change,
        "secret": _array(state.secret),
        "keys": _array(b"".join(state.keys)),
        "committed": np.array(state.committed, np.int32),
        "survivors": np.array(state.survivors, np.int32),
        "shares": _array(b"".join(one.self_share + one.mask_share for one in state.held)),
    }
    tensors |= {f"reply:{stage}": _array(reply) for stage, reply in state.replies.items()}
    metadata = {"format": _FORMAT, "format_version": _VERSION, "state": json.dumps(fields)}
    digest = sha256_bytes(serialize(tensors, metadata))
    return serialize(tensors, metadata | {"sha256": digest})


def _read(path: Path) -> SecureState | None:
    """What the file holds; None where there is none.

    Raises:
        CorruptArtifactError: it is not what :func:`_written` writes.
    """
    try:
        with path.open("rb") as file:
            data = file.read(_LARGEST + 1)
    except FileNotFoundError:
        return None
    metadata, tensors = parse_metadata(data, str(path)), parse(data, str(path))
    digest = metadata.pop("sha256", "")
    known = (metadata.get("format"), metadata.get("format_version")) == (_FORMAT, _VERSION)
    if not known or digest != sha256_bytes(serialize(tensors, metadata)):
        raise CorruptArtifactError(f"{path} was changed, or is of another version")
    try:
        return _state(json.loads(metadata["state"]), tensors)
    except (PocketQueryError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise CorruptArtifactError(f"{path} holds no state of this version ({error})") from error


def _state(fields: dict[str, Any], tensors: dict[str, NDArray[Any]]) -> SecureState:
    trained = Trained(
        bytes.fromhex(fields["federation"]),
        fields["round"],
        fields["release"],
        fields["settings"],
        fields["size"],
        fields["clip_norm"],
    )
    binding = fields["binding"]
    shares = _pieces(tensors["shares"], 2 * SHARE_BYTES)
    replies = {name: value for name, value in tensors.items() if name.startswith("reply:")}
    if len(trained.federation) != FEDERATION_BYTES or tensors["change"].dtype != np.float32:
        raise ValueError("values of another kind")
    return SecureState(
        progress=SecureProgress(fields["progress"]),
        epoch=fields["epoch"],
        trained=trained,
        kept_until=fields["kept_until"],
        asked={int(stage): digest for stage, digest in fields["asked"].items()},
        replies={int(name.partition(":")[2]): value.tobytes() for name, value in replies.items()},
        change=tensors["change"],
        secret=tensors["secret"].tobytes(),
        binding=None if binding is None else Binding.parse(binding.encode()),
        position=fields["position"],
        keys=tuple(_pieces(tensors["keys"], KEY_BYTES)),
        held=tuple(
            Held(position, pair[:SHARE_BYTES], pair[SHARE_BYTES:])
            for position, pair in zip(fields["holds"], shares, strict=True)
        ),
        committed=tuple(tensors["committed"].tolist()),
        survivors=tuple(tensors["survivors"].tolist()),
    )


def _array(data: bytes) -> NDArray[np.uint8]:
    return np.frombuffer(data, np.uint8)


def _pieces(array: NDArray[Any], size: int) -> list[bytes]:
    data = array.tobytes()
    return [data[start : start + size] for start in range(0, len(data), size)]

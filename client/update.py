"""The update: what a device uploads after a round, and how the server reads it.

One safetensors file: the change of the shared tensors (clipped, 8 bits) and a header in the
metadata. Nothing else about the user: no query, no loss, no time, no name.

Rounding to 8 bits loses a little each round. The device keeps what was lost and adds it to its next
change, so that over the rounds nothing is lost ("error feedback", Seide et al., "1-Bit Stochastic
Gradient Descent", section 3.1). What clipping cut off is not kept: it would pile up and undo the
bound.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pocketquery.client.transforms import SCALES, Clip, Int8, unflatten
from pocketquery.sdk.bundle.safetensors import parse_whole, serialize
from pocketquery.sdk.errors import CorruptArtifactError, InvalidInputError

__all__ = [
    "FORMAT",
    "LAST_ROUND",
    "VERSION",
    "Update",
    "UpdateHeader",
    "bounded_weight",
    "decode_update",
    "encode_update",
]

FORMAT = "pocketquery-update"
VERSION = "1"
LAST_ROUND = 10**18 - 1
"""The last round that an update, and so an offer, can name."""

Change = dict[str, NDArray[np.float32]]

_NONCE = re.compile(r"[0-9a-f]{32}")
_ROUND = re.compile(r"0|[1-9][0-9]{0,17}")
_SOURCE = "update"


@dataclass(frozen=True)
class UpdateHeader:
    """What the server must know of an update.

    Attributes:
        space_id: the vector space of the encoder that was trained.
        encoder_sha256: hexadecimal SHA-256 of the bundle's encoder.onnx.
        base_version: the release the change is relative to.
        round: the round it answers, from 0.
        nonce: 32 lowercase hexadecimal digits drawn for this update alone.
        weight: its share in the mean, see :func:`bounded_weight`. :func:`decode_update` returns
            any number it finds here; whether it is acceptable is the server's to judge.
    """

    space_id: str
    encoder_sha256: str
    base_version: str
    round: int
    nonce: str
    weight: float


@dataclass(frozen=True)
class Update:
    """A decoded update.

    Attributes:
        header: what it says of itself.
        values: float32 (n,), the tensors one after the other in the order of their sorted names.
        shapes: of the tensors by name.
    """

    header: UpdateHeader
    values: NDArray[np.float32]
    shapes: Mapping[str, tuple[int, ...]]

    @property
    def change(self) -> Change:
        """The tensors by name, views of ``values``."""
        return unflatten(self.values, self.shapes)


def bounded_weight(examples: int, largest: float) -> float:
    """The weight of a change trained on ``examples`` queries: their number, at most ``largest``.

    Raises:
        InvalidInputError: either is not above 0, or ``largest`` not finite.
    """
    if not (examples > 0 and largest > 0 and math.isfinite(largest)):
        raise InvalidInputError(
            f"found {examples} examples and a largest weight of {largest}, expected both above 0"
        )
    return float(min(examples, largest))


def encode_update(
    change: Mapping[str, NDArray[np.float32]],
    *,
    header: UpdateHeader,
    clip_norm: float,
    residual: Mapping[str, NDArray[np.float32]] | None = None,
    compress: bool = True,
) -> tuple[bytes, Change]:
    """The bytes to upload, and what rounding lost.

    Args:
        change: new minus old value of each tensor, float32 of any shape.
        header: who it is for.
        clip_norm: largest L2 norm over all tensors; what the server decodes is within it.
        residual: what the last call returned, for tensors of the same names and shapes; None
            where there was none, or where it belongs to another encoder.
        compress: False sends float32, four times as much, and loses nothing.

    Returns:
        The bytes, and the new residual: keep it on the device for the next round. Where the bytes
        never reach the server, keep the old one.

    Raises:
        InvalidInputError: no tensors, a value that is not finite, a residual of other tensors, a
            header field or ``clip_norm`` out of range.
    """
    _check_header(header)
    clipped = Clip(clip_norm).on_device(_sum(_checked(change), residual))
    payload = Int8().on_device(clipped) if compress else clipped
    sent = Int8().on_server(payload) if compress else clipped
    lost = {name: clipped[name] - sent[name] for name in clipped}
    return serialize(payload, _metadata(header)), lost


def decode_update(data: bytes) -> Update:
    """The update in ``data``, bytes from anywhere.

    Checks the format, not the content: NaN, an absurd weight or the names of tensors the server
    never sent come back as they are, for validation to judge and to name.

    Raises:
        CorruptArtifactError: not an update of this version, truncated or changed.
    """
    tensors, metadata = parse_whole(data, _SOURCE, copy=False)
    header = _header(metadata)
    shapes = {name: value.shape for name, value in tensors.items() if name != SCALES}
    if not shapes:
        raise CorruptArtifactError("update: found no tensor, expected the change of at least one")
    if SCALES in tensors:
        return Update(header, Int8().values_on_server(tensors), shapes)
    for name, value in tensors.items():
        if value.dtype != np.float32:
            raise CorruptArtifactError(
                f"update: tensor {name!r} is {value.dtype} and there are no scales, expected "
                "int8 with scales, or float32"
            )
    return Update(header, np.concatenate([tensors[n].ravel() for n in sorted(tensors)]), shapes)


def _checked(change: Mapping[str, NDArray[np.float32]]) -> Mapping[str, NDArray[np.float32]]:
    if not change:
        raise InvalidInputError(
            "the change holds no tensor; a training that was stopped has nothing to send"
        )
    for name, value in change.items():
        if name == SCALES or not isinstance(value, np.ndarray) or value.dtype != np.float32:
            raise InvalidInputError(
                f"the change's {name!r} is {getattr(value, 'dtype', type(value).__name__)}, "
                f"expected a float32 array under a name other than {SCALES!r}"
            )
    return change


def _sum(
    change: Mapping[str, NDArray[np.float32]], residual: Mapping[str, NDArray[np.float32]] | None
) -> dict[str, NDArray[Any]]:
    if residual is None:
        return dict(change)
    if {name: value.shape for name, value in residual.items()} != {
        name: value.shape for name, value in change.items()
    }:
        raise InvalidInputError(
            f"the residual is of {sorted(residual)}, the change of {sorted(change)} (or their "
            "shapes differ); it was left by another encoder. Pass None instead"
        )
    # In float64: the sum of two finite numbers may be none in float32.
    return {name: value.astype(np.float64) + residual[name] for name, value in change.items()}


def _metadata(header: UpdateHeader) -> dict[str, str]:
    return {"format": FORMAT, "version": VERSION} | {
        name: repr(float(value)) if name == "weight" else str(value)
        for name, value in asdict(header).items()
    }


def _check_header(header: UpdateHeader) -> None:
    try:
        read = _header(_metadata(header))
    except CorruptArtifactError as error:
        raise InvalidInputError(str(error)) from error
    if read != header or not (math.isfinite(header.weight) and header.weight > 0):
        raise InvalidInputError(f"found {header}, expected a weight above 0 and plain text fields")


def _header(metadata: Mapping[str, str]) -> UpdateHeader:
    """The header in ``metadata``; every field must be there, and no other."""
    fields = ["format", "version", *UpdateHeader.__dataclass_fields__]
    if set(metadata) != set(fields):
        raise CorruptArtifactError(
            f"update: found the metadata {sorted(metadata)}, expected {sorted(fields)}"
        )
    if (metadata["format"], metadata["version"]) != (FORMAT, VERSION):
        raise CorruptArtifactError(
            f"update: found format {metadata['format']!r}, version {metadata['version']!r}; "
            f"expected {FORMAT!r}, version {VERSION!r}. The sender runs another release"
        )
    return UpdateHeader(
        space_id=metadata["space_id"],
        encoder_sha256=metadata["encoder_sha256"],
        base_version=metadata["base_version"],
        round=int(_matching(metadata, "round", _ROUND, "a whole number from 0")),
        nonce=_matching(metadata, "nonce", _NONCE, "32 lowercase hexadecimal digits"),
        weight=_number(metadata["weight"]),
    )


def _matching(
    metadata: Mapping[str, str], name: str, pattern: re.Pattern[str], expected: str
) -> str:
    if not pattern.fullmatch(metadata[name]):
        raise CorruptArtifactError(f"update: {name} is {metadata[name]!r}, expected {expected}")
    return metadata[name]


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise CorruptArtifactError(f"update: weight is {text!r}, expected a number") from error

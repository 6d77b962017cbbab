"""Transforms of a change, in pairs: applied on the device, undone on the server.

Each transform has two sides and the two meet in this file, so that neither can drift from the
other. The device applies them in order, the server undoes them in reverse. The idea of two-sided
transforms is pfl-research's ("postprocessors").
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pocketquery.sdk.arrays import Tensors
from pocketquery.sdk.errors import CorruptArtifactError, InvalidInputError

__all__ = ["SCALES", "Clip", "Int8", "norm_of", "unflatten"]

SCALES = "__scales__"
_LARGEST_CODE = 127
# A float32 product is off by a relative 6e-8; what is scaled to a bound is to stay within it.
_ROUNDING_MARGIN = 1 - 1e-6


def norm_of(tensors: Tensors) -> float:
    """The L2 norm over all values of all tensors, in float64; their order does not matter."""
    squares = (float(np.square(value, dtype=np.float64).sum()) for value in tensors.values())
    return math.sqrt(math.fsum(squares))


def unflatten(
    values: NDArray[Any], shapes: Mapping[str, tuple[int, ...]]
) -> dict[str, NDArray[Any]]:
    """``values`` (n,) as tensors of these shapes, one after the other in the order of their sorted
    names; views of it."""
    tensors: dict[str, NDArray[Any]] = {}
    start = 0
    for name in sorted(shapes):
        stop = start + math.prod(shapes[name])
        tensors[name] = values[start:stop].reshape(shapes[name])
        start = stop
    return tensors


@dataclass(frozen=True)
class Clip:
    """Scale all tensors together to an L2 norm of at most ``norm``; their direction stays.

    The server clips again: a device may say it did.

    Raises:
        InvalidInputError: ``norm`` is not a finite number above 0; a value is NaN or infinite.
    """

    norm: float

    def __post_init__(self) -> None:
        if not (np.isfinite(self.norm) and self.norm > 0):
            raise InvalidInputError(
                f"clip_norm is {self.norm!r}, expected a finite number above 0 (the largest L2 "
                "norm of a change)"
            )

    def on_device(self, tensors: Tensors) -> dict[str, NDArray[Any]]:
        """Float32 tensors of L2 norm at most ``norm``."""
        for name, value in tensors.items():
            if not np.isfinite(value).all():
                raise InvalidInputError(
                    f"{name!r} holds NaN or infinity, expected finite numbers; the training that "
                    "made it diverged. Discard it"
                )
        total = norm_of(tensors)
        factor = 1.0 if total <= self.norm else self.norm / total * _ROUNDING_MARGIN
        return {name: (value * factor).astype(np.float32) for name, value in tensors.items()}

    def on_server(self, tensors: Tensors) -> dict[str, NDArray[Any]]:
        """The same again."""
        return self.on_device(tensors)


@dataclass(frozen=True)
class Int8:
    """Each tensor as signed 8-bit codes and one float32 scale, ``max|v| / 127``, rounded to even.

    What comes out on the server is never longer (L2, all tensors together) than what went in, so
    a clipped change stays within its bound.
    """

    def on_device(self, tensors: Tensors) -> dict[str, NDArray[Any]]:
        """Int8 tensors of the same names and shapes, and :data:`SCALES`, float32 (n,), in the
        order of the sorted names.
        """
        names = sorted(tensors)
        largest = [np.abs(tensors[name]).max(initial=0.0) for name in names]
        scales = (np.array(largest, np.float64) / _LARGEST_CODE).astype(np.float32)
        codes = {
            name: _codes(tensors[name], scale) for name, scale in zip(names, scales, strict=True)
        }
        shapes = {name: value.shape for name, value in codes.items()}
        sizes = [codes[name].size for name in names]
        decoded = _decode(_flat(codes, np.int8), sizes, scales)
        before, after = norm_of(tensors), norm_of(unflatten(decoded, shapes))
        if after > before:  # rounding went up more than down
            scales = (scales * (before / after * _ROUNDING_MARGIN)).astype(np.float32)
        return {**codes, SCALES: scales}

    def on_server(self, tensors: Tensors) -> dict[str, NDArray[Any]]:
        """Float32 tensors. Raises as :meth:`values_on_server`."""
        shapes = {name: value.shape for name, value in tensors.items() if name != SCALES}
        return unflatten(self.values_on_server(tensors), shapes)

    def values_on_server(self, tensors: Tensors) -> NDArray[np.float32]:
        """The same values in one array, float32 (n,), the tensors one after the other in the order
        of their sorted names. Scales are taken as they come, NaN too: who validates must see it.

        Raises:
            CorruptArtifactError: a tensor is not int8 or holds -128, which no device writes; the
                scales are absent, not float32 or not one for each tensor.
        """
        codes = {name: value for name, value in tensors.items() if name != SCALES}
        scales = tensors.get(SCALES)
        if scales is None or scales.dtype != np.float32 or scales.shape != (len(codes),):
            description = "none" if scales is None else f"{scales.dtype} {list(scales.shape)}"
            raise CorruptArtifactError(
                f"update: found the scales {description}, expected float32 [{len(codes)}]"
            )
        for name, value in codes.items():
            if value.dtype != np.int8:
                raise CorruptArtifactError(
                    f"update: tensor {name!r} is {value.dtype}, expected int8"
                )
        flat = _flat(codes, np.int8)
        if flat.min(initial=0) < -_LARGEST_CODE:
            raise CorruptArtifactError(
                f"update: found a code of {flat.min(initial=0)}, expected from -{_LARGEST_CODE}"
            )
        return _decode(flat, [value.size for _, value in sorted(codes.items())], scales)


def _codes(value: NDArray[Any], scale: np.float32) -> NDArray[np.int8]:
    if scale == 0:  # zeros, or so small that float32 has no step for them
        return np.zeros(value.shape, np.int8)
    steps = np.rint(value.astype(np.float64) / np.float64(scale))
    return np.clip(steps, -_LARGEST_CODE, _LARGEST_CODE).astype(np.int8)


def _flat(tensors: Tensors, dtype: type[np.generic]) -> NDArray[Any]:
    """All values in one array, in the order of the sorted names."""
    parts = [tensors[name].ravel() for name in sorted(tensors)]
    return np.concatenate(parts) if parts else np.zeros(0, dtype)


def _decode(
    codes: NDArray[np.int8], sizes: Sequence[int], scales: NDArray[np.float32]
) -> NDArray[np.float32]:
    """Each tensor's codes, one after the other, times its scale."""
    values = codes.astype(np.float32)
    start = 0
    with np.errstate(over="ignore", invalid="ignore"):
        for size, scale in zip(sizes, scales, strict=True):
            part = values[start : start + size]
            np.multiply(part, scale, out=part)
            start += size
    return values

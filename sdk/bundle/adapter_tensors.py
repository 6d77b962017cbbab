"""The tensors of an adapter: how they are rounded for a release, checked and named by a digest."""

from __future__ import annotations

from typing import Any

import numpy as np

from pocketquery.sdk.arrays import NDArray, Tensors
from pocketquery.sdk.bundle.safetensors import serialize
from pocketquery.sdk.errors import CorruptArtifactError, InvalidInputError
from pocketquery.sdk.files import sha256_bytes

__all__ = ["halves_of", "released", "tensors_sha256", "widened"]

"""Adapter tensors by the name of the graph's input; float16 or float32."""


def released(tensors: Tensors) -> dict[str, NDArray[np.float32]]:
    """``tensors`` as a release carries them: rounded to float16, as float32."""
    return {name: _half(value).astype(np.float32) for name, value in tensors.items()}


def tensors_sha256(tensors: Tensors) -> str:
    """The digest a release of ``tensors`` carries (names, shapes, values), hexadecimal; also of
    tensors that are not fit for one."""
    return sha256_bytes(serialize({name: _half(value) for name, value in tensors.items()}))


def halves_of(tensors: Tensors) -> dict[str, NDArray[np.float16]]:
    """``tensors`` in float16.

    Raises:
        InvalidInputError: NaN, infinity or what float16 cannot hold; another dtype than float16
            or float32; names the tensor.
    """
    return {name: _checked_half(name, value) for name, value in tensors.items()}


def widened(halves: Tensors, source: str) -> dict[str, NDArray[np.float32]]:
    """The tensors of a release in float32.

    Raises:
        CorruptArtifactError: one is not float16 or not finite; names ``source`` and it.
    """
    return {name: _checked_float(name, value, source) for name, value in halves.items()}


def _half(value: NDArray[Any]) -> NDArray[np.float16]:
    with np.errstate(over="ignore", invalid="ignore"):
        return np.asarray(value).astype(np.float16)


def _checked_half(name: str, value: NDArray[Any]) -> NDArray[np.float16]:
    array = np.asarray(value)
    half = _half(array) if array.dtype in (np.float16, np.float32) else None
    if half is None or not np.isfinite(half).all():
        held = f"{array.dtype}" if half is None else "NaN, infinity or what float16 cannot hold"
        raise InvalidInputError(
            f"adapter tensor {name!r} is {held}; expected finite float16 or float32"
        )
    return half


def _checked_float(name: str, value: NDArray[Any], source: str) -> NDArray[np.float32]:
    if value.dtype != np.float16 or not np.isfinite(value).all():
        held = f"{value.dtype}" if value.dtype != np.float16 else "NaN or infinity"
        raise CorruptArtifactError(
            f"{source}: adapter tensor {name!r} holds {held}, expected finite float16"
        )
    return value.astype(np.float32)

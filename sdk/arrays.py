"""Names of the array types that our signatures share, one a dtype; docstrings give the shapes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

import numpy as np

__all__ = [
    "AnyFloats",
    "Doubles",
    "Encode",
    "FloatTensors",
    "Floats",
    "Int32s",
    "Integers",
    "NDArray",
    "Rows",
    "Tensors",
]

_Scalar = TypeVar("_Scalar", bound=np.generic)
NDArray: TypeAlias = np.ndarray[tuple[Any, ...], np.dtype[_Scalar]]
"""numpy.typing's, whose import takes 5 ms of a cold start."""
Floats: TypeAlias = NDArray[np.float32]
Doubles: TypeAlias = NDArray[np.float64]
AnyFloats: TypeAlias = NDArray[np.floating]
Integers: TypeAlias = NDArray[np.int64]
Int32s: TypeAlias = NDArray[np.int32]
Rows: TypeAlias = NDArray[np.intp]
"""Places of rows, as numpy's indexing gives and takes them."""
Tensors: TypeAlias = Mapping[str, NDArray[Any]]
"""By name, of any dtype."""
FloatTensors: TypeAlias = Mapping[str, NDArray[np.float32]]
Encode: TypeAlias = Callable[[Sequence[str]], Floats]
"""Texts to vectors, float32 (texts, dimension)."""

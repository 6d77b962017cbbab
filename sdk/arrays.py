"""Names of the array types that our signatures share, one a dtype; docstrings give the shapes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "AnyFloats",
    "Doubles",
    "Encode",
    "FloatTensors",
    "Floats",
    "Int32s",
    "Integers",
    "Rows",
    "Tensors",
]

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

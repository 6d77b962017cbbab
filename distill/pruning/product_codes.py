"""Recover the codes that a product-quantised vocabulary table stands for.

A student whose table was product-quantised (product_quantization.py) is saved with the whole table.
Each place of it, so many dimensions, holds at most 256 different values, which are found again here
without loss.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from pocketquery.sdk.arrays import Floats
from pocketquery.sdk.errors import InvalidInputError

__all__ = ["CENTROIDS", "expand_codes", "product_codes"]

CENTROIDS = 256
"""Of a place: what one byte tells apart."""

Codes = npt.NDArray[np.uint8]


def product_codes(table: Floats, size: int) -> tuple[Codes, Floats]:
    """The codes and centroids that ``table`` was made of.

    Args:
        table: float32 (rows, width).
        size: dimensions of a sub-vector.

    Returns:
        uint8 (rows, places) and float32 (places * 256, size): the values of a place in order,
        zeros behind them.

    Raises:
        InvalidInputError: a place with more than 256 different values.
    """
    places = table.shape[1] // size
    codes = np.empty((len(table), places), np.uint8)
    centroids = np.zeros((places, CENTROIDS, size), np.float32)
    for place in range(places):
        part = table[:, place * size : (place + 1) * size]
        values, numbers = np.unique(part, axis=0, return_inverse=True)
        if len(values) > CENTROIDS:
            raise InvalidInputError(
                f"the student's vocabulary table holds {len(values)} different values in "
                f"dimensions {place * size} to {(place + 1) * size - 1}; a product-quantised one "
                f"has at most {CENTROIDS}. It was trained after the distillation: train without "
                'it, or remove "vocabulary_subvector" from its config.json for a whole table'
            )
        codes[:, place] = numbers.reshape(-1)
        centroids[place, : len(values)] = values
    return codes, centroids.reshape(-1, size)


def expand_codes(codes: Codes, centroids: Floats) -> Floats:
    """The table, float32 (rows, width), that ``codes`` and ``centroids`` stand for."""
    places = codes.astype(np.int64) + np.arange(codes.shape[1]) * CENTROIDS
    rows: Floats = centroids[places].reshape(len(codes), -1)
    return rows

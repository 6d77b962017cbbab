"""Searching an index's vectors exactly, where they are mapped.

A search multiplies the codes of :mod:`pocketquery.sdk.index.vector_file` by the query in 7 bits, in
integers. Then the best ``_RESCORED`` are scored again with the query in float32, which removes the
query's share of the rounding. Recall@10 rises from .987 to .994 and the scores are true to about
0.003. A row without a vector is never a result.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pocketquery.sdk.arrays import Floats, Int32s, NDArray, Rows
from pocketquery.sdk.errors import CorruptArtifactError, InvalidInputError
from pocketquery.sdk.index.vector_file import SCALE_BYTES, ZERO, Codes, map_vectors

__all__ = [
    "Vectors",
    "best",
    "best_first",
    "best_of_blocks",
    "in_blocks",
    "integer_product",
    "rescored",
    "unit_rows",
]

_STEPS = 64  # of a query, on either side of zero
_RESCORED = 100
_BLOCK = 1 << 16  # rows: their products stay in the processor's cache, and no search holds them all
_GROUP = 64  # scores whose highest is looked at first
_MOST_SCALE = 1.001 / 127  # of a vector of length 1, however it was rounded


def unit_rows(vectors: object, dimension: int, what: str) -> Floats:
    """``vectors`` as float32 (n, dimension), each of length 1.

    Raises:
        InvalidInputError: another shape, a value that is not finite, a vector of zeros (it has no
            direction to compare); names the first bad row.
    """
    array = _numbers(vectors, what)
    if array.ndim != 2 or array.shape[1] != dimension:
        raise InvalidInputError(
            f"{what} has shape {array.shape}, expected (n, {dimension}), the index's dimension; "
            "encode with an encoder of the index's space"
        )
    norms = np.linalg.norm(array, axis=1)
    bad = np.flatnonzero(~np.isfinite(norms) | (norms == 0))
    if len(bad):
        raise InvalidInputError(
            f"{what}[{bad[0]}] is all zeros or has a value that is not finite; expected finite "
            "numbers with a direction. Check the encoder that made it"
        )
    unit: Floats = (array / norms[:, None]).astype(np.float32)
    return unit


def _numbers(vectors: object, what: str) -> NDArray[np.float64]:
    try:
        array = np.asarray(vectors)
    except ValueError as error:
        raise InvalidInputError(f"{what} is not a matrix of numbers: {error}") from error
    if array.dtype.kind not in "fiu":
        raise InvalidInputError(f"{what} has dtype {array.dtype}, expected float32")
    return array.astype(np.float64)


class _BlockConstants(NamedTuple):
    scales: Floats
    shift: Int32s
    """What moving the query up by ``_STEPS`` adds to the products."""
    missing: NDArray[np.intp]
    """Rows without a vector."""


class Vectors:
    """The first ``count`` rows of a vector file, mapped read-only. Safe to use from threads.

    Raises:
        ArtifactNotFoundError: no such file.
        CorruptArtifactError: the header is damaged, or fewer than ``count`` rows are there.
        UnsupportedVersionError: a newer version of the format.
    """

    def __init__(self, path: Path, dimension: int, count: int) -> None:
        self.path = path
        self.dimension = dimension
        self._rows = map_vectors(path, dimension, count)
        self._constants: list[_BlockConstants | None] = [None] * -(-count // _BLOCK)

    def __len__(self) -> int:
        return len(self._rows)

    def check_scales(self) -> None:
        """Look at every row's scale, as a search does that is the first to reach it.

        Raises:
            CorruptArtifactError: one that no vector of length 1 has, NaN, negative or too large; or
                0 in a row that has a vector.
        """
        _scales(self._rows, self.path)

    def placed(self) -> NDArray[np.bool_]:
        """Which rows have a vector, bool (n,)."""
        return _scales(self._rows, self.path) > 0

    def floats(self, rows: NDArray[np.integer] | slice) -> Floats:
        """The stored vectors of ``rows``, float32 (m, d).

        Raises:
            CorruptArtifactError: the file was changed: a row has no possible scale.
        """
        some = self._rows[rows]
        codes = some[:, :-SCALE_BYTES].astype(np.float32)
        return (codes - ZERO) * _scales(some, self.path)[:, None]

    def rescore(self, query: Floats, rows: NDArray[np.integer]) -> Floats:
        """Inner products of float32 (d,) with the stored vectors of ``rows``, float32 (m,)."""
        some = self._rows[rows]
        # (code - 128) . query, without another hundred rows of fresh memory.
        products: Floats = some[:, :-SCALE_BYTES].astype(np.float32) @ query
        products -= ZERO * query.sum()
        products *= _scales(some, self.path)
        return products

    def search(
        self, query: Floats, k: int, allowed: NDArray[np.bool_] | None = None
    ) -> tuple[NDArray[np.intp], Floats]:
        """The ``k`` nearest rows, best first, and their scores.

        Args:
            query: float32 (d,), of length 1.
            k: at most so many.
            allowed: bool (n,), the rows that may be returned; None for all.
        """
        rows, _ = self.near(query, rescored(k), allowed)
        return best_first(rows, self.rescore(query, rows), k)

    def near(
        self, query: Floats, most: int, allowed: NDArray[np.bool_] | None = None
    ) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
        """The ``most`` nearest rows, rising, by scores true to about 0.01, and those.

        Of equal scores the first rows; none without a vector. Arguments as :meth:`search`.
        """
        step = np.float32(max(float(np.abs(query).max()), 1e-30) / _STEPS)
        codes = np.rint(query / step)  # whole numbers from -_STEPS to _STEPS
        offset = ZERO * int(codes.sum())
        codes += _STEPS
        unsigned = codes.astype(np.uint8)  # what the kernel takes

        def blocks() -> Iterator[tuple[int, NDArray[np.float64]]]:
            for number in range(len(self._constants)):
                block = slice(number * _BLOCK, (number + 1) * _BLOCK)
                if allowed is not None and not allowed[block].any():
                    continue
                scales, shift, missing = self._block_constants(number)
                scores = integer_product(self._rows[block, :-SCALE_BYTES], unsigned)
                scores -= shift
                scores -= offset
                scores *= scales * step
                if len(missing):
                    scores[missing] = -np.inf
                if allowed is not None:
                    scores[~allowed[block]] = -np.inf
                yield block.start, scores

        return best_of_blocks(blocks(), most)

    def _block_constants(self, number: int) -> _BlockConstants:
        constants = self._constants[number]
        if constants is None:  # with the first search, not when the file is opened
            rows = self._rows[number * _BLOCK : (number + 1) * _BLOCK]
            every = np.full(self.dimension, _STEPS, np.uint8)
            shift = integer_product(rows[:, :-SCALE_BYTES], every).astype(np.int32)
            scales = _scales(rows, self.path)
            constants = _BlockConstants(scales, shift, np.flatnonzero(scales == 0))
            self._constants[number] = constants
        return constants

    def raw(self, rows: NDArray[np.integer]) -> Codes:
        """``rows`` as the file has them, uint8 (m, d + 4)."""
        return np.ascontiguousarray(self._rows[rows])

    def blocks(self, start: int, stop: int, size: int = 8192) -> Iterator[Codes]:
        """The raw rows from ``start`` to ``stop`` in pieces."""
        for first in range(start, stop, size):
            yield self._rows[first : min(first + size, stop)]


def integer_product(matrix: NDArray[np.uint8], vector: NDArray[np.uint8]) -> NDArray[np.float64]:
    """``matrix @ vector``, exactly, by simsimd's kernels.

    numpy has no fast integer matrix product, and onnxruntime's fills sixteen columns where one is
    asked for. Kernels of simsimd, for one pair of rows, read each byte once: 100,000 x 384 take 1.2
    ms of one thread with AVX512-VNNI, where onnxruntime takes 9.5.

    Args:
        matrix: uint8 (n, d), at most 65,536 columns; each row is contiguous, rows may
            lie apart. It is read in place, so it may be a memory-mapped file.
        vector: uint8 (d,), every value at most 128.

    Returns:
        float64 (n,), whole numbers.
    """
    import simsimd  # here, so that encoding a query never loads it

    if not len(matrix):
        return np.zeros(0)
    products: Any = simsimd.cdist(vector[None], matrix, metric="dot")
    return np.asarray(products, np.float64).reshape(-1)  # of one row it is a plain number


def rescored(k: int) -> int:
    """How many of the nearest rows are scored again where ``k`` are wanted."""
    return max(2 * k, _RESCORED)


def best_first(rows: Rows, scores: Floats, k: int) -> tuple[Rows, Floats]:
    """The first ``k`` rows and their scores, best first, equal scores in the order of the rows."""
    order = np.lexsort((rows, -scores))[:k]
    return rows[order], scores[order]


def best(scores: NDArray[np.floating[Any]], k: int) -> NDArray[np.intp]:
    """The positions of the ``k`` >= 1 highest scores, rising; of equal scores the first ones.

    So that what is found does not depend on how many are asked for.
    """
    if k >= len(scores):
        return np.arange(len(scores))
    least = np.partition(scores, len(scores) - k)[len(scores) - k]
    rows = np.flatnonzero(scores >= least)
    if len(rows) == k:
        return rows
    level = np.flatnonzero(scores[rows] == least)
    return np.delete(rows, level[k - len(rows) :])


def best_of_blocks(
    blocks: Iterable[tuple[int, NDArray[np.floating[Any]]]], most: int, above: float = -np.inf
) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """The ``most`` >= 1 highest of scores that come in blocks, as :func:`best` chooses them.

    Args:
        blocks: the position of each block's first score, rising, and its scores.
        most: how many.
        above: only scores higher than this.

    Returns:
        Their positions, rising, and the scores.
    """
    positions, highest = np.zeros(0, np.intp), np.zeros(0)
    for first, scores in blocks:
        # Of equal ones the first stay. Until there are enough, a whole block would be sorted.
        reached = _reached(scores, most) if len(positions) < most else above
        reaching = np.flatnonzero(scores >= reached if reached > above else scores > above)
        if not len(reaching):
            continue
        positions = np.concatenate([positions, reaching + first])
        highest = np.concatenate([highest, scores[reaching]])
        chosen = best(highest, most)
        positions, highest = positions[chosen], highest[chosen]
        if len(positions) == most:
            above = highest.min()
    return positions, highest


def _reached(scores: NDArray[np.floating[Any]], count: int) -> float:
    """A value that at least ``count`` scores reach and not many more; -inf where it is not known.

    The highest of each group are soon found, and the ``count``-th of them is such a value.
    """
    groups = len(scores) // _GROUP
    if groups < count:
        return -np.inf
    # Every so many, not those in a row: numpy compares whole rows at once.
    highest = np.maximum.reduce(scores[: groups * _GROUP].reshape(_GROUP, groups), axis=0)
    return float(np.partition(highest, groups - count)[groups - count])


def in_blocks(
    scores: NDArray[np.floating[Any]],
) -> Iterator[tuple[int, NDArray[np.floating[Any]]]]:
    """Scores that are all there, as :func:`best_of_blocks` takes them."""
    for first in range(0, len(scores), _BLOCK):
        yield first, scores[first : first + _BLOCK]


def _scales(rows: Codes, path: Path) -> Floats:
    scales = np.ascontiguousarray(rows[:, -SCALE_BYTES:]).view("<f4")[:, 0].astype(np.float32)
    if (
        len(scales)
        and not (
            (least := scales.min()) >= 0  # NaN is neither
            and scales.max() <= _MOST_SCALE
            and (least > 0 or (rows[scales == 0, :-SCALE_BYTES] == ZERO).all())
        )
    ):
        raise CorruptArtifactError(
            f"{path} was changed after it was written: a row's scale is not above 0 and at most "
            f"{_MOST_SCALE:.5f}, so its scores would mean nothing. Copy the index anew or build it "
            "again"
        )
    return scales

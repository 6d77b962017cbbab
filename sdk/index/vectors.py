"""Searching an index's vectors exactly, where they are mapped.

A search multiplies the codes of :mod:`pocketquery.sdk.index.vector_file` by the query in 7 bits, in
integers. How far that can be from the query in 24 bits is known for each query. So every row that
may be among the best is scored again with those 24 bits, exactly, and the first rows are the same
however many are asked for. Scores are true to the rounding of the stored vectors, about 0.003. A
row without a vector is never a result.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np

from pocketquery.sdk.arrays import Floats, Int32s, NDArray, Rows
from pocketquery.sdk.errors import InvalidInputError
from pocketquery.sdk.index.vector_file import SCALE_BYTES, ZERO, Codes, map_vectors, scales_of

__all__ = [
    "QueryVector",
    "Vectors",
    "best",
    "best_first",
    "best_of_blocks",
    "in_blocks",
    "integer_product",
    "unit_rows",
]

Score = TypeVar("Score", bound=np.floating[Any])

_STEPS = 64  # of a query, on either side of zero
_FINE_STEPS = 1 << 23  # of a query, on either side of zero; float32 has no more
_PRODUCTS = 2048  # rows that are in memory as float64 at a time
_ALL = slice(None)
_BLOCK = 1 << 16  # rows: their products stay in the processor's cache, and no search holds them all
_ROUNDING_SLACK = 1e-6  # of the scan's factors, in float32
_GROUP = 64  # scores whose highest is looked at first


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


class QueryVector:
    """A query's vector, as rows are scored by it.

    Args:
        vector: float32 (d,), of length 1.

    Attributes:
        fine: float64 (d,), whole numbers from -2**23 to 2**23; times ``fine_step`` the vector.
        fine_step: what 1 stands for in ``fine``.
        coarse: uint8 (d,), from 0 to 128, what the scan multiplies; 64 more than whole numbers that
            are ``step`` each.
        offset: what taking 128 from each code takes from the products.
        step: what 1 stands for in ``coarse``.
        slack: two rows whose coarse scores differ by more are in that order. Twice the length of
            what ``coarse`` leaves out, times the largest length of a stored vector.
    """

    def __init__(self, vector: Floats) -> None:
        largest = max(float(np.abs(vector).max()), 1e-30)
        self.fine_step = largest / _FINE_STEPS
        self.fine: NDArray[np.float64] = np.rint(vector.astype(np.float64) / self.fine_step)
        self.step = np.float32(largest / _STEPS)
        codes = np.rint(vector / self.step)  # whole numbers from -_STEPS to _STEPS
        self.offset = ZERO * int(codes.sum())
        self.coarse: NDArray[np.uint8] = (codes + _STEPS).astype(np.uint8)  # what the kernel takes
        left_out = self.fine * self.fine_step - codes.astype(np.float64) * float(self.step)
        longest = 1.001 + np.sqrt(len(vector)) / 254  # each number is rounded by half a step
        self.slack = 2 * (float(np.linalg.norm(left_out)) * longest + _ROUNDING_SLACK)

    def cosine(self, vectors: NDArray[np.float64]) -> NDArray[np.float64]:
        """The inner product with float64 (..., d), each summed in one order on every machine."""
        products: NDArray[np.float64] = (self.fine * vectors).sum(axis=-1) * self.fine_step
        return products


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

    def placed(self, rows: NDArray[np.integer] | slice = _ALL) -> NDArray[np.bool_]:
        """Which of ``rows`` have a vector, bool (m,)."""
        return scales_of(self._rows[rows], self.path) > 0

    def floats(self, rows: NDArray[np.integer] | slice) -> Floats:
        """The stored vectors of ``rows``, float32 (m, d).

        Raises:
            CorruptArtifactError: the file was changed: a row has no possible scale.
        """
        some = self._rows[rows]
        codes = some[:, :-SCALE_BYTES].astype(np.float32)
        return (codes - ZERO) * scales_of(some, self.path)[:, None]

    def cosines(self, query: QueryVector, rows: NDArray[np.integer]) -> NDArray[np.float64]:
        """The cosines of ``rows``, float64 (m,), 0 where a row has no vector.

        The sums are of whole numbers below 2**53, so they are exact: a row's cosine is the same
        whatever other rows are asked for, and in every language.
        """
        products = np.zeros(len(rows))
        for start in range(0, len(rows), _PRODUCTS):
            some = self._rows[rows[start : start + _PRODUCTS]]
            codes = some[:, :-SCALE_BYTES].astype(np.float64)
            exact = codes @ query.fine - ZERO * query.fine.sum()
            products[start : start + _PRODUCTS] = exact * scales_of(some, self.path)
        products *= query.fine_step
        return products

    def search(
        self, query: Floats, k: int, allowed: NDArray[np.bool_] | None = None
    ) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
        """The ``k`` nearest rows, best first, and their cosines.

        Args:
            query: float32 (d,), of length 1.
            k: at most so many.
            allowed: bool (n,), the rows that may be returned; None for all.
        """
        meant = QueryVector(query)
        rows, _ = best_of_blocks(self.near(meant, allowed), k, slack=meant.slack)
        return best_first(rows, self.cosines(meant, rows), k)

    def near(
        self, query: QueryVector, allowed: NDArray[np.bool_] | None = None
    ) -> Iterator[tuple[int, NDArray[np.float64]]]:
        """Every row's cosine, true to half of ``query.slack``, in blocks: the first row of each,
        and float64 scores, -inf for rows without a vector and those that are not allowed.
        """
        for first, scores, missing in self.scores(query):
            if len(missing):
                scores[missing] = -np.inf
            if allowed is not None:
                scores[~allowed[first : first + len(scores)]] = -np.inf
            yield first, scores

    def scores(
        self, query: QueryVector
    ) -> Iterator[tuple[int, NDArray[np.float64], NDArray[np.intp]]]:
        """As :meth:`near`, of all rows; with the positions in the block that have no vector."""
        for number in range(len(self._constants)):
            block = slice(number * _BLOCK, (number + 1) * _BLOCK)
            scales, shift, missing = self._block_constants(number)
            scores = integer_product(self._rows[block, :-SCALE_BYTES], query.coarse)
            scores -= shift
            scores -= query.offset
            scores *= scales * query.step
            yield block.start, scores, missing

    def _block_constants(self, number: int) -> _BlockConstants:
        constants = self._constants[number]
        if constants is None:  # with the first search, not when the file is opened
            rows = self._rows[number * _BLOCK : (number + 1) * _BLOCK]
            every = np.full(self.dimension, _STEPS, np.uint8)
            shift = integer_product(rows[:, :-SCALE_BYTES], every).astype(np.int32)
            scales = scales_of(rows, self.path)
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


def best_first(rows: Rows, scores: NDArray[Score], k: int) -> tuple[Rows, NDArray[Score]]:
    """The first ``k`` rows and their scores, best first, equal scores in the order of the rows."""
    order = np.lexsort((rows, -scores))[:k]
    return rows[order], scores[order]


def best(scores: NDArray[np.floating[Any]], k: int, slack: float = 0.0) -> NDArray[np.intp]:
    """The positions of the ``k`` >= 1 highest scores, rising; of equal scores the first ones.

    So that what is found does not depend on how many are asked for. With a ``slack``, of scores
    that are true to half of it: all that may be among the ``k`` highest.
    """
    if k >= len(scores):
        return np.arange(len(scores))
    least = np.partition(scores, len(scores) - k)[len(scores) - k]
    if slack:
        return np.flatnonzero(scores > least - slack)
    rows = np.flatnonzero(scores >= least)
    if len(rows) == k:
        return rows
    level = np.flatnonzero(scores[rows] == least)
    return np.delete(rows, level[k - len(rows) :])


def best_of_blocks(
    blocks: Iterable[tuple[int, NDArray[np.floating[Any]]]],
    most: int,
    above: float = -np.inf,
    slack: float = 0.0,
) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """The ``most`` >= 1 highest of scores that come in blocks, as :func:`best` chooses them.

    Args:
        blocks: the position of each block's first score, rising, and its scores.
        most: how many.
        above: only scores higher than this.
        slack: of the scores, see :func:`best`.

    Returns:
        Their positions, rising, and the scores.
    """
    positions, highest = np.zeros(0, np.intp), np.zeros(0)
    for first, scores in blocks:
        # Of equal ones the first stay. Until there are enough, a whole block would be sorted.
        reached = _reached(scores, most) - slack if len(positions) < most else above
        reaching = np.flatnonzero(scores >= reached if reached > above else scores > above)
        if not len(reaching):
            continue
        positions = np.concatenate([positions, reaching + first])
        highest = np.concatenate([highest, scores[reaching]])
        chosen = best(highest, most, slack)
        positions, highest = positions[chosen], highest[chosen]
        if len(positions) >= most:
            least = np.partition(highest, len(highest) - most)[len(highest) - most]
            above = max(above, float(least) - slack)
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


def in_blocks(scores: NDArray[np.floating[Any]]) -> Iterator[tuple[int, NDArray[np.floating[Any]]]]:
    """Scores that are all there, as :func:`best_of_blocks` takes them."""
    for first in range(0, len(scores), _BLOCK):
        yield first, scores[first : first + _BLOCK]

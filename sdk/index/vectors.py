"""Document vectors in 8 bits, memory-mapped, searched exactly.

The file is a 64-byte header and one row a document, so that adding documents is appending bytes::

    "PQVECTOR" | version u32 | dimension u32 | zeros | CRC-32 of the 60 bytes before, u32
    row 0: dimension codes, u8 | scale, f32
    row 1: ...

A row's vector is ``(code - 128) * scale`` with ``scale = max|v| / 127``. Scaling each vector by
its own maximum keeps recall@10 at .99 or more of float32's; one scale for all does not. A document
that says too little to be placed has the vector 0: the scale 0 and nothing but codes 128. No search
by meaning finds it.

A search multiplies the codes where they are mapped by the query in 7 bits, in integers; then the
best ``_RESCORED`` are scored again with the query in float32, which removes the query's share of
the rounding: recall@10 rises from .987 to .994 and the scores are true to about 0.003. The file
ends where the database says it ends: rows beyond are of an add that never committed, and the next
add overwrites them.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pocketquery.sdk.arrays import Floats, Int32s, NDArray, Rows
from pocketquery.sdk.errors import (
    CorruptArtifactError,
    InvalidInputError,
    UnsupportedVersionError,
)
from pocketquery.sdk.files import sync_folder, writes
from pocketquery.sdk.index.integer_product import MOST_COLUMNS, integer_product
from pocketquery.sdk.plain_files import mode_for, open_own_file, plain_size

__all__ = [
    "MOST_DIMENSIONS",
    "Codes",
    "Vectors",
    "append_vectors",
    "best",
    "best_first",
    "best_of_blocks",
    "create_vectors",
    "file_size",
    "in_blocks",
    "quantize",
    "rescored",
    "unit_rows",
    "without_vectors",
]

MOST_DIMENSIONS = MOST_COLUMNS

Codes = NDArray[np.uint8]

_MAGIC = b"PQVECTOR"
_VERSION = 1
_HEADER = 64
_FIELDS = struct.Struct("<8sII44s")
_ZERO = 128
_SCALE_BYTES = 4
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


def quantize(vectors: Floats) -> Codes:
    """Rows of the file, uint8 (n, d + 4), for float32 (n, d)."""
    scales = (np.abs(vectors).max(axis=1, initial=0.0) / 127).astype("<f4")
    codes = np.rint(vectors / scales[:, None]) + _ZERO
    return np.hstack([codes.astype(np.uint8), scales.view(np.uint8).reshape(-1, _SCALE_BYTES)])


def without_vectors(rows: Codes, missing: NDArray[np.bool_]) -> Codes:
    """``rows`` of the file, those that are ``missing``, bool (n,), without a vector."""
    if not missing.any():
        return rows
    rows = rows.copy()
    rows[missing, :-_SCALE_BYTES] = _ZERO
    rows[missing, -_SCALE_BYTES:] = 0  # the bytes of a scale of 0
    return rows


@writes()
def create_vectors(path: Path, dimension: int) -> None:
    """Write a vector file of no rows."""
    fields = _FIELDS.pack(_MAGIC, _VERSION, dimension, b"")
    mode = mode_for(path)
    with open(path, "xb", opener=lambda name, flags: os.open(name, flags, mode)) as file:
        file.write(fields + struct.pack("<I", zlib.crc32(fields)))
        file.flush()
        os.fsync(file.fileno())
    sync_folder(path.parent)


def file_size(dimension: int, count: int) -> int:
    """Bytes of a vector file of ``count`` rows."""
    return _HEADER + count * (dimension + _SCALE_BYTES)


@writes()
def append_vectors(path: Path, first_row: int, rows: Codes) -> None:
    """Write ``rows`` from row ``first_row`` on, durably; what stood from there on is dropped.

    Raises:
        WriteError: the disk is full; rows before ``first_row`` are as they were.
        ArtifactError: the file is a link; it is left alone.
    """
    with open_own_file(path) as file:
        file.seek(_HEADER + first_row * rows.shape[1])
        file.write(np.ascontiguousarray(rows).data)
        file.truncate()
        file.flush()
        os.fsync(file.fileno())


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
        self._rows = _map(path, dimension, count)
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
        codes = some[:, :-_SCALE_BYTES].astype(np.float32)
        return (codes - _ZERO) * _scales(some, self.path)[:, None]

    def rescore(self, query: Floats, rows: NDArray[np.integer]) -> Floats:
        """Inner products of float32 (d,) with the stored vectors of ``rows``, float32 (m,)."""
        some = self._rows[rows]
        # (code - 128) . query, without another hundred rows of fresh memory.
        products: Floats = some[:, :-_SCALE_BYTES].astype(np.float32) @ query
        products -= _ZERO * query.sum()
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
        offset = _ZERO * int(codes.sum())
        codes += _STEPS
        unsigned = codes.astype(np.uint8)  # what the kernel takes

        def blocks() -> Iterator[tuple[int, NDArray[np.float64]]]:
            for number in range(len(self._constants)):
                block = slice(number * _BLOCK, (number + 1) * _BLOCK)
                if allowed is not None and not allowed[block].any():
                    continue
                scales, shift, missing = self._block_constants(number)
                scores = integer_product(self._rows[block, :-_SCALE_BYTES], unsigned)
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
        found = self._constants[number]
        if found is None:  # with the first search, not when the file is opened
            rows = self._rows[number * _BLOCK : (number + 1) * _BLOCK]
            every = np.full(self.dimension, _STEPS, np.uint8)
            shift = integer_product(rows[:, :-_SCALE_BYTES], every).astype(np.int32)
            scales = _scales(rows, self.path)
            found = _BlockConstants(scales, shift, np.flatnonzero(scales == 0))
            self._constants[number] = found
        return found

    def raw(self, rows: NDArray[np.integer]) -> Codes:
        """``rows`` as the file has them, uint8 (m, d + 4)."""
        return np.ascontiguousarray(self._rows[rows])

    def blocks(self, start: int, stop: int, size: int = 8192) -> Iterator[Codes]:
        """The raw rows from ``start`` to ``stop`` in pieces."""
        for first in range(start, stop, size):
            yield self._rows[first : min(first + size, stop)]


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
        found = np.flatnonzero(scores >= reached if reached > above else scores > above)
        if not len(found):
            continue
        positions = np.concatenate([positions, found + first])
        highest = np.concatenate([highest, scores[found]])
        kept = best(highest, most)
        positions, highest = positions[kept], highest[kept]
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


def _map(path: Path, dimension: int, count: int) -> Codes:
    _check_header(path, dimension)
    stride = dimension + _SCALE_BYTES
    expected = file_size(dimension, count)
    size = plain_size(path)
    if size < expected:
        raise CorruptArtifactError(
            f"{path} has {size} bytes, expected at least {expected} for {count} vectors of "
            f"dimension {dimension}: it is truncated. Build the index again or copy it anew"
        )
    if not count:
        return np.zeros((0, stride), np.uint8)
    return np.asarray(np.memmap(path, np.uint8, "r", _HEADER, (count, stride)))


def _check_header(path: Path, dimension: int) -> None:
    plain_size(path)
    with path.open("rb") as file:
        header = file.read(_HEADER)
    if len(header) < _HEADER or header[:8] != _MAGIC:
        raise CorruptArtifactError(
            f"{path} is not a vector file: it does not begin with {_MAGIC!r}"
        )
    if struct.unpack("<I", header[-4:])[0] != zlib.crc32(header[:-4]):
        raise CorruptArtifactError(f"{path} has a damaged header; copy the index anew")
    _, version, found, _ = _FIELDS.unpack(header[:-4])
    if version > _VERSION:
        raise UnsupportedVersionError(
            f"{path} is of version {version}, this release reads up to {_VERSION}; "
            "upgrade pocketquery"
        )
    if found != dimension:
        raise CorruptArtifactError(
            f"{path} holds vectors of dimension {found}, the index says {dimension}; "
            "files of two indexes were mixed, copy it anew"
        )


def _scales(rows: Codes, path: Path) -> Floats:
    scales = np.ascontiguousarray(rows[:, -_SCALE_BYTES:]).view("<f4")[:, 0].astype(np.float32)
    if (
        len(scales)
        and not (
            (least := scales.min()) >= 0  # NaN is neither
            and scales.max() <= _MOST_SCALE
            and (least > 0 or (rows[scales == 0, :-_SCALE_BYTES] == _ZERO).all())
        )
    ):
        raise CorruptArtifactError(
            f"{path} was changed after it was written: a row's scale is not above 0 and at most "
            f"{_MOST_SCALE:.5f}, so its scores would mean nothing. Copy the index anew or build it "
            "again"
        )
    return scales

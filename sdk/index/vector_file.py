"""The file of an index's vectors: 8 bits a dimension, one row a document.

A 64-byte header and the rows, so that adding documents is appending bytes::

    "PQVECTOR" | version u32 | dimension u32 | zeros | CRC-32 of the 60 bytes before, u32
    row 0: dimension codes, u8 | scale, f32
    row 1: ...

A row's vector is ``(code - 128) * scale`` with ``scale = max|v| / 127``. Scaling each vector by
its own maximum keeps recall@10 at .99 or more of float32's; one scale for all does not. A document
that says too little to be placed has the vector 0: the scale 0 and nothing but codes 128.

The file ends where the database says it ends: rows beyond are of an add that never committed, and
the next add overwrites them.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from pocketquery.sdk.arrays import Doubles, Floats, NDArray, Rows
from pocketquery.sdk.errors import CorruptArtifactError, UnsupportedVersionError
from pocketquery.sdk.files import sync_folder, writes
from pocketquery.sdk.plain_files import mode_for, open_own_file, plain_size

__all__ = [
    "MOST_DIMENSIONS",
    "SCALE_BYTES",
    "SUM_UNIT",
    "ZERO",
    "Codes",
    "Languages",
    "append_vectors",
    "apart_of",
    "create_vectors",
    "file_size",
    "map_vectors",
    "means_of",
    "merged_sums",
    "own_part",
    "quantize",
    "scales_of",
    "sums_of",
    "without_vectors",
]

MOST_DIMENSIONS = 1 << 16  # 255 * 128 * this fits into the 32 bits that a search adds in
ZERO = 128
"""The code of 0."""
SCALE_BYTES = 4
_MOST_SCALE = 1.001 / 127  # of a vector of length 1, however it was rounded
SUM_UNIT = 2.0**-32
"""What 1 in a sum of vectors stands for: in whole numbers it depends on no order."""
_OWN_MEAN_ROWS = 16
"""Rows that move the mean of a language halfway from that of all to its own. Chosen on sentences of
six languages that no report has, by a rule set before (research/LOG.md)."""

Codes = NDArray[np.uint8]

_MAGIC = b"PQVECTOR"
_VERSION = 1
_HEADER = 64
_FIELDS = struct.Struct("<8sII44s")


def quantize(vectors: Floats) -> Codes:
    """Rows of the file, uint8 (n, d + 4), for float32 (n, d)."""
    scales = (np.abs(vectors).max(axis=1, initial=0.0) / 127).astype("<f4")
    codes = np.rint(vectors / scales[:, None]) + ZERO
    return np.hstack([codes.astype(np.uint8), scales.view(np.uint8).reshape(-1, SCALE_BYTES)])


def scales_of(rows: Codes, path: Path) -> Floats:
    """The scales of ``rows`` of the file at ``path``, float32 (n,).

    Raises:
        CorruptArtifactError: one that no vector of length 1 has, NaN, negative or too large; or 0
            in a row that has a vector.
    """
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


def sums_of(
    blocks: Iterable[Codes], languages: NDArray[np.uint16], dimension: int, path: Path
) -> NDArray[np.int64]:
    """The sum of the vectors of each language.

    Args:
        blocks: rows of the file, at most 2**20 at a time.
        languages: uint16 (n,), of all these rows, see
            :func:`~pocketquery.sdk.languages.scripts.language_number`.
        dimension: of the vectors.
        path: of the file, for errors.

    Returns:
        int64 (languages, d + 2), by their numbers: the number, how many rows have a vector (none:
        the language is left out), and the sum of these, in units of ``SUM_UNIT``. The same whatever
        the rows' order.

    Raises:
        CorruptArtifactError: a scale that no vector has.
    """
    parts, start = [np.zeros((0, dimension + 2), np.int64)], 0
    for rows in blocks:
        scales = scales_of(rows, path)
        weights = np.rint(scales.astype(np.float64) / SUM_UNIT)
        own = languages[start : start + len(rows)]
        start += len(rows)
        for number in np.unique(own):
            some = own == number
            codes = rows[some, :-SCALE_BYTES].astype(np.float64) - ZERO
            total = weights[some] @ codes  # whole numbers below 2**53: exact
            head = np.array([number, np.count_nonzero(scales[some])], np.int64)
            parts.append(np.concatenate([head, total.astype(np.int64)])[None])
    return merged_sums(*parts)


def merged_sums(*sums: NDArray[np.int64]) -> NDArray[np.int64]:
    """What :func:`sums_of` gives of all rows together, from what it gave of parts."""
    records = np.concatenate(sums)
    numbers, places = np.unique(records[:, 0], return_inverse=True)
    merged: NDArray[np.int64] = np.zeros((len(numbers), records.shape[1]), np.int64)
    np.add.at(merged, places, records)
    merged[:, 0] = numbers
    there: NDArray[np.int64] = merged[merged[:, 1] != 0]
    return there


class Languages(NamedTuple):
    """The languages that an index's rows name, two at least, as one query sees them.

    Attributes:
        of_rows: intp (n,), the number of each row's language, from 0; l where it has none.
        counts: float64 (l, 1), of the rows of each.
        apart: float64 (l + 1,), of their cosines with the query, see :func:`apart_of`.
    """

    of_rows: Rows
    counts: Doubles
    apart: Doubles

    def apart_at(self, rows: Rows | slice) -> Doubles:
        """``apart`` of each of ``rows``, float64 (m,)."""
        apart: Doubles = self.apart[self.of_rows[rows]]
        return apart


def means_of(sums: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The mean vector of an index, and how far those of its languages are from each other.

    Args:
        sums: int64 (languages, d + 2), as :func:`sums_of` gives them.

    Returns:
        float64 (d,), of all rows that have a vector and of one more that is 0, so that a document
        which is alone stands out from it; and float64 (l + 1, d), see :func:`apart_of`, of the
        languages with a number above 0, and 0.
    """
    vectors = sums[:, 2:].astype(np.float64) * SUM_UNIT
    named = sums[:, 0] > 0
    mean = vectors.sum(axis=0) / (float(sums[:, 1].sum()) + 1)
    return mean, apart_of(vectors[named], sums[named, 1:2].astype(np.float64))


def apart_of(sums: NDArray[np.float64], counts: NDArray[np.float64]) -> NDArray[np.float64]:
    """How far the mean of each language is from that of all languages; 0 where there is one alone.

    Few rows say little of their language, and a single one would be held against itself: the
    distance is the smaller the fewer there are. Rows without a language may be of any: 0.

    Args:
        sums: float64 (l, m), of each language's rows.
        counts: float64 (l, 1), of its rows.

    Returns:
        float64 (l + 1, m); the last is for rows without a language.
    """
    means = sums / np.maximum(counts, 1.0)
    apart = means - sums.sum(axis=0) / max(float(counts.sum()), 1.0)
    return np.vstack([apart * own_part(counts), np.zeros(sums.shape[1])])


def own_part(counts: NDArray[np.float64]) -> NDArray[np.float64]:
    """How much what was counted in so many rows of a language says of it, from 0 to 1."""
    part: NDArray[np.float64] = counts / (counts + _OWN_MEAN_ROWS)
    return part


def without_vectors(rows: Codes, missing: NDArray[np.bool_]) -> Codes:
    """``rows`` of the file, those that are ``missing``, bool (n,), without a vector."""
    if not missing.any():
        return rows
    rows = rows.copy()
    rows[missing, :-SCALE_BYTES] = ZERO
    rows[missing, -SCALE_BYTES:] = 0  # the bytes of a scale of 0
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
    return _HEADER + count * (dimension + SCALE_BYTES)


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


def map_vectors(path: Path, dimension: int, count: int) -> Codes:
    """The first ``count`` rows, uint8 (count, dimension + 4), mapped read-only.

    Raises:
        ArtifactNotFoundError: no such file.
        CorruptArtifactError: the header is damaged, or fewer rows are there.
        UnsupportedVersionError: a newer version of the format.
    """
    _check_header(path, dimension)
    stride = dimension + SCALE_BYTES
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
    _, version, stored, _ = _FIELDS.unpack(header[:-4])
    if version > _VERSION:
        raise UnsupportedVersionError(
            f"{path} is of version {version}, this release reads up to {_VERSION}; "
            "upgrade pocketquery"
        )
    if stored != dimension:
        raise CorruptArtifactError(
            f"{path} holds vectors of dimension {stored}, the index says {dimension}; "
            "files of two indexes were mixed, copy it anew"
        )

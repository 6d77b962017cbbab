"""The safetensors format for numpy arrays, read strictly.

A file is: the header's length (8 bytes, little-endian), the header (JSON: name -> dtype, shape,
data_offsets; optionally ``__metadata__``, text to text), then the tensors' bytes. Written from the
format's public description, so that a device needs neither the package nor pickle. Everything a
hostile file could get wrong is checked before a tensor is built: the header may not be longer than
the file, offsets must tile the data exactly, in any order but with no gap and no overlap, and each
span must be as long as its dtype and shape say. Numbers are bounded as they are read and what an
error repeats of the file is cut short, so that no file makes the reader itself fail.

Source: https://github.com/huggingface/safetensors (README, section "Format").
"""

from __future__ import annotations

import json
import math
import reprlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pocketquery.sdk.errors import CorruptArtifactError, InvalidInputError

__all__ = ["parse", "parse_metadata", "serialize"]

_DTYPES: dict[str, np.dtype[Any]] = {
    "F64": np.dtype("<f8"),
    "F32": np.dtype("<f4"),
    "F16": np.dtype("<f2"),
    "I64": np.dtype("<i8"),
    "I32": np.dtype("<i4"),
    "I16": np.dtype("<i2"),
    "I8": np.dtype("i1"),
    "U64": np.dtype("<u8"),
    "U32": np.dtype("<u4"),
    "U16": np.dtype("<u2"),
    "U8": np.dtype("u1"),
    "BOOL": np.dtype("?"),
}
_NAMES = {dtype: name for name, dtype in _DTYPES.items()}
_LENGTH_BYTES = 8
_ALIGNMENT = 8
_LARGEST_HEADER = 100_000_000  # the reference implementation's bound
_LARGEST_NUMBER = 2**63 - 1  # what numpy and a file's offsets can hold
_MOST_AXES = 64  # numpy's; with the bound above, no shape's product is too long to print


@dataclass(frozen=True)
class _Entry:
    """One tensor of the header: where its bytes lie and what they are."""

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    begin: int
    end: int


def parse(data: bytes, source: str = "safetensors") -> dict[str, NDArray[Any]]:
    """The tensors of ``data`` by name, each an array of its own (writable, aligned).

    Args:
        data: the whole file.
        source: how to call it in an error, say "adapter.safetensors".

    Raises:
        CorruptArtifactError: the file breaks the format in any way, or holds a dtype numpy lacks
            (BF16, F8).
    """
    header, body = _split(data, source)
    entries = [
        _entry(name, spec, source) for name, spec in header.items() if name != "__metadata__"
    ]
    _metadata(header, source)
    _check_tiling(entries, len(body), source)
    return {entry.name: _tensor(entry, body, source) for entry in entries}


def parse_metadata(data: bytes, source: str = "safetensors") -> dict[str, str]:
    """The ``__metadata__`` of ``data``; empty where there is none. Raises as :func:`parse`."""
    return _metadata(_split(data, source)[0], source)


def serialize(
    tensors: Mapping[str, NDArray[Any]], metadata: Mapping[str, str] | None = None
) -> bytes:
    """``tensors`` as one safetensors file; the same tensors give the same bytes.

    Wider dtypes come first, then names in order, so every tensor is aligned to its own size.

    Raises:
        InvalidInputError: a dtype the format lacks (complex, text, object), or the name
            ``__metadata__``, which the format reserves.
    """
    arrays = {name: _little_endian(name, array) for name, array in tensors.items()}
    header: dict[str, object] = {}
    if metadata:
        header["__metadata__"] = dict(sorted(metadata.items()))
    blobs: list[bytes] = []
    position = 0
    for name, array in sorted(arrays.items(), key=lambda item: (-item[1].itemsize, item[0])):
        header[name] = {
            "dtype": _NAMES[array.dtype],
            "shape": list(array.shape),
            "data_offsets": [position, position + array.nbytes],
        }
        blobs.append(array.tobytes())
        position += array.nbytes
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode("utf-8")
    text += b" " * (-len(text) % _ALIGNMENT)
    return b"".join([len(text).to_bytes(_LENGTH_BYTES, "little"), text, *blobs])


def _little_endian(name: str, array: NDArray[Any]) -> NDArray[Any]:
    if name == "__metadata__":
        raise InvalidInputError(
            'a tensor is named "__metadata__", which the safetensors format reserves; rename it'
        )
    dtype = array.dtype.newbyteorder("<")
    if dtype not in _NAMES:
        raise InvalidInputError(
            f"tensor {name!r} is {array.dtype}, which safetensors cannot hold; "
            f"convert it to one of {', '.join(_DTYPES)}"
        )
    return np.ascontiguousarray(array, dtype=dtype).reshape(array.shape)


def _split(data: bytes, source: str) -> tuple[dict[str, object], memoryview]:
    if len(data) < _LENGTH_BYTES:
        raise CorruptArtifactError(
            f"{source}: {len(data)} bytes found, at least {_LENGTH_BYTES} expected; "
            "the file is truncated"
        )
    length = int.from_bytes(data[:_LENGTH_BYTES], "little")
    if length > min(len(data) - _LENGTH_BYTES, _LARGEST_HEADER):
        raise CorruptArtifactError(
            f"{source}: the header claims {length} bytes, {len(data) - _LENGTH_BYTES} are there; "
            "the file is truncated or not a safetensors file"
        )
    text = data[_LENGTH_BYTES : _LENGTH_BYTES + length]
    return _header(text, source), memoryview(data)[_LENGTH_BYTES + length :]


def _header(text: bytes, source: str) -> dict[str, object]:
    def unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
        found = dict(pairs)
        if len(found) != len(pairs):
            raise ValueError("a key occurs twice")
        return found

    try:
        header = json.loads(text.decode("utf-8"), object_pairs_hook=unique)
    except (ValueError, RecursionError) as error:
        raise CorruptArtifactError(f"{source}: the header is not valid JSON: {error}") from error
    if not isinstance(header, dict):
        raise CorruptArtifactError(f"{source}: the header is not a JSON object")
    return header


def _metadata(header: Mapping[str, object], source: str) -> dict[str, str]:
    found = header.get("__metadata__", {})
    if not isinstance(found, dict) or not all(isinstance(v, str) for v in found.values()):
        raise CorruptArtifactError(
            f"{source}: __metadata__ must map text to text, found {reprlib.repr(found)}"
        )
    return found


def _entry(name: str, spec: object, source: str) -> _Entry:
    where = f"{source}: tensor {name!r}"
    if not isinstance(spec, dict) or set(spec) != {"dtype", "shape", "data_offsets"}:
        raise CorruptArtifactError(
            f"{where}: expected exactly dtype, shape and data_offsets, found {reprlib.repr(spec)}"
        )
    dtype = _DTYPES.get(spec["dtype"]) if isinstance(spec["dtype"], str) else None
    if dtype is None:
        raise CorruptArtifactError(
            f"{where}: dtype {reprlib.repr(spec['dtype'])}, expected one of {', '.join(_DTYPES)}"
        )
    shape = _naturals(spec["shape"], where, "shape")
    offsets = _naturals(spec["data_offsets"], where, "data_offsets")
    if len(offsets) != 2:
        raise CorruptArtifactError(f"{where}: data_offsets {offsets}, expected [begin, end]")
    wanted = math.prod(shape) * dtype.itemsize
    if offsets[1] - offsets[0] != wanted:
        raise CorruptArtifactError(
            f"{where}: data_offsets span {offsets[1] - offsets[0]} bytes, "
            f"dtype and shape {list(shape)} need {wanted}"
        )
    return _Entry(name, dtype, shape, *offsets)


def _naturals(value: object, where: str, field: str) -> tuple[int, ...]:
    # type() and not isinstance: JSON's true is a Python int.
    if (
        not isinstance(value, list)
        or len(value) > _MOST_AXES
        or any(type(item) is not int or not 0 <= item <= _LARGEST_NUMBER for item in value)
    ):
        raise CorruptArtifactError(
            f"{where}: {field} {reprlib.repr(value)}, expected a list of at most {_MOST_AXES} "
            f"integers from 0 to {_LARGEST_NUMBER}"
        )
    return tuple(value)


def _check_tiling(entries: list[_Entry], size: int, source: str) -> None:
    position = 0
    for entry in sorted(entries, key=lambda entry: (entry.begin, entry.end)):
        if entry.begin != position:
            raise CorruptArtifactError(
                f"{source}: tensor {entry.name!r} begins at {entry.begin}, expected {position}; "
                "tensors may neither overlap nor leave gaps"
            )
        position = entry.end
    if position != size:
        raise CorruptArtifactError(
            f"{source}: the tensors need {position} bytes, {size} are there; "
            "the file is truncated or was appended to"
        )


def _tensor(entry: _Entry, body: memoryview, source: str) -> NDArray[Any]:
    raw = body[entry.begin : entry.end]
    if entry.dtype == np.bool_ and np.frombuffer(raw, dtype=np.uint8).max(initial=0) > 1:
        raise CorruptArtifactError(
            f"{source}: tensor {entry.name!r} holds bytes other than 0 and 1"
        )
    try:
        return np.frombuffer(raw, dtype=entry.dtype).reshape(entry.shape).copy()
    except ValueError as error:  # more axes, or longer ones, than numpy can hold
        raise CorruptArtifactError(f"{source}: tensor {entry.name!r}: {error}") from error

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

import functools
import json
import math
import reprlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pocketquery.sdk.errors import CorruptArtifactError, InvalidInputError

if TYPE_CHECKING:
    from pocketquery.sdk.arrays import NDArray

__all__ = ["parse", "parse_metadata", "parse_whole", "serialize"]

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
_METADATA_PREFIX = b'{"__metadata__":{'
_LAYOUTS = 8
_LONGEST_LAYOUT = 65_536  # bytes of a header that is remembered


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    values = dict(pairs)
    if len(values) != len(pairs):
        raise ValueError("a key occurs twice")
    return values


_DECODER = json.JSONDecoder(object_pairs_hook=_unique)


class _Entry(NamedTuple):
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
    return parse_whole(data, source)[0]


def parse_whole(
    data: bytes, source: str = "safetensors", *, copy: bool = True
) -> tuple[dict[str, NDArray[Any]], dict[str, str]]:
    """Tensors and metadata of ``data``, its header read once. Raises as :func:`parse`.

    Args:
        data: the whole file.
        source: how to call it in an error.
        copy: False gives views into ``data``: read-only, maybe not aligned.
    """
    text, body = _split(data, source)
    parts = _apart(text, source)
    if parts is None:
        header = _header(text, source)
        metadata, entries = _metadata(header, source), _layout(header, len(body), source)
    else:
        metadata, entries = parts[0], _known_layout(parts[1], len(body), source)
    return {entry.name: _tensor(entry, body, source, copy) for entry in entries}, metadata


def parse_metadata(data: bytes, source: str = "safetensors") -> dict[str, str]:
    """The ``__metadata__`` of ``data``; empty where there is none. Raises as :func:`parse`."""
    return _metadata(_header(_split(data, source)[0], source), source)


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


def _split(data: bytes, source: str) -> tuple[bytes, memoryview]:
    """The header's text, and the tensors' bytes."""
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
    end = _LENGTH_BYTES + length
    return data[_LENGTH_BYTES:end], memoryview(data)[end:]


def _apart(text: bytes, source: str) -> tuple[dict[str, str], bytes] | None:
    """The metadata and a header without it, where ``text`` begins with metadata that end at the
    first brace, as most do; else None.

    Files of the same tensors share that second header, so it is read once for all of them.
    """
    end = text.find(b"}") + 1
    if (
        len(text) > _LONGEST_LAYOUT
        or not text.startswith(_METADATA_PREFIX)
        or text[end : end + 2] != b',"'
    ):
        return None
    try:
        metadata = _header(text[len(_METADATA_PREFIX) - 1 : end], source)
    except CorruptArtifactError:  # the brace may stand in a text, or the file is broken
        return None
    return _metadata({"__metadata__": metadata}, source), b"{" + text[end + 1 :]


@functools.lru_cache(_LAYOUTS)
def _known_layout(text: bytes, size: int, source: str) -> tuple[_Entry, ...]:
    """The layout that the header ``text`` describes, which has no metadata."""
    header = _header(text, source)
    if "__metadata__" in header:
        raise CorruptArtifactError(f"{source}: the header is not valid JSON: a key occurs twice")
    return _layout(header, size, source)


def _layout(header: Mapping[str, object], size: int, source: str) -> tuple[_Entry, ...]:
    """Where in ``size`` bytes each tensor lies."""
    entries = tuple(
        _entry(name, spec, source) for name, spec in header.items() if name != "__metadata__"
    )
    _check_tiling(entries, size, source)
    return entries


def _header(text: bytes, source: str) -> dict[str, object]:
    try:
        header = _DECODER.decode(text.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise CorruptArtifactError(f"{source}: the header is not valid JSON: {error}") from error
    if not isinstance(header, dict):
        raise CorruptArtifactError(f"{source}: the header is not a JSON object")
    return header


def _metadata(header: Mapping[str, object], source: str) -> dict[str, str]:
    metadata = header.get("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(v, str) for v in metadata.values()):
        raise CorruptArtifactError(
            f"{source}: __metadata__ must map text to text, found {reprlib.repr(metadata)}"
        )
    return metadata


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
    expected_bytes = math.prod(shape) * dtype.itemsize
    if offsets[1] - offsets[0] != expected_bytes:
        raise CorruptArtifactError(
            f"{where}: data_offsets span {offsets[1] - offsets[0]} bytes, "
            f"dtype and shape {list(shape)} need {expected_bytes}"
        )
    return _Entry(name, dtype, shape, *offsets)


def _naturals(value: object, where: str, field: str) -> tuple[int, ...]:
    # type() and not isinstance: JSON's true is a Python int.
    fits = isinstance(value, list) and len(value) <= _MOST_AXES
    for item in value if isinstance(value, list) and fits else ():
        fits &= type(item) is int and 0 <= item <= _LARGEST_NUMBER
    if not isinstance(value, list) or not fits:
        raise CorruptArtifactError(
            f"{where}: {field} {reprlib.repr(value)}, expected a list of at most {_MOST_AXES} "
            f"integers from 0 to {_LARGEST_NUMBER}"
        )
    return tuple(value)


def _check_tiling(entries: Sequence[_Entry], size: int, source: str) -> None:
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


def _tensor(entry: _Entry, body: memoryview, source: str, copy: bool) -> NDArray[Any]:
    raw = body[entry.begin : entry.end]
    if entry.dtype == np.bool_ and np.frombuffer(raw, dtype=np.uint8).max(initial=0) > 1:
        raise CorruptArtifactError(
            f"{source}: tensor {entry.name!r} holds bytes other than 0 and 1"
        )
    try:
        array = np.frombuffer(raw, dtype=entry.dtype).reshape(entry.shape)
    except ValueError as error:  # more axes, or longer ones, than numpy can hold
        raise CorruptArtifactError(f"{source}: tensor {entry.name!r}: {error}") from error
    return array.copy() if copy else array

"""The 8-bit product of a matrix and a vector, by onnxruntime's integer kernel.

numpy has no integer matrix product of its own speed (it falls back to plain loops), onnxruntime
has one for every CPU it knows, and the SDK carries it anyway. The graph is a single
``MatMulInteger``; it is small enough to write out as the few protobuf fields it is, which spares
the device the ``onnx`` package.

Which types and which order matter, on 100,000 x 384 (one thread, AVX512-VNNI): unsigned matrix by
signed vector 4.0 ms, unsigned by unsigned 16, signed by signed 17, vector first and the matrix
transposed 10 or more. Hence :func:`integer_product`'s types.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import onnxruntime

__all__ = ["integer_product", "SAFE_LIMIT"]

# Without VNNI, x86 adds two neighbouring products u8 * s8 in 16 bits and saturates:
# 2 * 255 * 64 = 32,640 is the largest that fits. Keep the vector within +-64 and no CPU does.
SAFE_LIMIT = 64

_UINT8, _INT8, _INT32 = 2, 3, 6  # onnx.TensorProto.DataType
_OPSET, _IR_VERSION = 10, 5  # the oldest with MatMulInteger, so that any onnxruntime reads it


def integer_product(matrix: NDArray[np.uint8], vector: NDArray[np.int8]) -> NDArray[np.int32]:
    """``matrix @ vector`` in 32-bit integers, exactly.

    Args:
        matrix: uint8 (n, d), C-contiguous; read in place, so it may be a memory-mapped file.
        vector: int8 (d,), every value within ±:data:`SAFE_LIMIT`.

    Returns:
        int32 (n,).
    """
    if not len(matrix):
        return np.zeros(0, np.int32)
    feeds = {"matrix": matrix, "vector": vector[:, None]}
    return cast("NDArray[np.int32]", _session().run(None, feeds)[0])[:, 0]


@lru_cache(maxsize=1)
def _session() -> onnxruntime.InferenceSession:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(
        _model(), sess_options=options, providers=["CPUExecutionProvider"]
    )


def _model() -> bytes:
    """The ONNX ModelProto: matrix uint8 (n, d), vector int8 (d, 1) -> product int32 (n, 1)."""
    node = (
        _field(1, b"matrix") + _field(1, b"vector") + _field(2, b"product")
        + _field(4, b"MatMulInteger")
    )  # fmt: skip
    graph = (
        _field(1, node)
        + _field(2, b"integer_product")
        + _field(11, _tensor(b"matrix", _UINT8, b"n", b"d"))
        + _field(11, _tensor(b"vector", _INT8, b"d", b"one"))
        + _field(12, _tensor(b"product", _INT32, b"n", b"one"))
    )
    opset = _field(1, b"") + _number(2, _OPSET)
    return _number(1, _IR_VERSION) + _field(7, graph) + _field(8, opset)


def _tensor(name: bytes, element_type: int, *axes: bytes) -> bytes:
    """A ValueInfoProto with symbolic axes."""
    shape = b"".join(_field(1, _field(2, axis)) for axis in axes)
    return _field(1, name) + _field(2, _field(1, _number(1, element_type) + _field(2, shape)))


def _field(number: int, payload: bytes) -> bytes:
    """A length-delimited protobuf field."""
    return _varint(number << 3 | 2) + _varint(len(payload)) + payload


def _number(number: int, value: int) -> bytes:
    """A varint protobuf field."""
    return _varint(number << 3) + _varint(value)


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])

"""Weights in 4 bits: half the bytes of int8, by onnxruntime's ``MatMulNBits``.

Thirty-two values of an output channel share a scale, stored as float16: the value that is farthest
from zero becomes -8 of it, the others whole multiples from -8 to 7. What was in 4 bits before in
blocks of 32, as in GGML's Q4_0, stays what it was to the bit. Activations become int8 block by
block, so that a vector depends on no other text.

Source: https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import onnx

from pocketquery.export.graph_editing import MICROSOFT, GraphEditor
from pocketquery.sdk.arrays import Floats, NDArray

__all__ = ["pack_blocks", "store_in_four_bits"]

_BLOCK = 32
_INT8_ACTIVATIONS = 4  # the operator's accuracy level


def store_in_four_bits(model: onnx.ModelProto, excluded: Collection[str] = ()) -> onnx.ModelProto:
    """A copy of the float graph ``model`` with the weights of its MatMuls in 4 bits.

    Args:
        model: the float graph.
        excluded: names of MatMuls that stay in float, as do those of a depth that is no multiple
            of 32.
    """
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    editor = GraphEditor(copy)
    for node in editor.nodes("MatMul"):
        if node.name in excluded or not editor.has_initialiser(node.input[1]):
            continue
        weights = editor.array(node.input[1])  # (depth, columns)
        depth, columns = weights.shape
        if depth % _BLOCK:
            continue
        codes, scales = pack_blocks(weights.T)
        name = node.input[1]
        half = editor.store(f"{name}.half", scales.astype(np.float16))
        inputs = [
            node.input[0],
            editor.store(f"{name}.codes", codes),
            editor.add("Cast", [half], f"{name}.scales", to=onnx.TensorProto.FLOAT),
        ]
        output = node.output[0]
        editor.graph.node.remove(node)
        editor.add(
            "MatMulNBits",
            inputs,
            output,
            domain=MICROSOFT,
            K=depth,
            N=columns,
            bits=4,
            block_size=_BLOCK,
            accuracy_level=_INT8_ACTIVATIONS,
        )
    return editor.finish()


def pack_blocks(rows: Floats) -> tuple[NDArray[np.uint8], Floats]:
    """Codes and scales of the rows' values.

    Args:
        rows: float32 (count, depth), the depth a multiple of 32.

    Returns:
        uint8 (count, depth / 32, 16), of two neighbouring values the first in the low nibble, and
        float32 (count, depth / 32) that float16 can hold: a value is (nibble - 8) times its scale.
    """
    blocks = rows.reshape(len(rows), -1, _BLOCK)
    farthest = np.take_along_axis(blocks, np.abs(blocks).argmax(axis=2)[:, :, None], axis=2)
    scales = (farthest / -8).astype(np.float16).astype(np.float32)
    codes = np.round(np.divide(blocks, scales, out=np.zeros_like(blocks), where=scales != 0)) + 8
    nibbles = np.clip(codes, 0, 15).astype(np.uint8)
    pairs: NDArray[np.uint8] = nibbles[:, :, 0::2] | nibbles[:, :, 1::2] << np.uint8(4)
    return pairs, scales[:, :, 0]

"""Weights in 4 bits in the file, in int8 when the graph runs: half the bytes, and int8's speed.

Thirty-two values of an output channel share a step: the farthest from zero becomes -8 of it. What
was in such blocks before, as in GGML's Q4_0, stays what it was. A session makes int8 of them once
(``Cast``, ``QuantizeLinear``, ``Transpose`` of constants, which onnxruntime folds): its product
with 4 bits, ``MatMulNBits``, takes three times as long. Scales and biases are in float16.

Source: https://onnx.ai/onnx/operators/onnx__QuantizeLinear.html
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import onnx

from pocketquery.export.graph_editing import GraphEditor
from pocketquery.sdk.arrays import Floats, NDArray

__all__ = ["BLOCK", "OPSET", "Blocks", "in_blocks", "round_to_blocks", "store_blocks"]

BLOCK = 32
OPSET = 21  # the first with 4 bits, and steps of blocks
_IR_VERSION = 10  # likewise
_LARGEST_STEP = 60_000.0  # that float16 holds; its block is all but zero


class Blocks(NamedTuple):
    """Of output channels: codes (rows, blocks, 32), -8 to 7, and steps (rows, blocks) they take."""

    codes: NDArray[np.int8]
    steps: Floats


def in_blocks(rows: Floats) -> Blocks:
    """The nearest blocks to ``rows``, float32 (rows, depth), the depth a multiple of 32."""
    blocks = rows.reshape(len(rows), -1, BLOCK)
    farthest = np.take_along_axis(blocks, np.abs(blocks).argmax(axis=2)[:, :, None], axis=2)
    steps = farthest / np.float32(-8)
    codes = np.round(np.divide(blocks, steps, out=np.zeros_like(blocks), where=steps != 0))
    return Blocks(np.clip(codes, -8, 7).astype(np.int8), steps[:, :, 0])


def round_to_blocks(model: onnx.ModelProto, excluded: Collection[str] = ()) -> dict[str, Blocks]:
    """Round, in place, float MatMuls' weights of whole blocks to what 4 bits hold; by name."""
    editor = GraphEditor(model)
    found: dict[str, Blocks] = {}
    for node in editor.nodes("MatMul"):
        name = node.input[1]
        if node.name in excluded or name in found or not editor.has_initialiser(name):
            continue
        weights = editor.array(name)  # (depth, columns)
        if len(weights) % BLOCK == 0:
            found[name] = blocks = in_blocks(weights.T)
            rounded = blocks.codes * blocks.steps[:, :, None]
            editor.store(name, rounded.reshape(weights.T.shape).T)
    return found


def store_blocks(
    model: onnx.ModelProto, blocks: Mapping[str, Blocks], joined: Mapping[tuple[str, ...], str]
) -> onnx.ModelProto:
    """Put 4 bits in the place of ``fuse_products``' int8, in place: blocks by the name that weights
    had in float, ``joined`` as that function fills it."""
    from onnxruntime.quantization.quant_utils import TENSOR_NAME_QUANT_SUFFIX

    editor = GraphEditor(model)
    parts = {together: names for names, together in joined.items()}
    unpacked: dict[str, str] = {}  # layers with equal weights share them
    for node in editor.nodes("DynamicQuantizeMatMul"):
        name = node.input[1]
        names = [one.removesuffix(TENSOR_NAME_QUANT_SUFFIX) for one in parts.get(name, (name,))]
        if not all(one in blocks for one in names):
            continue
        if name not in unpacked:
            each = (np.concatenate(x) for x in zip(*(blocks[n] for n in names), strict=True))
            scales = editor.array(node.input[2])[:, None]
            unpacked[name] = _unpack(editor, f"weights.{len(unpacked)}", Blocks(*each), scales)
        node.input[1] = unpacked[name]
        _store_half(editor, node)
        smoothed = editor.producer(node.input[0])
        if smoothed is not None and smoothed.op_type == "Mul":
            _store_half(editor, smoothed)
    model.ir_version = max(model.ir_version, _IR_VERSION)
    return editor.finish()


def _unpack(editor: GraphEditor, name: str, blocks: Blocks, scales: Floats) -> str:
    """The int8 matrix (depth, columns): a code times its step, over the column's scale."""
    codes, steps = blocks
    divisors = np.divide(scales, steps, out=np.ones_like(steps), where=steps != 0)
    divisors = np.clip(divisors, -_LARGEST_STEP, _LARGEST_STEP).astype(np.float16)
    four = codes.reshape(len(codes), -1).astype(ml_dtypes.int4)
    stored = [editor.store(f"{name}.codes", four), editor.store(f"{name}.steps", divisors)]
    inputs = [editor.add("Cast", [one], f"{one}.float", to=1) for one in stored]
    how = {"axis": 1, "block_size": BLOCK, "output_dtype": onnx.TensorProto.INT8}
    rows = editor.add("QuantizeLinear", inputs, f"{name}.rows", **how)
    return editor.add("Transpose", [rows], f"{name}.int8", perm=[1, 0])


def _store_half(editor: GraphEditor, node: Any) -> None:
    """Store what is float32 among a node's inputs in float16, where that is near enough."""
    for place, name in enumerate(node.input):
        array = editor.array(name) if editor.has_initialiser(name) else np.array(0)
        half = array.astype(np.float16)
        if array.dtype == np.float32 and np.allclose(half, array, rtol=1e-3, atol=1e-6):
            stored = editor.store(f"{name}.half", half)
            node.input[place] = editor.add("Cast", [stored], f"{name}.float", to=1)

"""Dynamic int8: weights and vocabulary table as integers in the file, activations at run time.

Per output channel, 7-bit weights: two neighbouring products of 8-bit values can overflow the 16-bit
sums of processors without VNNI instructions, and 7-bit weights cannot, so that one file gives the
same vectors everywhere. Static scales and per-tensor weights were measured and lose far more.
"""

from __future__ import annotations

import tempfile
from collections.abc import Collection
from pathlib import Path

import onnx

from pocketquery.export.graph_editing import GraphEditor
from pocketquery.export.quantization.four_bit import round_to_blocks, store_blocks
from pocketquery.export.quantization.fusing import fuse_products
from pocketquery.export.settings import QuantizationOptions

__all__ = ["quantizable_matmuls", "quantize"]


def quantizable_matmuls(model: onnx.ModelProto) -> list[str]:
    """Names of the MatMuls with a stored weight, in graph order."""
    editor = GraphEditor(model)
    return [n.name for n in editor.nodes("MatMul") if editor.has_initialiser(n.input[1])]


def quantize(
    model: onnx.ModelProto,
    options: QuantizationOptions = QuantizationOptions(),
    *,
    excluded: Collection[str] = (),
) -> onnx.ModelProto:
    """An int8 copy of the float graph ``model``; the adapter's inputs stay float and overridable.
    ``excluded`` names MatMuls that stay in float; smoothing is done before.
    """
    from onnxruntime.quantization import QuantType, quantize_dynamic

    with tempfile.TemporaryDirectory(prefix="pocketquery-") as folder:
        path = Path(folder) / "int8.onnx"
        copy = onnx.ModelProto()
        copy.CopyFrom(model)
        blocks = round_to_blocks(copy, excluded) if options.four_bit else {}
        # onnxruntime's mark of a prepared graph; without it every call logs an advice.
        onnx.helper.set_model_props(copy, {"onnx.quant.pre_process": "onnxruntime.quant"})
        quantize_dynamic(
            copy,
            path,
            op_types_to_quantize=["MatMul", "Gather"],
            nodes_to_exclude=list(excluded),
            per_channel=True,
            reduce_range=options.seven_bit,
            weight_type=QuantType.QInt8,
            extra_options={"DefaultTensorType": onnx.TensorProto.FLOAT},
        )
        quantized: onnx.ModelProto = onnx.load(path)
    del quantized.metadata_props[:]
    joined: dict[tuple[str, ...], str] = {}
    fused = fuse_products(quantized, joined)
    return store_blocks(fused, blocks, joined) if blocks else fused

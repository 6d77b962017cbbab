"""Fuse integer products in the file, as a session would otherwise do at each start.

``onnxruntime.quantization`` writes six nodes for a product, for which onnxruntime has one kernel,
``DynamicQuantizeMatMul``. Products that read the same activations (query, key and value) become
one, whose result is split: so the codes have one reader, which is what the kernel takes. Every
vector stays the same to the bit.

Source: https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx

from pocketquery.export.graph_editing import MICROSOFT, GraphEditor

__all__ = ["fuse_products"]

_ZERO_POINTS = 3  # of the kernel's inputs


@dataclass(frozen=True)
class _Product:
    """Names of its tensors.

    Attributes:
        activations: float; their codes are ``codes``.
        stored: the weights (depth, columns) int8, and for every column scales, zero points and,
            unless it has none, a bias.
        output: float, with the bias.
    """

    activations: str
    codes: str
    stored: tuple[str, ...]
    output: str


def fuse_products(
    model: onnx.ModelProto, joined: dict[tuple[str, ...], str] | None = None
) -> onnx.ModelProto:
    """Fuse, in place, the integer products of ``model`` as ``quantize_dynamic`` writes them.

    Products that read the same activations stay as they are where one has a bias and one has none.
    ``joined`` is filled: names of tensors that now lie side by side, and the name of all.
    """
    editor = GraphEditor(model)
    together: dict[str, list[_Product]] = defaultdict(list)
    for node in editor.nodes("MatMulInteger"):
        product = _read(editor, node)
        together[product.codes].append(product)
    joined = {} if joined is None else joined  # layers with equal weights share them
    for products in together.values():
        if len({len(product.stored) for product in products}) == 1:
            _fuse(editor, products, joined)
    return editor.finish()


def _read(editor: GraphEditor, node: Any) -> _Product:
    codes, weights, _, zero_points = node.input
    (cast,) = editor.consumers(node.output[0])
    (scaled,) = editor.consumers(cast.output[0])
    (both,) = (name for name in scaled.input if name != cast.output[0])
    quantizer, factors = editor.producer(codes), editor.producer(both)
    assert quantizer is not None  # no product is written without
    assert factors is not None
    (scales,) = filter(editor.has_initialiser, factors.input)
    stored: tuple[str, ...] = (weights, scales, zero_points)
    output = scaled.output[0]
    consumers = editor.consumers(output)
    if len(consumers) == 1 and consumers[0].op_type == "Add":
        for bias in filter(editor.has_initialiser, consumers[0].input):
            if editor.array(bias).shape == editor.array(stored[1]).shape:
                stored, output = (*stored, bias), consumers[0].output[0]
    return _Product(quantizer.input[0], codes, stored, output)


def _fuse(
    editor: GraphEditor, products: Sequence[_Product], joined: dict[tuple[str, ...], str]
) -> None:
    columns = list(zip(*(product.stored for product in products), strict=True))
    inputs = [products[0].activations, *(_join(editor, names, joined) for names in columns)]
    if not editor.array(inputs[_ZERO_POINTS]).any():
        inputs[_ZERO_POINTS] = ""  # which is what the kernel takes for zeros
    outputs = [product.output for product in products]
    output = outputs[0] if len(outputs) == 1 else f"{products[0].codes}.products"
    editor.add("DynamicQuantizeMatMul", inputs, output, domain=MICROSOFT)
    if len(outputs) > 1:
        widths = np.array([editor.array(name).shape[1] for name in columns[0]], np.int64)
        sizes = editor.store(f"{output}.widths", widths)
        editor.add("Split", [output, sizes], outputs[0], further_outputs=outputs[1:], axis=-1)


def _join(editor: GraphEditor, names: tuple[str, ...], joined: dict[tuple[str, ...], str]) -> str:
    """The tensors ``names`` beside one another."""
    if len(names) == 1:
        return names[0]
    if names not in joined:
        together = np.concatenate([editor.array(name) for name in names], axis=-1)
        joined[names] = editor.store(f"{names[0]}.joined", together)
    return joined[names]

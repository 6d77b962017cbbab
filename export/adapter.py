"""Low-rank adapters as overridable graph inputs: the small float part that rounds may change.

A projection ``y = x W^T + b`` becomes ``y = x W^T + b + (x down^T) up^T`` with ``down``
(rank, d_in) and ``up`` (d_out, rank), as in "LoRA: Low-Rank Adaptation of Large Language Models",
section 4.1, with the scale alpha/rank folded into ``up``. The tensors are graph inputs with
default values: a plain call needs token ids and mask only, and feeding others swaps the adapter in
a running session. ``up`` is zero by default, so the default output is the plain model's; ``down``
is random, because with both at zero no gradient would ever reach either.

``down`` may be fixed: a constant of the graph instead of an input, so that ``up`` alone is trained
and travels, within the subspace that the random ``down`` spans (Li et al., "Measuring the Intrinsic
Dimension of Objective Landscapes", ICLR 2018). A release is then half as large.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np
import onnx

from pocketquery.export.graph_editing import MICROSOFT, GraphEditor
from pocketquery.export.settings import GraphOptions
from pocketquery.sdk.arrays import Floats

__all__ = ["ADAPTER_PREFIX", "adapter_tensors", "add_adapter", "add_low_rank_path", "fixed_tensors"]

ADAPTER_PREFIX = "adapter."


def add_adapter(
    editor: GraphEditor, rank: int, rng: np.random.Generator, options: GraphOptions
) -> None:
    """Add adapters to the query and value projection of every attention layer, or of the last.

    Their names are ``adapter.layers.<i>.query.down``, ``...query.up`` and the same for ``value``.

    Args:
        editor: over a graph made by :func:`pocketquery.export.trunk.export_trunk`.
        rank: rank of the update, 1 or more.
        rng: draws the ``down`` tensors.
        options: which of them are constants instead of inputs, and how many layers have one.
    """
    layers = options.adapter_layers
    every = list(enumerate(editor.nodes("MultiHeadAttention")))
    for layer, attention in every[-layers if layers else 0 :]:
        for position, part in ((0, "query"), (2, "value")):
            name = f"layers.{layer}.{part}"
            attention.input[position] = add_low_rank_path(
                editor, attention.input[position], name, rank, rng, fixed_down=options.fixed_down
            )


def add_low_rank_path(
    editor: GraphEditor,
    projected: str,
    name: str,
    rank: int,
    rng: np.random.Generator,
    *,
    fixed_down: bool = False,
) -> str:
    """Add ``(x down^T) up^T`` to ``projected``, the output of MatMul + Add; the sum's name."""
    bias_add = editor.producer(projected)
    assert bias_add is not None, projected
    matmul = next(
        node
        for node in map(editor.producer, bias_add.input)
        if node is not None and node.op_type == "MatMul"
    )
    source, weight = matmul.input
    d_in, d_out = editor.array(weight).shape
    prefix = ADAPTER_PREFIX + name
    # Half precision halves the release file; rounding here keeps file and graph equal to the bit.
    down = rng.normal(0.0, d_in**-0.5, (rank, d_in)).astype(np.float16).astype(np.float32)
    store = editor.store if fixed_down else partial(_add_input, editor)
    down_name = store(f"{prefix}.down", down)
    up_name = _add_input(editor, f"{prefix}.up", np.zeros((d_out, rank), np.float32))
    narrow = _matmul_transposed(editor, source, down_name, f"{prefix}.narrow")  # (..., rank)
    change = _matmul_transposed(editor, narrow, up_name, f"{prefix}.change")  # (..., d_out)
    return editor.add("Add", [projected, change], f"{name}.adapted")


def adapter_tensors(model: onnx.ModelProto) -> Mapping[str, Floats]:
    """The default values of the adapter's inputs by name, float32, in graph order."""
    editor = GraphEditor(model)
    return {
        value.name: editor.array(value.name).astype(np.float32)
        for value in model.graph.input
        if value.name.startswith(ADAPTER_PREFIX)
    }


def fixed_tensors(model: onnx.ModelProto) -> Mapping[str, Floats]:
    """The low-rank tensors that are constants of the graph, float32; empty where all are inputs."""
    editor, inputs = GraphEditor(model), {value.name for value in model.graph.input}
    return {
        tensor.name: editor.array(tensor.name).astype(np.float32)
        for tensor in model.graph.initializer
        if tensor.name.startswith(ADAPTER_PREFIX) and tensor.name not in inputs
    }


def _add_input(editor: GraphEditor, name: str, default: Floats) -> str:
    """An initialiser that is also a graph input may be overridden by a call (ONNX, IR 4 on)."""
    value = onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, default.shape)
    editor.graph.input.append(value)
    return editor.store(name, default)


def _matmul_transposed(editor: GraphEditor, left: str, right: str, output: str) -> str:
    return editor.add("FusedMatMul", [left, right], output, domain=MICROSOFT, transB=1)

"""The frozen weights inside the step's graph: int8 in the file and in memory, float32 in passing.

The step is traced with its frozen tensors as inputs; here they become constants. A matrix gets one
``DequantizeLinear`` for each use, so that its float32 form lives no longer than the product that
needs it. onnxruntime folds constants when it loads a graph, but not ``DequantizeLinear``; written
as ``Cast`` and ``Mul`` the weights would lie in memory four times as large.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import onnx

from pocketquery.export.training_tensors import StepTensors

__all__ = ["FROZEN", "store_frozen", "traced_frozen"]

FROZEN = "frozen."

Arrays = dict[str, npt.NDArray[np.generic]]


def traced_frozen(tensors: StepTensors) -> Arrays:
    """The frozen tensors as the step is traced with them: float32, but tables in 8 bits."""
    given: Arrays = {**tensors.frozen_values()}
    for name in tensors.tables:
        del given[name]
        given |= {f"{name}.rows": tensors.rows[name], f"{name}.scales": tensors.scales[name]}
    return {FROZEN + name: value for name, value in given.items()}


def store_frozen(model: onnx.ModelProto, tensors: StepTensors) -> None:
    """Turn the inputs ``frozen.*`` of ``model`` into constants, in place."""
    graph = model.graph
    given = traced_frozen(tensors)
    matrices = {FROZEN + name for name in tensors.rows if name not in tensors.tables}
    for name in sorted(given.keys() - matrices):
        _add(graph, name, given[name])
    for name in sorted(matrices):
        stored = name.removeprefix(FROZEN)
        _add(graph, f"{name}.rows", tensors.rows[stored])
        _add(graph, f"{name}.scales", tensors.scales[stored][:, 0])
    _dequantise_at_each_use(graph, matrices)
    inputs = [value for value in graph.input if not value.name.startswith(FROZEN)]
    del graph.input[:]
    graph.input.extend(inputs)


def _dequantise_at_each_use(graph: onnx.GraphProto, matrices: set[str]) -> None:
    nodes: list[onnx.NodeProto] = []
    for node in graph.node:
        for position, name in enumerate(node.input):
            if name in matrices:
                value = f"{name}.{len(nodes)}"
                nodes.append(
                    onnx.helper.make_node(
                        "DequantizeLinear",
                        [f"{name}.rows", f"{name}.scales"],
                        [value],
                        name=value,
                        axis=0,
                    )
                )
                node.input[position] = value
        nodes.append(node)
    del graph.node[:]
    graph.node.extend(nodes)


def _add(graph: onnx.GraphProto, name: str, value: npt.NDArray[np.generic]) -> None:
    graph.initializer.append(onnx.numpy_helper.from_array(np.ascontiguousarray(value), name))

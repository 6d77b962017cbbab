"""The frozen weights inside the step's graph: int8 in the file.

The step is traced with its frozen tensors as inputs; here they become constants. The vocabulary
table, most of a light encoder, stays int8 in memory too: only the rows of a batch become float32.
The layers' matrices are ``Cast`` and scaled, which onnxruntime folds when it loads the graph, so
that it can lay them out for its products once. With ``DequantizeLinear``, which it does not fold,
they would stay int8: measured on 3x384, 193 MB at the peak instead of 240, but 8 % slower, and
memory is far below torch's either way.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import onnx

from pocketquery.export.training_step.tensors import StepTensors

__all__ = ["FROZEN", "Arrays", "store_frozen", "traced_frozen"]

FROZEN = "frozen."

Arrays = dict[str, npt.NDArray[np.generic]]


def traced_frozen(tensors: StepTensors) -> Arrays:
    """The frozen tensors as the step is traced with them: float32, but tables in 8 bits."""
    initializers: Arrays = {**tensors.frozen_values()}
    for name in tensors.tables:
        del initializers[name]
        initializers |= {f"{name}.rows": tensors.rows[name], f"{name}.scales": tensors.scales[name]}
    initializers |= {f"{name}.codes": codes for name, codes in tensors.codes.items()}
    return {FROZEN + name: value for name, value in initializers.items()}


def store_frozen(model: onnx.ModelProto, tensors: StepTensors) -> None:
    """Turn the inputs ``frozen.*`` of ``model`` into constants, in place."""
    graph = model.graph
    initializers = traced_frozen(tensors)
    matrices = {FROZEN + name for name in tensors.rows if name not in tensors.tables}
    for name in sorted(initializers.keys() - matrices):
        _add(graph, name, initializers[name])
    for name in sorted(matrices):
        stored = name.removeprefix(FROZEN)
        _add(graph, f"{name}.rows", tensors.rows[stored])
        _add(graph, f"{name}.scales", tensors.scales[stored])
    nodes = [node for name in sorted(matrices) for node in _dequantise(name)]
    nodes += graph.node
    del graph.node[:]
    graph.node.extend(nodes)
    inputs = [value for value in graph.input if not value.name.startswith(FROZEN)]
    del graph.input[:]
    graph.input.extend(inputs)


def _dequantise(name: str) -> list[onnx.NodeProto]:
    make, floats = onnx.helper.make_node, onnx.TensorProto.FLOAT
    cast = make("Cast", [f"{name}.rows"], [f"{name}.float"], f"{name}.cast", to=floats)
    scaled = make("Mul", [f"{name}.float", f"{name}.scales"], [name], f"{name}.scale")
    return [cast, scaled]


def _add(graph: onnx.GraphProto, name: str, value: npt.NDArray[np.generic]) -> None:
    graph.initializer.append(onnx.numpy_helper.from_array(np.ascontiguousarray(value), name))

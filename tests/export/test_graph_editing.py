from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from pocketquery.export.graph_editing import GraphEditor


def _model() -> onnx.ModelProto:
    """``y = relu(x + b)``, with a dead branch."""
    value = helper.make_tensor_value_info
    nodes = [
        helper.make_node("Add", ["x", "b"], ["s"], name="add"),
        helper.make_node("Relu", ["s"], ["y"], name="relu"),
        helper.make_node("Neg", ["dead_weight"], ["dead"], name="neg"),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [value("x", TensorProto.FLOAT, [2]), value("unused", TensorProto.FLOAT, [1])],
        [value("y", TensorProto.FLOAT, [2])],
        [
            numpy_helper.from_array(np.ones(2, np.float32), "b"),
            numpy_helper.from_array(np.ones(9, np.float32), "dead_weight"),
            numpy_helper.from_array(np.ones(1, np.float32), "unused"),
        ],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


def test_finish_drops_what_no_output_needs() -> None:
    model = GraphEditor(_model()).finish()
    assert [node.name for node in model.graph.node] == ["add", "relu"]
    assert [tensor.name for tensor in model.graph.initializer] == ["b"]
    assert [value.name for value in model.graph.input] == ["x"]


def test_finish_sorts_nodes_added_out_of_order() -> None:
    editor = GraphEditor(_model())
    relu = editor.nodes("Relu")[0]
    relu.input[0] = editor.add("Mul", ["s", editor.store("c", np.full(2, 3, np.float32))], "scaled")
    model = editor.finish()
    assert [node.op_type for node in model.graph.node] == ["Add", "Mul", "Relu"]
    onnx.checker.check_model(model)


def test_store_replaces_a_tensor_of_that_name() -> None:
    editor = GraphEditor(_model())
    editor.store("b", np.zeros(2, np.float32))
    assert editor.array("b").tolist() == [0, 0]
    assert sum(tensor.name == "b" for tensor in editor.graph.initializer) == 1


def test_a_scalar_stays_a_scalar() -> None:
    editor = GraphEditor(_model())
    assert editor.array(editor.store("zero", np.array(0))).shape == ()


def test_redirect_and_producer() -> None:
    editor = GraphEditor(_model())
    editor.redirect("s", "x")
    assert list(editor.nodes("Relu")[0].input) == ["x"]
    assert editor.producer("x") is None
    assert editor.producer("y").name == "relu"  # type: ignore[union-attr]

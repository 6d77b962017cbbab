"""The few edits of an ONNX graph that export needs: look up, splice, prune, keep in order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import numpy_helper

__all__ = ["MICROSOFT", "GraphEditor"]

MICROSOFT = "com.microsoft"
"""Domain of onnxruntime's own operators, present in every stock build (browsers included)."""

Array = npt.NDArray[Any]


class GraphEditor:
    """Edits ``model`` in place; call :meth:`finish` once at the end.

    Tensor names are the identity of values, as in ONNX itself. Nodes may be added in any order:
    :meth:`finish` drops what no output needs and sorts what is left.
    """

    def __init__(self, model: onnx.ModelProto) -> None:
        self.model = model
        self.graph = model.graph
        self._initialisers = {tensor.name: tensor for tensor in self.graph.initializer}

    def nodes(self, op_type: str) -> list[Any]:
        """Nodes of one operator, in graph order."""
        return [node for node in self.graph.node if node.op_type == op_type]

    def producer(self, tensor: str) -> Any | None:
        """The node that writes ``tensor``; None for inputs and initialisers."""
        return next((node for node in self.graph.node if tensor in node.output), None)

    def consumers(self, tensor: str) -> list[Any]:
        """The nodes that read ``tensor``, in graph order."""
        return [node for node in self.graph.node if tensor in node.input]

    def has_initialiser(self, name: str) -> bool:
        """Whether ``name`` is a stored tensor."""
        return name in self._initialisers

    def array(self, name: str) -> Array:
        """The stored tensor ``name`` as an array."""
        return np.asarray(numpy_helper.to_array(self._initialisers[name]))

    def store(self, name: str, array: Array) -> str:
        """Store ``array`` as the initialiser ``name``, replacing one of that name."""
        tensor = numpy_helper.from_array(np.array(array, order="C"), name)
        if name in self._initialisers:
            self._initialisers[name].CopyFrom(tensor)
        else:
            self.graph.initializer.append(tensor)
            self._initialisers[name] = self.graph.initializer[-1]
        return name

    def add(
        self,
        op_type: str,
        inputs: Sequence[str],
        output: str,
        *,
        domain: str = "",
        further_outputs: Sequence[str] = (),
        **attributes: Any,
    ) -> str:
        """Append a node named after its first ``output``, in the place of the one that wrote it
        before, if any, and return ``output``."""
        outputs = [output, *further_outputs]
        node = onnx.helper.make_node(
            op_type, list(inputs), outputs, name=output, domain=domain or None, **attributes
        )
        self.graph.node.append(node)
        return output

    def redirect(self, old: str, new: str) -> None:
        """Make all nodes read ``new`` where they read ``old``."""
        for node in self.graph.node:
            for position, name in enumerate(node.input):
                if name == old:
                    node.input[position] = new

    def finish(self) -> onnx.ModelProto:
        """Drop what no output needs, sort the nodes, declare the operator sets; the model."""
        ordered = self._reachable_in_order()
        del self.graph.node[:]
        self.graph.node.extend(ordered)
        used = {name for node in ordered for name in node.input}
        _keep(self.graph.initializer, lambda tensor: tensor.name in used)
        # An input with a default that nothing reads is dropped; one a caller must feed is not.
        _keep(
            self.graph.input,
            lambda value: value.name in used or value.name not in self._initialisers,
        )
        # Shapes recorded before the edits may be wrong now, and onnxruntime infers its own.
        del self.graph.value_info[:]
        if all(opset.domain != MICROSOFT for opset in self.model.opset_import):
            self.model.opset_import.append(onnx.helper.make_opsetid(MICROSOFT, 1))
        return self.model

    def _reachable_in_order(self) -> list[Any]:
        producers = {name: node for node in self.graph.node for name in node.output if name}
        ordered: list[Any] = []
        done: set[int] = set()
        stack = [(producers[output.name], False) for output in reversed(self.graph.output)]
        while stack:  # depth first, without recursion: a node follows everything it reads
            node, inputs_done = stack.pop()
            if id(node) in done:
                continue
            if inputs_done:
                done.add(id(node))
                ordered.append(node)
                continue
            stack.append((node, True))
            stack += [
                (producers[name], False) for name in reversed(node.input) if name in producers
            ]
        copies = [onnx.NodeProto() for _ in ordered]
        for copy, node in zip(copies, ordered, strict=True):
            copy.CopyFrom(node)
        return copies


def _keep(items: Any, predicate: Callable[[Any], bool]) -> None:
    retained = [item for item in items if predicate(item)]
    del items[:]
    items.extend(retained)

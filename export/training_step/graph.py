"""Tracing a training step, gradients and all, into one plain ONNX graph.

The recipe, in the order in which it works: the step is a flat pure function that takes its
gradients itself (``torch.func.grad`` would fix batch and length); ``make_fx`` over fake tensors
with symbolic sizes unrolls the backward pass into ordinary operators; ``torch.export`` takes the
result, and the dynamo exporter writes it. onnxscript's optimiser stays off: it takes ``x + 1e-8``
for ``x + 0``, which divides by zero in Adam; onnxruntime optimises at load anyway.

Some of these entry points of torch are private, so a release of torch may move them; the parity
gate says whether what comes out is still the step.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import onnx
import torch

from pocketquery.sdk.errors import MissingExtraError

__all__ = ["OPSET", "Slot", "trace_to_onnx"]

OPSET = 18

Function = Callable[[dict[str, torch.Tensor]], dict[str, torch.Tensor]]


@dataclass(frozen=True)
class Slot:
    """One input of the graph.

    Attributes:
        name: of the input.
        example: a tensor of its dtype and shape; axes that are named differ in length where
            their names differ.
        axes: a name for every axis that may vary, say ``"batch"`` or ``"2*batch"``; "" for fixed.
    """

    name: str
    example: torch.Tensor
    axes: tuple[str, ...]


def trace_to_onnx(function: Function, slots: Sequence[Slot]) -> onnx.ModelProto:
    """``function`` as an ONNX graph with the inputs ``slots`` and its results as outputs.

    Raises:
        MissingExtraError: onnxscript, which writes the graph, is not installed.
    """
    names: list[str] = []

    def flat(*tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        inputs = dict(zip((slot.name for slot in slots), tensors, strict=True))
        results = function(inputs)
        names[:] = list(results)
        return tuple(results.values())

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # notes of torch on its own internals
        traced = _trace(flat, slots)
        return _to_onnx(traced, slots, names)


def _trace(flat: Callable[..., Any], slots: Sequence[Slot]) -> torch.fx.GraphModule:
    from torch._decomp import core_aten_decompositions
    from torch.fx.experimental.proxy_tensor import make_fx

    mode, fakes = _fakes(slots)
    trace: Any = make_fx(
        flat,
        decomposition_table=dict(core_aten_decompositions()),
        tracing_mode="real",
        _allow_non_fake_inputs=True,
    )
    with mode:  # else arange and its like would be real tensors, of the example's length
        traced: torch.fx.GraphModule = trace(*fakes)
    return traced


def _fakes(slots: Sequence[Slot]) -> tuple[Any, list[torch.Tensor]]:
    """A fake mode, and the examples as tensors of it, with symbols for the axes that vary."""
    from torch._dynamo.source import ConstantSource
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.symbolic_shapes import (
        DimDynamic,
        ShapeEnv,
        StatelessSymbolicContext,
    )

    mode = FakeTensorMode(shape_env=ShapeEnv(duck_shape=False))
    fakes: list[torch.Tensor] = [
        mode.from_tensor(
            slot.example,
            source=ConstantSource(f"input_{number}"),
            symbolic_context=StatelessSymbolicContext(
                dynamic_sizes=[
                    DimDynamic.DYNAMIC if axis else DimDynamic.STATIC for axis in slot.axes
                ]
            ),
        )
        for number, slot in enumerate(slots)
    ]
    _tie(slots, fakes)
    return mode, fakes


def _tie(slots: Sequence[Slot], fakes: Sequence[torch.Tensor]) -> None:
    """Tell torch which axes are equal, or multiples of the batch: it cannot know."""
    check: Any = torch._check
    sizes: dict[str, Any] = {}
    pairs = [
        (axis, size)
        for slot, fake in zip(slots, fakes, strict=True)
        for axis, size in zip(slot.axes, fake.shape, strict=True)
        if axis
    ]
    for axis, size in sorted(pairs, key=lambda pair: "*" in pair[0]):  # the plain names first
        times, _, name = axis.rpartition("*")
        if name in sizes:
            check(size == sizes[name] * int(times or 1))
        sizes.setdefault(axis, size)


def _to_onnx(
    traced: torch.fx.GraphModule, slots: Sequence[Slot], names: Sequence[str]
) -> onnx.ModelProto:
    dims = {
        axis: torch.export.Dim(axis)
        for slot in slots
        for axis in slot.axes
        if axis and "*" not in axis
    }
    exported = torch.export.export(
        _Module(traced),
        tuple(slot.example for slot in slots),
        dynamic_shapes=(tuple(_dynamic(slot, dims) for slot in slots),),
        strict=False,
    )
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        program = torch.onnx.export(
            exported,
            input_names=[slot.name for slot in slots],
            output_names=list(names),
            dynamo=True,
            opset_version=OPSET,
            optimize=False,
            verbose=False,
        )
    except ImportError as error:
        raise MissingExtraError.of("onnxscript", "export") from error
    finally:
        logger.setLevel(level)
    assert program is not None
    model: onnx.ModelProto = program.model_proto
    _tidy(model, slots)
    return model


def _tidy(model: onnx.ModelProto, slots: Sequence[Slot]) -> None:
    """Take out what the exporter notes for its own sake (source lines, paths of this machine)."""
    graph = model.graph
    del graph.value_info[:], model.metadata_props[:], graph.metadata_props[:]
    for item in (*graph.node, *graph.input, *graph.output, *graph.initializer):
        del item.metadata_props[:]
        item.doc_string = ""
    for value, slot in zip(graph.input, slots, strict=True):
        for dim, axis in zip(value.type.tensor_type.shape.dim, slot.axes, strict=True):
            if axis:
                dim.dim_param = axis
    for value in graph.output:
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_param:
                dim.dim_param = ""  # a symbol of the trace, which says nothing to a reader


def _dynamic(slot: Slot, dims: dict[str, Any]) -> dict[int, Any]:
    shape = {}
    for position, axis in enumerate(slot.axes):
        if axis:
            times, _, name = axis.rpartition("*")
            shape[position] = int(times or 1) * dims[name]
    return shape


class _Module(torch.nn.Module):
    def __init__(self, traced: torch.fx.GraphModule) -> None:
        super().__init__()
        self.traced = traced

    def forward(self, *tensors: torch.Tensor) -> Any:
        return self.traced(*tensors)

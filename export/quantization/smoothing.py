"""Activation smoothing: move the difficulty of quantisation from activations into weights.

"SmoothQuant: Accurate and Efficient Post-Training Quantization for Large Language Models",
section 4: for ``Y = X W`` with per-channel factors ``s`` over the input channels,

    Y = (X / s) (s W),    s_j = max|X_j|^alpha / max|W_j|^(1 - alpha)

which is exact in float. A few input channels are far larger than the others, and int8 with one
scale for the whole activation tensor spends its range on them; dividing evens the channels out.

Here the division is a ``Mul`` by ``1 / s`` in front of the MatMul, one for all MatMuls that read
the same tensor (query, key and value). The paper folds it into the layer norm before; in a
post-norm encoder that norm also feeds the residual sum, so folding would not be exact. The adapters
read the tensor before the division and are not touched. What attention gives is left as it is: its
channels are means of values, even already (cosine to float .9991 with and without on a student of
two layers, .9975 on three, .9967 on the six of all-MiniLM-L6-v2), and a node less a layer is time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx

from pocketquery.export.graph_editing import GraphEditor
from pocketquery.export.sessions import GraphSession
from pocketquery.sdk.arrays import Floats

__all__ = ["activation_ranges", "smooth"]


_LEAST_MAGNITUDE = 1e-5  # of a tensor or a weight that is zero all over: its factor stays finite

# A channel counts as at least this share of the median channel that was active. Where it then wakes
# as large as that one, the tensor's range grows at most 4^.75 = 2.8 times. Least cosine to float of
# random encoders of two layers, most channels silent: none -.166 to .997, 0.1 to 0.5 .996 to .999.
_LEAST_SHARE = 0.25
_ACTIVE = 0.01  # of the mean range: channels below it do not count for the median


def activation_ranges(
    model: onnx.ModelProto, texts: Iterable[Sequence[int]]
) -> Mapping[str, Floats]:
    """The largest absolute value of each channel of each tensor a weight MatMul reads.

    Args:
        model: the float graph.
        texts: token ids of the calibration texts.

    Returns:
        Tensor name to float32 (channels,).
    """
    names = sorted(_readers(GraphEditor(model)))
    probe = onnx.ModelProto()
    probe.CopyFrom(model)
    del probe.graph.output[:]
    probe.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    session = GraphSession(probe)
    ranges: dict[str, Floats] = {}
    for ids in texts:
        for name, value in zip(names, session.outputs(ids), strict=True):
            largest = np.abs(value).reshape(-1, value.shape[-1]).max(axis=0)
            ranges[name] = np.maximum(ranges.get(name, largest), largest)
    return ranges


def smooth(
    model: onnx.ModelProto, ranges: Mapping[str, Floats], *, alpha: float = 0.75, block: int = 1
) -> onnx.ModelProto:
    """A smoothed copy of ``model``; equal to it in float up to rounding.

    Args:
        model: the float graph.
        ranges: from :func:`activation_ranges`.
        alpha: share of the difficulty moved into the weights, between 0 and 1; 0.75 was measured.
        block: channels that share a factor; their weights stay what 4 bits hold (``four_bit.py``).
    """
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    editor = GraphEditor(copy)
    readers = _readers(editor)
    shared = Counter(node.input[1] for matmuls in readers.values() for node in matmuls)
    for tensor, matmuls in readers.items():
        weights = np.concatenate([editor.array(node.input[1]) for node in matmuls], axis=1)
        channels = np.stack([ranges[tensor], np.abs(weights).max(axis=1)])
        size = block if channels.shape[1] % block == 0 else 1
        largest = channels.reshape(2, -1, size).max(axis=2)
        factors = np.repeat(_factors(largest[0], largest[1], alpha), size)
        name = f"smoothed.{matmuls[0].name.strip('/')}"
        divided = editor.add("Mul", [tensor, editor.store(f"{name}.factors", 1 / factors)], name)
        for node in matmuls:
            node.input[0] = divided
            weight = editor.array(node.input[1]) * factors[:, None]
            # Layers with equal weights share them; each has factors of its own.
            owner = node.input[1] if shared[node.input[1]] == 1 else node.name.strip("/")
            node.input[1] = editor.store(f"{owner}.smoothed", weight)
    return editor.finish()


def _factors(activations: Floats, weights: Floats, alpha: float) -> Floats:
    """The factors ``s`` (channels,) by the paper's equation 4, of channels no smaller than
    ``_LEAST_SHARE`` of the median active one: a plain median is zero where most are silent, and a
    mean follows single large channels."""
    active = activations[activations >= _ACTIVE * activations.mean()]
    activations = np.maximum(activations, _LEAST_SHARE * np.median(active))
    factors = np.maximum(activations, _LEAST_MAGNITUDE) ** alpha / np.maximum(
        weights, _LEAST_MAGNITUDE
    ) ** (1 - alpha)
    return np.asarray(np.maximum(factors, _LEAST_MAGNITUDE), np.float32)


def _readers(editor: GraphEditor) -> dict[str, list[Any]]:
    """Activation name to the MatMuls that multiply it with a stored weight, where they are
    smoothed."""
    readers: dict[str, list[Any]] = {}
    even = {node.output[0] for node in editor.nodes("MultiHeadAttention")}
    for node in editor.nodes("MatMul"):
        if editor.has_initialiser(node.input[1]) and node.input[0] not in even:
            readers.setdefault(node.input[0], []).append(node)
    return readers

"""The whole query encoder as one float32 graph: token ids to an L2-normalised vector.

``input_ids, attention_mask`` int64 (batch, length) -> ``sentence_embedding`` float32 (batch, dim):
the fused trunk, pooling, the optional alignment head, normalisation and, as graph inputs with
default values, the adapter.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from torch import nn

from pocketquery.distill.exportable import HEAD_ACTIVATIONS, check_exportable
from pocketquery.distill.pruning.product_codes import CENTROIDS, product_codes
from pocketquery.export.adapter import add_adapter, add_low_rank_path
from pocketquery.export.graph_editing import MICROSOFT, GraphEditor
from pocketquery.export.settings import GraphOptions
from pocketquery.export.trunk import STATES, export_trunk
from pocketquery.sdk.arrays import Floats
from pocketquery.sdk.bundle.adapter import LARGEST_RELEASE
from pocketquery.server.modeling import SentenceEncoder

__all__ = ["OUTPUT", "build_graph"]

OUTPUT = "sentence_embedding"


_RANK = 8
_DESCRIBED, _DESCRIBED_TENSOR = 3000, 120  # bytes of a release that are not values, at most


def build_graph(
    student: SentenceEncoder, options: GraphOptions = GraphOptions()
) -> onnx.ModelProto:
    """Build the float32 graph of ``student``; the same student and options give the same bytes.

    Raises:
        UnknownModelError: what ``check_exportable`` refuses.
        MissingExtraError: the packages of the extra "export" are not installed.
    """
    check_exportable(student)
    rng = np.random.default_rng(options.adapter_seed)
    editor = GraphEditor(export_trunk(student.backbone, opset=options.opset))
    write_product_codes(editor, student.backbone.config)
    rank = options.adapter_rank
    if rank is None:
        rank = _largest_rank(student, options)
    if rank:
        add_adapter(editor, rank, rng, options)
    pooled = _pool(editor, student.pooling, mean=student.head is not None)
    vector = _head(editor, pooled, student.head, rank, rng, fixed_down=options.fixed_down)
    _normalise(editor, vector)
    del editor.graph.output[:]
    shape = ["batch_size", student.dimension]
    editor.graph.output.append(
        onnx.helper.make_tensor_value_info(OUTPUT, onnx.TensorProto.FLOAT, shape)
    )
    model = editor.finish()
    model.graph.name = "pocketquery-encoder"
    onnx.checker.check_model(model)
    return model


def _largest_rank(student: SentenceEncoder, options: GraphOptions) -> int:
    """The default rank, or the largest below it whose release may travel."""
    layers, width = int(student.backbone.config.num_hidden_layers), student.hidden_size
    adapted = [(width, width)] * (2 * min(layers, options.adapter_layers or layers))
    head = [module for module in student.head or () if isinstance(module, nn.Linear)]
    adapted += [(module.in_features, module.out_features) for module in head]
    values = sum(d_out + (0 if options.fixed_down else d_in) for d_in, d_out in adapted)
    described = _DESCRIBED + _DESCRIBED_TENSOR * len(adapted) * (1 if options.fixed_down else 2)
    return max(1, min(_RANK, (LARGEST_RELEASE - described) // (2 * values)))  # float16


def _pool(editor: GraphEditor, pooling: str, *, mean: bool) -> str:
    """One vector of the states. Without ``mean`` it is their sum in the mean's place, which is as
    good where nothing but normalisation follows, and three nodes less."""
    if pooling == "cls":
        first = editor.store("pooling.first", np.array(0, np.int64))
        return editor.add("Gather", [STATES, first], "pooled", axis=1)  # (batch, width)
    one = editor.store("pooling.axis", np.array([1], np.int64))
    mask = editor.add("Cast", ["attention_mask"], "pooling.mask", to=onnx.TensorProto.FLOAT)
    row = editor.add("Unsqueeze", [mask, one], "pooling.row")  # (batch, 1, length)
    total = editor.add("MatMul", [row, STATES], "pooling.total")  # (batch, 1, width)
    total = editor.add("Squeeze", [total, one], "pooling.sum")  # (batch, width)
    if not mean:
        return total
    count = editor.add("ReduceSum", [mask, one], "pooling.count", keepdims=1)  # (batch, 1)
    least = editor.store("pooling.least", np.array(1.0, np.float32))
    count = editor.add("Max", [count, least], "pooling.divisor")
    return editor.add("Div", [total, count], "pooled")


def _head(
    editor: GraphEditor,
    vector: str,
    head: nn.Sequential | None,
    rank: int,
    rng: np.random.Generator,
    *,
    fixed_down: bool,
) -> str:
    """Append the alignment head; its j-th linear layer gets the adapter ``adapter.head.<j>``."""
    linear_layers = 0
    for index, module in enumerate(head or ()):
        if isinstance(module, nn.Linear):
            vector = _linear(editor, vector, module, f"head.{linear_layers}")
            if rank:
                name = f"head.{linear_layers}"
                vector = add_low_rank_path(editor, vector, name, rank, rng, fixed_down=fixed_down)
            linear_layers += 1
        elif type(module) in HEAD_ACTIVATIONS:
            operator = HEAD_ACTIVATIONS[type(module)]
            domain = MICROSOFT if operator == "Gelu" else ""
            vector = editor.add(operator, [vector], f"head.activation.{index}", domain=domain)
    return vector


def _linear(editor: GraphEditor, vector: str, module: nn.Linear, name: str) -> str:
    weight = module.weight.detach().cpu().float().numpy().T
    bias = np.zeros(module.out_features, np.float32)
    if module.bias is not None:
        bias = module.bias.detach().cpu().float().numpy()
    product = editor.add(
        "MatMul", [vector, editor.store(f"{name}.weight", weight)], f"{name}.matmul"
    )
    return editor.add("Add", [product, editor.store(f"{name}.bias", bias)], f"{name}.output")


def _normalise(editor: GraphEditor, vector: str) -> None:
    least = editor.store("norm.least", np.array(1e-12, np.float32))
    # ReduceL2 takes its axes as an attribute up to opset 17 and as an input from 18 on.
    opset = next(o.version for o in editor.model.opset_import if o.domain in ("", "ai.onnx"))
    if opset < 18:
        norm = editor.add("ReduceL2", [vector], "norm", axes=[-1], keepdims=1)
    else:
        axis = editor.store("norm.axis", np.array([-1], np.int64))
        norm = editor.add("ReduceL2", [vector, axis], "norm", keepdims=1)
    norm = editor.add("Max", [norm, least], "norm.divisor")
    editor.add("Div", [vector, norm], OUTPUT)


def write_product_codes(editor: GraphEditor, config: Any) -> None:
    """Replace the look-up in the word table, where ``config`` says that it is product-quantised.

    The first ``vocabulary_fine`` rows, where there are any, have codes of their own, of half as
    many dimensions each.
    """
    size = getattr(config, "vocabulary_subvector", None)
    fine = getattr(config, "vocabulary_fine", 0)
    if size is None:
        return
    (node,) = (n for n in editor.nodes("Gather") if n.input[0].endswith("word_embeddings.weight"))
    table, ids = editor.array(node.input[0]), node.input[1]
    if not fine:
        editor.redirect(node.output[0], _rows(editor, "word", table, size, ids))
        return
    first = editor.store("word.fine", np.array(fine, np.int64))
    last = editor.store("word.last_fine", np.array(fine - 1, np.int64))
    zero = editor.store("word.zero", np.array(0, np.int64))
    axis = editor.store("word.axis", np.array([-1], np.int64))
    low = editor.add("Min", [ids, last], "word.fine_ids")
    high = editor.add("Max", [editor.add("Sub", [ids, first], "word.apart"), zero], "word.ids")
    is_fine = editor.add("Less", [ids, first], "word.are_fine")
    is_fine = editor.add("Unsqueeze", [is_fine, axis], "word.rows_are_fine")
    rows = [
        _rows(editor, "word.fine", table[:fine], size // 2, low),
        _rows(editor, "word", table[fine:], size, high),
    ]
    editor.redirect(node.output[0], editor.add("Where", [is_fine, *rows], "word.chosen"))


def _rows(editor: GraphEditor, name: str, table: Floats, size: int, ids: str) -> str:
    codes, centroids = product_codes(table, size)
    offsets = np.arange(codes.shape[1], dtype=np.int32) * CENTROIDS
    # (batch, length, places), then of those (batch, length, places, size), then rows again
    looked_up = editor.add("Gather", [editor.store(f"{name}.codes", codes), ids], f"{name}.found")
    looked_up = editor.add("Cast", [looked_up], f"{name}.numbers", to=onnx.TensorProto.INT32)
    places = [looked_up, editor.store(f"{name}.offsets", offsets)]
    looked_up = editor.add("Add", places, f"{name}.places")
    looked_up = editor.add(
        "Gather", [editor.store(f"{name}.centroids", centroids), looked_up], f"{name}.parts"
    )
    shape = editor.store(f"{name}.shape", np.array([0, 0, codes.shape[1] * size], np.int64))
    return editor.add("Reshape", [looked_up, shape], f"{name}.rows")

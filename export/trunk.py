"""A Hugging Face encoder as an ONNX graph of fused operators: token ids in, token states out.

The graph is optimum's export (onnxruntime's optimiser recognises it; the dynamo exporter's it does
not), then onnxruntime's transformer optimiser. The fusions are chosen for int8 on a CPU, measured
on 3 layers of width 384 and 13 tokens, one thread:

* attention becomes ``MultiHeadAttention``, not ``Attention``: the query and value projections stay
  separate MatMuls, so a low-rank adapter can be added to their outputs (as integers they are
  joined and split again, ``quantization/fusing.py``);
* biases stay beside their MatMul, because onnxruntime folds them into its int8 MatMul;
* residual sums stay outside the layer norm (as ``Sum``, which onnxruntime does not fuse again):
  its ``SkipLayerNormalization`` takes 36 microseconds where ``Sum`` and ``LayerNormalization``
  together take 14;
* the length is asked for by one node where the exporter writes three: of a light encoder's time a
  tenth goes into nodes that compute next to nothing.
"""

from __future__ import annotations

import copy
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from torch import nn

from pocketquery.distill.exportable import ARCHITECTURES, check_backbone
from pocketquery.export.graph_editing import GraphEditor
from pocketquery.sdk.errors import MissingExtraError, UnknownModelError

__all__ = ["STATES", "export_trunk"]

STATES = "last_hidden_state"

_TOKEN_TYPES = "token_type_embeddings.weight"


def export_trunk(backbone: nn.Module, *, opset: int = 17) -> onnx.ModelProto:
    """Export ``backbone`` without its pooler.

    Args:
        backbone: a Hugging Face encoder, float32, of :data:`ARCHITECTURES`.
        opset: ONNX operator set, 17 or later.

    Returns:
        A model ``input_ids, attention_mask`` int64 (batch, length) to ``last_hidden_state``
        float32 (batch, length, width); both axes are dynamic, token types are all zero.

    Raises:
        UnknownModelError: an architecture whose graph is not supported.
        MissingExtraError: optimum is not installed.
    """
    config: Any = backbone.config
    check_backbone(config)
    with tempfile.TemporaryDirectory(prefix="pocketquery-") as folder:
        path = Path(folder) / "trunk.onnx"
        _export_with_optimum(_eager_copy(backbone), path, opset)
        editor = GraphEditor(_fuse(path, config))
    _set_token_types_to_zero(editor)
    _shorten_positions(editor)
    _move_attention_biases(editor)
    _keep_residuals_unfused(editor)
    model = editor.finish()
    _check(model, config)
    return model


def _eager_copy(backbone: nn.Module) -> nn.Module:
    """The same weights with the attention written out, which is what the optimiser recognises."""
    config: Any = copy.deepcopy(backbone.config)
    build: Any = type(backbone)._from_config  # type: ignore[attr-defined]
    # optimum traces with token types 0 and 1, of which only 0 stays in the graph.
    one_type = getattr(config, "type_vocab_size", None) == 1
    if one_type:
        config.type_vocab_size = 2
    eager: nn.Module = build(config, attn_implementation="eager")
    weights = {name: value.detach().cpu() for name, value in backbone.state_dict().items()}
    for name in [n for n in weights if one_type and n.endswith(_TOKEN_TYPES)]:
        weights[name] = weights[name].repeat(2, 1)
    missing, unexpected = eager.load_state_dict(weights, strict=False)
    strangers = [n for n in missing if not n.startswith("pooler.")] + list(unexpected)
    if strangers:
        raise UnknownModelError(
            f"the backbone's weights do not match its configuration: {strangers[0]} and "
            f"{len(strangers) - 1} more; save it with SentenceEncoder.save and load it again"
        )
    return eager.float().eval()


def _export_with_optimum(backbone: nn.Module, path: Path, opset: int) -> None:
    try:
        from optimum.exporters.onnx import export
        from optimum.exporters.tasks import TasksManager
    except ImportError as error:
        raise MissingExtraError(
            f"optimum-onnx cannot be imported ({error}); expected it beside transformers < 4.58: "
            f"{MissingExtraError.remedy('export')}"
        ) from error
    build = TasksManager.get_exporter_config_constructor(
        exporter="onnx", model=backbone, task="feature-extraction", library_name="transformers"
    )
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")  # the tracer's notes on Python values; parity is checked
        export(backbone, build(backbone.config), path, opset=opset)


def _fuse(path: Path, config: Any) -> onnx.ModelProto:
    # Not by optimum's ORTOptimizer, which cannot leave out a single fusion.
    from onnxruntime.transformers.fusion_options import FusionOptions
    from onnxruntime.transformers.optimizer import optimize_model

    options = FusionOptions("bert")
    options.use_multi_head_attention = True
    options.use_raw_attention_mask(True)  # any mask, not only padding on the right
    options.enable_embed_layer_norm = False
    options.enable_skip_layer_norm = False
    options.enable_bias_skip_layer_norm = False
    options.enable_bias_gelu = False
    fused = optimize_model(
        str(path),
        model_type="bert",
        num_heads=config.num_attention_heads,
        hidden_size=config.hidden_size,
        opt_level=0,  # levels above 0 run the session's optimiser, which it does anyway on loading
        optimization_options=options,
    )
    model: onnx.ModelProto = fused.model
    return model


def _set_token_types_to_zero(editor: GraphEditor) -> None:
    """Replace the look-up of token types by its row 0: queries are one segment."""
    for node in editor.nodes("Gather"):
        table = node.input[0]
        if table.endswith(_TOKEN_TYPES) and editor.has_initialiser(table):
            row = editor.array(table)[0].reshape(1, 1, -1)
            editor.redirect(node.output[0], editor.store("token_type_embedding", row))
    inputs = [value for value in editor.graph.input if value.name != "token_type_ids"]
    del editor.graph.input[:]
    editor.graph.input.extend(inputs)


def _shorten_positions(editor: GraphEditor) -> None:
    """Ask for the length by one node, where positions are the first so many of a stored row.

    Of positions that are counted over the ids, as RoBERTa's, nothing changes.
    """
    for node in editor.nodes("Gather"):
        numbers = editor.producer(node.input[1])
        if (
            node.input[0].endswith("position_embeddings.weight")
            and numbers is not None
            and numbers.op_type == "Slice"
            and _is_stored(editor, numbers.input[0])
        ):
            numbers.input[2] = editor.add("Shape", ["input_ids"], "length", start=1, end=2)


def _is_stored(editor: GraphEditor, tensor: str) -> bool:
    producer = editor.producer(tensor)
    return (
        producer.op_type == "Constant" if producer is not None else editor.has_initialiser(tensor)
    )


def _move_attention_biases(editor: GraphEditor) -> None:
    """Take the packed bias out of each ``MultiHeadAttention`` and add it after its MatMul."""
    for layer, node in enumerate(editor.nodes("MultiHeadAttention")):
        biases = np.split(editor.array(node.input[3]), 3)
        for position, (part, bias) in enumerate(
            zip(("query", "key", "value"), biases, strict=True)
        ):
            name = f"layers.{layer}.{part}"
            stored = editor.store(f"{name}.bias", bias)
            node.input[position] = editor.add(
                "Add", [node.input[position], stored], f"{name}.output"
            )
        node.input[3] = ""


def _keep_residuals_unfused(editor: GraphEditor) -> None:
    for node in editor.nodes("LayerNormalization"):
        before = editor.producer(node.input[0])
        if before is not None and before.op_type == "Add":
            before.op_type = "Sum"


def _check(model: onnx.ModelProto, config: Any) -> None:
    fused = sum(node.op_type == "MultiHeadAttention" for node in model.graph.node)
    if fused != config.num_hidden_layers:
        raise UnknownModelError(
            f'{fused} of the {config.num_hidden_layers} attention layers of this "'
            f'{config.model_type}" were recognised; relative positions and changed attention are '
            f"not supported. Use a plain {' or '.join(ARCHITECTURES)} encoder"
        )

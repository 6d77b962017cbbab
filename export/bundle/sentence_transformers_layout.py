"""The student as a sentence-transformers folder with ONNX files, for servers and notebooks.

``SentenceTransformer(path, backend="onnx", model_kwargs={"file_name": ...})`` loads them and does
pooling, head and normalisation itself, so these graphs end at the token states.
"""

from __future__ import annotations

from pathlib import Path

import onnx

from pocketquery.export.graph_editing import GraphEditor
from pocketquery.export.trunk import STATES
from pocketquery.server.modeling import SentenceEncoder

__all__ = ["FLOAT_FILE", "INT8_FILE", "write_onnx_files"]

FLOAT_FILE = "onnx/model.onnx"
INT8_FILE = "onnx/model_qint8_avx512_vnni.onnx"


def write_onnx_files(
    student: SentenceEncoder,
    float_model: onnx.ModelProto,
    int8_model: onnx.ModelProto,
    folder: Path | str,
) -> None:
    """Save ``student`` in ``folder`` with both graphs under ``onnx/``; one is replaced in one step.

    Raises:
        InvalidInputError: ``folder`` holds something that is not such a folder.
        OSError: the disk is full or the folder not writable.
    """
    models = {FLOAT_FILE: float_model, INT8_FILE: int8_model}
    files = {
        name: _states_only(model).SerializeToString(deterministic=True)
        for name, model in models.items()
    }
    student.save(folder, more=files)


def _states_only(model: onnx.ModelProto) -> onnx.ModelProto:
    """The graph up to the token states, its adapter fixed at the default values."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    editor = GraphEditor(copy)
    last_norm = editor.producer(STATES)
    assert last_norm is not None  # the last layer's norm writes the states
    shape = ["batch_size", "sequence_length", editor.array(last_norm.input[1]).size]
    del copy.graph.output[:]
    copy.graph.output.append(
        onnx.helper.make_tensor_value_info(STATES, onnx.TensorProto.FLOAT, shape)
    )
    required = [value for value in copy.graph.input if not editor.has_initialiser(value.name)]
    del copy.graph.input[:]
    copy.graph.input.extend(required)
    return editor.finish()

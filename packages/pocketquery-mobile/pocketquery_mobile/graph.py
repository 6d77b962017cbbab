"""The encoder that takes text: one ONNX file with the tokenizer in it, for apps without Python.

``text`` string (1,) to ``sentence_embedding`` float32 (1, dimension) and ``input_ids`` int64
(1, length). It needs the operators of onnxruntime-extensions, which an app registers with its
session. The file repeats the encoder's weights, so that it is all an app has to carry; what it is
is in its metadata. Its ids are the device's own tokenizer's for what was measured (`agreement.py`),
and the manifest says how many of which.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import onnx
import onnxruntime

from pocketquery.export.graph_editing import GraphEditor
from pocketquery.export.onnx_graph import OUTPUT
from pocketquery.sdk.arrays import Floats
from pocketquery.sdk.bundle.bundle import Bundle
from pocketquery.sdk.bundle.manifest import STRING_GRAPH_FILE, Manifest
from pocketquery.sdk.errors import CorruptArtifactError, InvalidInputError, MissingExtraError
from pocketquery.sdk.files import sha256_bytes
from pocketquery.server.modeling.tokenizer_file import TokenizerFile
from pocketquery_mobile.sentencepiece import add_sentencepiece
from pocketquery_mobile.wordpiece import EXTENSIONS, add_wordpiece, check_wordpiece

__all__ = ["StringGraph", "build_string_graph", "check_possible", "extensions_version"]


_FORMAT, _FORMAT_VERSION = "pocketquery-encoder-with-tokenizer", "1"


class StringGraph:
    """A session over the graph as an app has it: one thread, one text a call.

    Args:
        model: the bytes of ``encoder_with_tokenizer.onnx``.
        source: how to call the bundle in an error.

    Raises:
        MissingExtraError: onnxruntime-extensions is not installed.
        CorruptArtifactError: onnxruntime cannot load the graph.
    """

    def __init__(self, model: bytes, source: str = STRING_GRAPH_FILE) -> None:
        self._model = model
        self._session = _open(model, source)
        self.metadata: dict[str, str] = self._session.get_modelmeta().custom_metadata_map

    @classmethod
    def of_bundle(cls, bundle: Bundle) -> StringGraph:
        """The graph of a bundle, its hash checked.

        Raises:
            InvalidInputError: the bundle was exported without one.
            ArtifactNotFoundError, CorruptArtifactError: the file is missing or was changed.
            MissingExtraError: onnxruntime-extensions is not installed.
        """
        return cls(bundle.read(STRING_GRAPH_FILE), str(bundle.path))

    def encode(self, text: str, *, prompt: str | None = None) -> Floats:
        """The vector of one text; float32 (dimension,), of unit length.

        Args:
            text: without U+0000, where onnxruntime would end it.
            prompt: put before it instead of the graph's own.

        Raises:
            InvalidInputError: a prompt for a graph whose bundle has none.
        """
        feed = self._feed(text, prompt)
        vector: Floats = self._session.run([OUTPUT], feed)[0][0]
        return vector

    def ids(self, text: str, *, prompt: str | None = None) -> list[int]:
        """The token ids of one text; the encoder itself does not run."""
        feed = self._feed(text, prompt)
        ids: list[int] = self._tokenizer.run(None, feed)[0][0].tolist()
        return ids

    @cached_property
    def _tokenizer(self) -> onnxruntime.InferenceSession:
        # A session runs all it holds, whichever output is asked for.
        editor = GraphEditor(onnx.load_from_string(self._model))
        outputs = [value for value in editor.graph.output if value.name == "input_ids"]
        del editor.graph.output[:]
        editor.graph.output.extend(outputs)
        return _open(editor.finish().SerializeToString(), STRING_GRAPH_FILE)

    def _feed(self, text: str, prompt: str | None) -> dict[str, Any]:
        feed = {"text": np.array([text], dtype=object)}
        if prompt is not None and "prompt" in self.metadata:
            feed["prompt"] = np.array([prompt], dtype=object)
        elif prompt:
            raise InvalidInputError(
                f"found the prompt {prompt!r}, and the graph takes none: its bundle has no prompts"
            )
        return feed


def _open(model: bytes, source: str) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.log_severity_level = 4
    options.register_custom_ops_library(_extensions().get_library_path())
    try:
        return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime's exceptions share no base class
        raise CorruptArtifactError(
            f"{source}: onnxruntime cannot load {STRING_GRAPH_FILE}: {error}"
        ) from error


def build_string_graph(
    model: onnx.ModelProto, manifest: Manifest, file: TokenizerFile
) -> onnx.ModelProto:
    """Put the tokenizer in front of an encoder.

    Args:
        model: the int8 encoder; it is left as it is.
        manifest: of its bundle.
        file: its tokenizer.

    Raises:
        UnknownModelError: the tokenizer has a setting that the operators cannot follow.
    """
    encoder_sha256 = sha256_bytes(model.SerializeToString(deterministic=True))
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    editor = GraphEditor(copy)
    for name in ("input_ids", "attention_mask"):
        place = next(i for i, value in enumerate(copy.graph.input) if value.name == name)
        del copy.graph.input[place]
    string = onnx.TensorProto.STRING
    copy.graph.input.insert(0, onnx.helper.make_tensor_value_info("text", string, [1]))
    prompt = manifest.prompts.get(manifest.default_prompt_name or "", "")
    text = _prompted(editor, prompt) if manifest.prompts else "text"
    if file.kind == "wordpiece":
        ids = add_wordpiece(editor, text, file.data, manifest.max_length)
    else:
        ids = add_sentencepiece(editor, text, file.data, manifest.max_length, file.options)
    _feed_encoder(editor, ids)
    for domain, version in ((EXTENSIONS, 1), ("ai.onnx.ml", 2)):
        if all(known.domain != domain for known in copy.opset_import):
            copy.opset_import.append(onnx.helper.make_opsetid(domain, version))
    graph = editor.finish()
    graph.graph.name = "pocketquery-encoder-with-tokenizer"
    _describe(graph, manifest, encoder_sha256, prompt)
    onnx.checker.check_model(graph)
    return graph


def check_possible(file: TokenizerFile) -> None:
    """Find out, before an export begins, that its text graph could not be made.

    Raises:
        UnknownModelError: the tokenizer has a setting that the operators cannot follow.
        MissingExtraError: onnxruntime-extensions, which checks the graph, is not installed.
    """
    extensions_version()
    if file.kind == "wordpiece":
        check_wordpiece(file.data)


def extensions_version() -> str:
    """The installed version of onnxruntime-extensions.

    Raises:
        MissingExtraError: it is not installed.
    """
    return str(_extensions().__version__)


def _extensions() -> Any:
    try:
        import onnxruntime_extensions
    except ImportError as error:
        folder = "./packages/pocketquery-mobile"
        raise MissingExtraError.of("onnxruntime-extensions", folder) from error
    return onnxruntime_extensions


def _prompted(editor: GraphEditor, prompt: str) -> str:
    """Append what puts the prompt before the text; it is an input with a default."""
    value = onnx.helper.make_tensor_value_info("prompt", onnx.TensorProto.STRING, [1])
    editor.graph.input.append(value)
    editor.store("prompt", np.array([prompt], dtype=object))
    both = editor.add("Concat", ["prompt", "text"], "tokenizer.both", axis=0)
    nothing = editor.store("tokenizer.between", np.array([""], dtype=object))
    axis = editor.store("tokenizer.both.axis", np.array([0], np.int64))
    return editor.add("StringJoin", [both, nothing, axis], "tokenizer.prompted", domain=EXTENSIONS)


def _feed_encoder(editor: GraphEditor, ids: str) -> None:
    """Append the inputs the encoder had: a batch of one, nothing masked."""
    axis = editor.store("tokenizer.batch", np.array([0], np.int64))
    editor.add("Unsqueeze", [ids, axis], "input_ids")
    shape = editor.add("Shape", ["input_ids"], "tokenizer.shape")
    one = onnx.helper.make_tensor("one", onnx.TensorProto.INT64, [1], [1])
    editor.add("ConstantOfShape", [shape], "attention_mask", value=one)
    editor.graph.output.append(
        onnx.helper.make_tensor_value_info("input_ids", onnx.TensorProto.INT64, [1, "length"])
    )


def _describe(graph: onnx.ModelProto, manifest: Manifest, encoder_sha256: str, prompt: str) -> None:
    """Metadata, so that the file by itself says which encoder it is, and of which space."""
    metadata = {
        "format": _FORMAT,
        "format_version": _FORMAT_VERSION,
        "name": manifest.name,
        "encoder_version": manifest.encoder_version,
        "space_id": manifest.space.id,
        "dimension": str(manifest.space.dimension),
        "max_length": str(manifest.max_length),
        "encoder_sha256": encoder_sha256,
        "license": manifest.license,
    }
    if manifest.prompts:
        metadata["prompt"] = prompt
    onnx.helper.set_model_props(graph, metadata)

"""A real bundle and a real index, small enough to build in a test.

Sixteen dimensions, a real WordPiece vocabulary of letters and some words, and a real ONNX graph:
embedding, one linear layer with a low-rank adapter (inputs with default values, as the exporter
makes them), masked mean, L2 normalisation. ``reference_vector`` computes the same in numpy, and the
golden ids come from the package ``tokenizers``, so neither checks itself.

``python -m tests.sdk.tiny_bundle FOLDER`` writes one.
"""

from __future__ import annotations

import json
import string
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from pocketquery.sdk.bundle.manifest import (
    ADAPTER_FILE,
    ENCODER_FILE,
    GOLDEN_FILE,
    Manifest,
    Space,
    TokenizerSpec,
)
from pocketquery.sdk.bundle.safetensors import serialize
from pocketquery.sdk.bundle.writing import file_entries, write_bundle
from pocketquery.sdk.index.builder import create_index
from pocketquery.sdk.index.documents import Document, content
from pocketquery.sdk.tokenizers.tokenizer import open_tokenizer

COMMITTED = Path(__file__).parents[2] / "conformance" / "encoder" / "tiny"
PRIVATE = bytes(range(32))
PUBLIC = bytes.fromhex("03a107bff3ce10be1d70dd18e74bc09967e4d6309ba50d5f1ddc8664125531b8")
"""Of :data:`PRIVATE`; written down, so that only who signs needs the extra for it."""

DIMENSION = 16
MAX_LENGTH = 24
RANK = 2
SPACE_ID = "space-" + "0123456789abcdef" * 2
PROMPTS = {"query": "query: ", "document": ""}
GOLDEN_TEXTS = ("how do plants make sugar", "", "Zürich, 1920: café!", "the sea " * 40)
DOCUMENTS = (
    Document("sugar", "Plants make sugar from light and water.", {"title": "Plants", "year": 1999}),
    Document("sea", "The sea is deep.\nAnd cold.", {"title": "The sea", "year": 2005}),
    Document("zurich", "Zürich has a lake.", {"year": 2011}),
)
DOWN = "adapter.layers.0.query.down"
UP = "adapter.layers.0.query.up"

_SPECIALS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
_WORDS = ["how", "do", "plants", "make", "sugar", "the", "sea", "query", "cafe", "zurich", "light"]
_CHARACTERS = string.ascii_lowercase + string.digits + string.punctuation

Array = NDArray[np.float32]


def vocabulary() -> dict[str, int]:
    """Token to id: the special tokens, letters and punctuation, continuations, words."""
    continued = [f"##{c}" for c in string.ascii_lowercase + string.digits]
    tokens = [*_SPECIALS, *_CHARACTERS, *continued, *_WORDS]
    return {token: index for index, token in enumerate(tokens)}


def tokenizer_json() -> bytes:
    """A ``tokenizer.json`` as BERT's uncased models have it."""
    vocab = vocabulary()
    special = {"single_word": False, "lstrip": False, "rstrip": False}
    content = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {"id": vocab[t], "content": t, **special, "normalized": False, "special": True}
            for t in _SPECIALS
        ],
        "normalizer": {
            "type": "BertNormalizer",
            "clean_text": True,
            "handle_chinese_chars": True,
            "strip_accents": None,
            "lowercase": True,
        },
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [
                {"SpecialToken": {"id": "[CLS]", "type_id": 0}},
                {"Sequence": {"id": "A", "type_id": 0}},
                {"SpecialToken": {"id": "[SEP]", "type_id": 0}},
            ],
            "pair": [
                {"SpecialToken": {"id": "[CLS]", "type_id": 0}},
                {"Sequence": {"id": "A", "type_id": 0}},
                {"SpecialToken": {"id": "[SEP]", "type_id": 0}},
                {"Sequence": {"id": "B", "type_id": 1}},
                {"SpecialToken": {"id": "[SEP]", "type_id": 1}},
            ],
            "special_tokens": {
                t: {"id": t, "ids": [vocab[t]], "tokens": [t]} for t in ("[CLS]", "[SEP]")
            },
        },
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
        "model": {
            "type": "WordPiece",
            "unk_token": "[UNK]",
            "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100,
            "vocab": vocab,
        },
    }
    return json.dumps(content, ensure_ascii=False).encode("utf-8")


def _weights() -> tuple[Array, Array]:
    rng = np.random.default_rng(7)
    table = rng.standard_normal((len(vocabulary()), DIMENSION)).astype(np.float32)
    linear = rng.standard_normal((DIMENSION, DIMENSION)).astype(np.float32)
    return table, linear


def default_adapter() -> dict[str, Array]:
    """The values the graph itself carries: ``up`` is zero, so the adapter does nothing."""
    down = np.random.default_rng(8).standard_normal((RANK, DIMENSION)).astype(np.float32)
    return {DOWN: down, UP: np.zeros((DIMENSION, RANK), np.float32)}


def trained_adapter(seed: int = 0) -> dict[str, Array]:
    """An adapter that moves every vector."""
    rng = np.random.default_rng(seed)
    return {
        DOWN: rng.standard_normal((RANK, DIMENSION)).astype(np.float32),
        UP: rng.standard_normal((DIMENSION, RANK)).astype(np.float32),
    }


def reference_vector(ids: list[int], adapter: Mapping[str, Array] | None = None) -> Array:
    """What the graph computes, in numpy: float32 (DIMENSION,)."""
    table, linear = _weights()
    tensors = adapter or default_adapter()
    x = table[np.array(ids)]  # (length, dim)
    y = x @ linear.T + (x @ tensors[DOWN].T) @ tensors[UP].T  # (length, dim)
    mean = y.mean(axis=0)
    vector: Array = (mean / np.linalg.norm(mean)).astype(np.float32)
    return vector


def encoder_onnx(dimension: int = DIMENSION, output: str = "sentence_embedding") -> bytes:
    """The graph. ``dimension`` and ``output`` are what its output claims.

    Where only what a device has is installed it is the committed one, which is the same.
    """
    if find_spec("onnx") is None and (dimension, output) == (DIMENSION, "sentence_embedding"):
        return COMMITTED.joinpath(ENCODER_FILE).read_bytes()
    pytest.importorskip("onnx")
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    table, linear = _weights()
    node = helper.make_node
    nodes = [
        node("Gather", ["table", "input_ids"], ["x"]),  # (batch, length, dim)
        node("MatMul", ["x", "linear"], ["frozen"]),
        node("Transpose", [DOWN], ["down_t"], perm=[1, 0]),
        node("Transpose", [UP], ["up_t"], perm=[1, 0]),
        node("MatMul", ["x", "down_t"], ["low"]),
        node("MatMul", ["low", "up_t"], ["change"]),
        node("Add", ["frozen", "change"], ["y"]),
        node("Cast", ["attention_mask"], ["mask"], to=TensorProto.FLOAT),
        node("Unsqueeze", ["mask", "last"], ["mask3"]),  # (batch, length, 1)
        node("Mul", ["y", "mask3"], ["masked"]),
        node("ReduceSum", ["masked", "second"], ["summed"], keepdims=0),  # (batch, dim)
        node("ReduceSum", ["mask", "second"], ["count"], keepdims=1),  # (batch, 1)
        node("Div", ["summed", "count"], ["mean"]),
        node("LpNormalization", ["mean"], [output], axis=1, p=2),
    ]
    adapter = default_adapter()
    ids = [
        helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "length"])
        for name in ("input_ids", "attention_mask")
    ]
    slots = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, value.shape)
        for name, value in adapter.items()
    ]
    result = helper.make_tensor_value_info(output, TensorProto.FLOAT, ["batch", dimension])
    constants: dict[str, NDArray[Any]] = {
        "table": table,
        "linear": np.ascontiguousarray(linear.T),
        "last": np.array([2]),
        "second": np.array([1]),
        **adapter,
    }
    initialisers = [numpy_helper.from_array(value, name) for name, value in constants.items()]
    graph = helper.make_graph(nodes, "tiny", [*ids, *slots], [result], initialisers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    data: bytes = model.SerializeToString()
    return data


def golden_ids(text: str) -> list[int]:
    """The ids the package ``tokenizers`` gives; our own where only the base install is."""
    if find_spec("tokenizers") is None:
        return open_tokenizer("wordpiece", tokenizer_json(), MAX_LENGTH).encode(text)
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_str(tokenizer_json().decode("utf-8"))
    tokenizer.enable_truncation(MAX_LENGTH)
    ids: list[int] = tokenizer.encode(text).ids
    return ids


def golden_json(adapter: Mapping[str, Array] | None = None) -> bytes:
    """``golden.json``: texts with their ids and vectors."""
    entries = []
    for text in GOLDEN_TEXTS:
        ids = golden_ids(text)
        vector = [round(float(v), 6) for v in reference_vector(ids, adapter)]
        entries.append({"text": text, "ids": ids, "vector": vector})
    return json.dumps({"texts": entries}, ensure_ascii=False).encode("utf-8")


def tiny_files(adapter: Mapping[str, Array] | None = None) -> dict[str, bytes]:
    """The content of every file but the manifest; with ``adapter``, adapter.safetensors too."""
    files = {
        ENCODER_FILE: encoder_onnx(),
        "tokenizer.json": tokenizer_json(),
        GOLDEN_FILE: golden_json(adapter),
    }
    return files if adapter is None else files | {ADAPTER_FILE: serialize(adapter)}


def tiny_manifest(files: Mapping[str, bytes], **changes: Any) -> Manifest:
    """A manifest for ``files``; ``changes`` replace its fields."""
    fields: dict[str, Any] = {
        "name": "tiny",
        "space": Space(SPACE_ID, DIMENSION),
        "prompts": PROMPTS,
        "max_length": MAX_LENGTH,
        "tokenizer": TokenizerSpec("wordpiece", "tokenizer.json"),
        "files": file_entries(files),
        "license": "Apache-2.0",
    }
    return Manifest(**fields | changes)


def write_tiny_bundle(
    folder: Path,
    *,
    adapter: Mapping[str, Array] | None = None,
    signing_key: bytes | None = None,
    **changes: Any,
) -> Path:
    """Write a bundle to ``folder`` and return it; ``changes`` replace the manifest's fields."""
    files = tiny_files(adapter)
    write_bundle(folder, tiny_manifest(files, **changes), files, signing_key=signing_key)
    return folder


def write_tiny_index(folder: Path, *, signing_key: bytes | None = None) -> Path:
    """Write an index of :data:`DOCUMENTS`, encoded by the tiny encoder, and return it."""
    texts = [content(document) for document in DOCUMENTS]
    vectors = np.stack([reference_vector(golden_ids(text)) for text in texts])
    with create_index(
        folder, space_id=SPACE_ID, dimension=DIMENSION, signing_key=signing_key
    ) as builder:
        builder.add(DOCUMENTS, vectors)
    return folder


if __name__ == "__main__":
    write_tiny_bundle(Path(sys.argv[1]))

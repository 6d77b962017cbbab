"""Sentencepiece as operators of an ONNX graph: a text in, token ids out.

onnxruntime-extensions runs the same library on the same model, so the pieces are right. What is
added by operators around it: literals such as "</s>", which become their ids whole, the layout of
the ids, pieces that a pruned vocabulary no longer has, special tokens and truncation.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
from sentencepiece import SentencePieceProcessor

from pocketquery.export.graph_editing import GraphEditor
from pocketquery.sdk.tokenizers.bert_normalizer import WHITESPACE
from pocketquery.sdk.tokenizers.sentencepiece_file import read_sentencepiece_file
from pocketquery.sdk.tokenizers.sentencepiece_model import SentencePieceTokenizer
from pocketquery_mobile.wordpiece import (
    EXTENSIONS,
    add_regex,
    regex_class,
    split_at,
    surround,
)

__all__ = ["add_sentencepiece"]

_XLM_ROBERTA_LITERALS = ("<s>", "<pad>", "</s>", "<unk>")


def add_sentencepiece(
    editor: GraphEditor, text: str, data: bytes, max_length: int, options: Mapping[str, Any]
) -> str:
    """Append the nodes that turn ``text``, a tensor of one string, into ids.

    Args:
        editor: of the graph they are appended to.
        text: name of a tensor, string (1,).
        data: the bytes of a sentencepiece model.
        max_length: ids at most, special tokens among them.
        options: of the tokenizer, as in the manifest.

    Returns:
        The name of the ids, int64 (length,).

    Raises:
        CorruptArtifactError: ``data`` is not such a model.
        InvalidInputError: options the tokenizer does not have.
    """
    tokenizer = SentencePieceTokenizer(data, max_length, **options)
    data = read_sentencepiece_file(data).model  # the graph has its own library, which trusts it
    pieces = SentencePieceProcessor(model_proto=data)
    before = [number for number in [pieces.bos_id()] if number >= 0]
    after = [number for number in [pieces.eos_id()] if number >= 0]
    literals: dict[str, int] = {}
    if options.get("layout", "xlm-roberta") == "xlm-roberta":
        literals = {literal: number for number, literal in enumerate(_XLM_ROBERTA_LITERALS)}
        literals["<mask>"] = tokenizer.vocabulary_size - 1
        before, after = [literals["<s>"]], [literals["</s>"]]
        # It takes the white space before it too.
        text = add_regex(editor, text, regex_class(WHITESPACE) + "+<mask>", "<mask>", "mask")
        text = split_at(editor, text, list(literals), keep="(?s).+")
    ids, begins = _cut(editor, text, data)
    shift = 1 if literals else 0
    known = int(options.get("known_pieces") or pieces.get_piece_size())
    ids = _in_layout(editor, ids, shift, known, pieces.unk_id(), tokenizer.unknown_id)
    if literals:
        ids = _put_literals(editor, ids, begins, text, literals)
    return surround(editor, ids, before, after, max_length - len(before) - len(after))


def _cut(editor: GraphEditor, parts: str, data: bytes) -> tuple[str, str]:
    """Append the extension's tokenizer; the model's ids of all parts, and where each begins."""
    settings: dict[str, Any] = {
        "nbest_size": np.array([0], np.int64),
        "alpha": np.array([1], np.float32),
        "begin_id": np.array([False]),
        "end_id": np.array([False]),
        "reverse": np.array([False]),
    }
    inputs = [editor.store(f"tokenizer.model.{n}", value) for n, value in settings.items()]
    pieces = editor.add(
        "SentencepieceTokenizer",
        [parts, *inputs],
        "tokenizer.pieces",
        further_outputs=["tokenizer.begins"],
        domain=EXTENSIONS,
        model=data,
    )
    to = onnx.TensorProto.INT64
    return editor.add("Cast", [pieces], "tokenizer.model_ids", to=to), "tokenizer.begins"


def _in_layout(
    editor: GraphEditor, ids: str, shift: int, known: int, model_unknown: int, unknown: int
) -> str:
    """Append what makes the model's ids the encoder's."""

    def stored(name: str, value: int) -> str:
        return editor.store(f"tokenizer.{name}", np.array([value], np.int64))

    shifted = editor.add("Add", [ids, stored("shift", shift)], "tokenizer.shifted")
    same = editor.add("Equal", [ids, stored("model_unknown", model_unknown)], "tokenizer.same")
    beyond = editor.add("GreaterOrEqual", [ids, stored("first_pruned", known)], "tokenizer.beyond")
    lost = editor.add("Or", [same, beyond], "tokenizer.lost")
    return editor.add("Where", [lost, stored("unknown", unknown), shifted], "tokenizer.numbered")


def _put_literals(
    editor: GraphEditor, ids: str, begins: str, parts: str, literals: Mapping[str, int]
) -> str:
    """Append what replaces the ids of each part that is a literal by the literal's one.

    Linear in the text: a text of nothing but literals costs no more than another.
    """

    def add(operator: str, *inputs: str, to: str, **more: Any) -> str:
        return editor.add(operator, inputs, f"tokenizer.{to}", **more)

    def stored(name: str, *values: int) -> str:
        return editor.store(f"tokenizer.{name}", np.array(values, np.int64))

    integer = onnx.TensorProto.INT64
    zero, one, last = stored("zero", 0), stored("one", 1), stored("last", -1)
    starts = add("Slice", begins, zero, last, zero, to="starts")  # (parts,)
    count = add("Shape", ids, to="count")
    places = add("Add", count, one, to="places")  # a part without pieces may begin at the end
    nothing = onnx.helper.make_tensor("zero", integer, [1], [0])
    ones = onnx.helper.make_tensor("one", integer, [1], [1])
    none = add("ConstantOfShape", places, to="none", value=nothing)
    each = add("ConstantOfShape", add("Shape", starts, to="number"), to="each", value=ones)
    begun = add("ScatterElements", none, starts, each, to="begun", axis=0, reduction="add")
    passed = add("CumSum", begun, editor.store("tokenizer.along", np.array(0)), to="passed")
    part = add("Sub", add("Slice", passed, zero, last, zero, to="up_to"), one, to="part")  # (ids,)
    numbers = add(
        "LabelEncoder",
        parts,
        to="literals",
        domain="ai.onnx.ml",
        keys_strings=list(literals),
        values_int64s=list(literals.values()),
        default_int64=-1,
    )
    literal = add("Gather", numbers, part, to="literal")  # (ids,)
    plain = add("Less", literal, zero, to="plain")
    # A literal's one id stands where its part begins: there and only there the count went up.
    first = add("Greater", add("Slice", begun, zero, last, zero, to="at"), zero, to="first")
    merged = add("Where", plain, ids, literal, to="merged")
    return add("Compress", merged, add("Or", plain, first, to="keep"), to="kept", axis=0)

"""BERT's WordPiece as operators of an ONNX graph: a text in, token ids out.

The tokenizer of onnxruntime-extensions is not BERT's: it knows other accents, punctuation and
ideographs, has no literals such as "[SEP]", and keeps the pieces before the point where a word
cannot be spelled. So it is given only what it does right, the greedy cut of a word into pieces.
The rest is done around it by the tables of our own tokenizer:

- The text is split into literals and characters, and each is looked up in a table of what it
  becomes: a literal one reserved character, a character what BERT's normaliser makes of it, with
  spaces around punctuation. What no piece holds becomes one placeholder.
- The vocabulary is extended by the single characters that it lacks, so that no cut ever fails; a
  word in which one of them turns up is the unknown token, whole.
- Special tokens and truncation are added by standard operators.

What is left out is the canonical order of a few rare marks, where a vocabulary knows one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

import numpy as np
import onnx

from pocketquery.export.graph_editing import GraphEditor
from pocketquery.sdk.errors import UnknownModelError
from pocketquery.sdk.tokenizers.bert_normalizer import (
    IDEOGRAPHS,
    PUNCTUATION,
    WHITESPACE,
    BertNormalizer,
    CharacterClass,
)
from pocketquery.sdk.tokenizers.wordpiece_file import WordPieceFile, read_wordpiece_file

__all__ = [
    "EXTENSIONS",
    "add_wordpiece",
    "check_wordpiece",
    "add_regex",
    "regex_class",
    "split_at",
    "surround",
]

EXTENSIONS = "ai.onnx.contrib"
"""Domain of the operators of onnxruntime-extensions."""

_LONGEST_WORD = 100  # characters; fixed in the extension's operator, and BERT's own number
_INNER = "##"
# Code points that Unicode will never assign: words of our own, which no text can hold after the
# look-up, because those of the text itself have become the placeholder.
_FIRST_LITERAL, _UNKNOWN = 0xFDD0, "\ufdef"
_LITERALS = ord(_UNKNOWN) - _FIRST_LITERAL
# Where characters are decomposed, lower-cased, removed, punctuation or marks: not among ideographs,
# and beyond the second plane only those that decompose and the tags.
_TABLED = ((1, 0x3400), (0xA000, 0xD800), (0xF900, 0x20000), (0x2F800, 0x2FA20), (0xE0000, 0xE1000))
_PRIVATE = r"\x{E000}-\x{F8FF}\x{F0000}-\x{FFFFD}\x{100000}-\x{10FFFD}"  # too many to look up


def add_wordpiece(editor: GraphEditor, text: str, data: bytes, max_length: int) -> str:
    """Append the nodes that turn ``text``, a tensor of one string, into ids.

    Args:
        editor: of the graph they are appended to.
        text: name of a tensor, string (1,).
        data: the bytes of a ``tokenizer.json``.
        max_length: ids at most, special tokens among them.

    Returns:
        The name of the ids, int64 (length,).

    Raises:
        UnknownModelError: a setting of the tokenizer that these operators cannot follow.
        CorruptArtifactError: ``data`` is not such a file.
    """
    file = check_wordpiece(data)
    vocabulary = _Vocabulary(file)
    if file.normalizer.normalize("一") != "一":
        text = add_regex(editor, text, f"({regex_class(IDEOGRAPHS)})", r" \1 ", "ideographs")
    removes_private = file.normalizer.normalize("\ue000") == ""
    parts = split_at(
        editor,
        text,
        [*vocabulary.literals, None],
        keep=f"(?s)[^{_PRIVATE}]+" if removes_private else "(?s).+",
    )
    text = _look_up(editor, parts, dict(_table(file.normalizer, vocabulary)))
    ids = _spell(editor, text, vocabulary)
    limit = max_length - len(file.before) - len(file.after)
    return surround(editor, ids, file.before, file.after, limit, truncate_left=file.truncate_left)


def check_wordpiece(data: bytes) -> WordPieceFile:
    """The tokenizer in ``data``; one the operators cannot follow raises as there."""
    file = read_wordpiece_file(data)
    if file.prefix != _INNER:
        raise _unsupported(f"the prefix {file.prefix!r} for pieces inside a word", repr(_INNER))
    if file.max_word_length != _LONGEST_WORD:
        raise _unsupported(f"words of up to {file.max_word_length} characters", str(_LONGEST_WORD))
    for piece in file.vocabulary:
        if any(_FIRST_LITERAL <= ord(character) <= ord(_UNKNOWN) for character in piece):
            raise _unsupported(f"the piece {piece!r}", "none with a character U+FDD0 to U+FDEF")
    if len(file.added_tokens) > _LITERALS:
        raise _unsupported(f"{len(file.added_tokens)} added tokens", f"{_LITERALS} at most")
    for token in file.added_tokens:
        if token.normalized or token.single_word or token.lstrip or token.rstrip:
            raise _unsupported(f"the added token {token.content!r} with conditions", "plain ones")
        if any(character in IDEOGRAPHS for character in token.content):
            raise _unsupported(f"the added token {token.content!r}", "none with an ideograph")
    return file


def split_at(editor: GraphEditor, text: str, literals: Sequence[str | None], *, keep: str) -> str:
    """Append the split of ``text`` at literals, the longest first, and keep them.

    Args:
        editor: of the graph.
        text: name of a tensor, string (1,).
        literals: where to split; None is any character.
        keep: the pattern, in RE2's syntax, of the literals to keep; others are dropped.

    Returns:
        The name of the parts, string (parts,), none of them empty.
    """
    known = sorted((literal for literal in literals if literal), key=len, reverse=True)
    patterns = [_escape(literal) for literal in known] + ["."] * (None in literals)
    inputs = [
        editor.store(f"tokenizer.split.{name}", np.array([pattern], dtype=object))
        for name, pattern in (("at", f"((?s){'|'.join(patterns)})"), ("keep", keep))
    ]
    outputs = [f"tokenizer.parts{output}" for output in ("", ".begin", ".end", ".row")]
    return editor.add(
        "StringRegexSplitWithOffsets",
        [text, *inputs],
        outputs[0],
        further_outputs=outputs[1:],
        domain=EXTENSIONS,
    )


def _escape(literal: str) -> str:
    """``literal`` as a pattern of RE2."""
    return "".join(f"\\x{{{ord(character):X}}}" for character in literal)


def surround(
    editor: GraphEditor,
    ids: str,
    before: Sequence[int],
    after: Sequence[int],
    limit: int,
    *,
    truncate_left: bool = False,
) -> str:
    """Append what cuts ``ids`` to ``limit`` and puts special tokens around them."""

    def stored(name: str, *values: int) -> str:
        return editor.store(f"tokenizer.{name}", np.array(values, np.int64))

    begin, end = (-limit, np.iinfo(np.int64).max) if truncate_left else (0, limit)
    bounds = [stored("begin", begin), stored("end", end), stored("axis", 0)]
    cut = editor.add("Slice", [ids, *bounds], "tokenizer.cut")
    parts = [stored("before", *before), cut, stored("after", *after)]
    return editor.add("Concat", parts, "tokenizer.ids", axis=0)


class _Vocabulary:
    """The lines of the extension's vocabulary file, and what they mean.

    Line n is the piece n of the tokenizer; then come the marks of literals, then the characters
    without which a word cannot be spelled.
    """

    def __init__(self, file: WordPieceFile) -> None:
        self.literals = {token.content: token.id for token in file.added_tokens if token.content}
        self.size = max(chain(file.vocabulary.values(), self.literals.values())) + 1
        self.unknown_token = file.unknown_token
        self.unknown = file.vocabulary[file.unknown_token]
        words = [piece for piece in file.vocabulary if piece not in self.literals]
        self.characters = {c for piece in words for c in piece.removeprefix(_INNER)}
        lines = [f" {number}" for number in range(self.size)]  # a word never begins with a space
        for piece, number in file.vocabulary.items():
            if piece and not set(piece) & set(" \r\n"):  # no word can be another
                lines[number] = piece
        lines += [chr(_FIRST_LITERAL + index) for index in range(len(self.literals))]
        self.first_missing = len(lines)
        known = set(lines)
        for character in sorted({*self.characters, _UNKNOWN}):
            lines += [p for p in (character, _INNER + character) if p not in known]
        # An added character can never be a literal's mark, which stands alone in the text.
        self.lines = lines


def _look_up(editor: GraphEditor, parts: str, table: dict[str, str]) -> str:
    """Append the look-up of each part; words with one space between them, string (1,)."""
    normal = editor.add(
        "LabelEncoder",
        [parts],
        "tokenizer.normal",
        domain="ai.onnx.ml",
        keys_strings=list(table),
        values_strings=list(table.values()),
        default_string=_UNKNOWN,
    )
    nothing = editor.store("tokenizer.nothing", np.array([""], dtype=object))
    axis = editor.store("tokenizer.parts.axis", np.array([0], np.int64))
    text = editor.add("StringJoin", [normal, nothing, axis], "tokenizer.text", domain=EXTENSIONS)
    return add_regex(editor, text, "^ +| +$|( ) +", r"\1", "words")


def _table(normalizer: BertNormalizer, vocabulary: _Vocabulary) -> Iterator[tuple[str, str]]:
    """Literals and characters with what they become; those left out become the placeholder."""
    for index, literal in enumerate(vocabulary.literals):
        yield literal, f" {chr(_FIRST_LITERAL + index)} "
    known = vocabulary.characters
    reserved = range(_FIRST_LITERAL, ord(_UNKNOWN) + 1)
    points = set(map(ord, known)).union(*(range(*span) for span in _TABLED))
    for character in map(chr, sorted(points.difference(reserved))):
        normal = "".join(_spaced(c, known) for c in normalizer.normalize(character))
        if normal != _UNKNOWN and character not in vocabulary.literals:
            yield character, normal


def _spaced(character: str, known: set[str]) -> str:
    if character in PUNCTUATION:
        return f" {character if character in known else _UNKNOWN} "
    if character in WHITESPACE:
        return " "
    return character if character in known else _UNKNOWN


def _spell(editor: GraphEditor, text: str, vocabulary: _Vocabulary) -> str:
    """Append the cut into pieces; the ids, int64 (pieces,)."""
    special = vocabulary.unknown_token  # those the operator adds are cut off again
    names = ("unk_token", "sep_token", "pad_token", "cls_token", "mask_token")
    attributes: dict[str, Any] = dict.fromkeys(names, special) | {
        "vocab_file": "\n".join(vocabulary.lines),
        "do_lower_case": 0,
        "do_basic_tokenize": 0,
        "tokenize_chinese_chars": 0,
        "strip_accents": 0,
        "suffix_indicator": _INNER,
        "max_length": -1,
    }
    outputs = ["tokenizer.pieces", "tokenizer.types", "tokenizer.mask"]
    editor.add(
        "BertTokenizer",
        [text],
        outputs[0],
        further_outputs=outputs[1:],
        domain=EXTENSIONS,
        **attributes,
    )

    def add(operator: str, *inputs: str, to: str, **more: Any) -> str:
        return editor.add(operator, inputs, f"tokenizer.{to}", **more)

    def stored(name: str, values: Any, kind: Any = np.int64) -> str:
        return editor.store(f"tokenizer.{name}", np.array(values, kind))

    one = stored("one", [1])
    zero = stored("zero", [0])
    lines = add("Slice", outputs[0], one, stored("last", [-1]), zero, to="lines")
    # A word begins at each piece that does not continue one.
    inner = [line.startswith(_INNER) and line != _INNER for line in vocabulary.lines]
    initial = add(
        "Not", add("Gather", stored("inner", inner, bool), lines, to="continues"), to="initial"
    )
    word = add("CumSum", _int64(editor, initial, "starts"), stored("along", 0), to="word")
    # A word in which a missing character turned up cannot be spelled.
    missing = add("GreaterOrEqual", lines, stored("missing", vocabulary.first_missing), to="lacks")
    longest = add("Add", add("Shape", lines, to="count"), one, to="places")
    nothing = add("ConstantOfShape", longest, to="none", value=_zero())
    counts = add(
        "ScatterElements",
        nothing,
        word,
        _int64(editor, missing, "lacking"),
        to="counts",
        axis=0,
        reduction="add",
    )
    counted = add("Gather", counts, word, to="counted")
    bad = add("Greater", counted, zero, to="unspelled")
    ids = add("Where", bad, stored("unknown", [vocabulary.unknown]), lines, to="known")
    keep = add("Or", add("Not", bad, to="spelled"), initial, to="keep")
    ids = add("Compress", ids, keep, to="kept", axis=0)
    if not vocabulary.literals:
        return ids
    beyond = add("Sub", ids, stored("size", [vocabulary.size - 1]), to="beyond")
    place = add("Max", beyond, zero, to="place")
    literals = stored("literals", [0, *vocabulary.literals.values()])
    literal = add("Gather", literals, place, to="literal")
    return add("Where", add("Greater", place, zero, to="is_literal"), literal, ids, to="spelling")


def _int64(editor: GraphEditor, tensor: str, name: str) -> str:
    return editor.add("Cast", [tensor], f"tokenizer.{name}", to=onnx.TensorProto.INT64)


def _zero() -> onnx.TensorProto:
    return onnx.helper.make_tensor("zero", onnx.TensorProto.INT64, [1], [0])


def add_regex(editor: GraphEditor, text: str, pattern: str, rewrite: str, name: str) -> str:
    """Append a replacement in RE2's syntax; the name of the new text."""
    inputs = [
        editor.store(f"tokenizer.{name}.{part}", np.array([value], dtype=object))
        for part, value in (("pattern", pattern), ("rewrite", rewrite))
    ]
    return editor.add("StringRegexReplace", [text, *inputs], f"tokenizer.{name}", domain=EXTENSIONS)


def regex_class(characters: CharacterClass) -> str:
    spans = (span.partition("-") for span in characters.ranges.split())
    return "[" + "".join(f"\\x{{{a}}}-\\x{{{b or a}}}" for a, _, b in spans) + "]"


def _unsupported(found: str, expected: str) -> UnknownModelError:
    """The error for a tokenizer that operators cannot follow."""
    return UnknownModelError(
        f"the tokenizer has {found}; the graph that takes text can follow {expected}. Export "
        "without it: a device then tokenises in its own code"
    )

"""The tokenizers as operators against the SDK's own, text by text and class by class."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import onnxruntime_extensions
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pocketquery.export.graph_editing import GraphEditor
from pocketquery.sdk.errors import UnknownModelError
from pocketquery.sdk.tokenizers.bert_normalizer import REORDERED
from pocketquery.sdk.tokenizers.tokenizer import open_tokenizer
from pocketquery.server.corpus import read_queries
from pocketquery_demo.corpus import DATA
from pocketquery_mobile.sentencepiece import add_sentencepiece
from pocketquery_mobile.wordpiece import EXTENSIONS, add_wordpiece
from tests.sdk.diverse_text import (
    SPECIALS,
    added_token,
    diverse_strings,
    rich_wordpiece,
    wordpiece_json,
)
from tests.sdk.multilingual_model import made_up_texts, train_model

Encode = Callable[[str], list[int]]

REFERENCE = Path(__file__).parents[3] / "benchmarks" / "reference" / "bundle" / "tokenizer.json"
BERT = {
    "clean_text": True,
    "handle_chinese_chars": True,
    "strip_accents": None,
    "lowercase": True,
}
MARKS = "é\u033c\u08e7\u1abf\u0900\u0312\u08e1"  # one of them canonical ordering moves


def _session(add: Callable[[GraphEditor, str], str]) -> Encode:
    editor = _editor("text", onnx.TensorProto.STRING)
    session = _open(editor, add(editor, "text"))

    def encode(text: str) -> list[int]:
        found: list[int] = session.run(None, {"text": np.array([text], object)})[0].tolist()
        return found

    return encode


def _editor(name: str, kind: int) -> GraphEditor:
    value = onnx.helper.make_tensor_value_info(name, kind, [1])
    graph = onnx.helper.make_graph([], "tokenizer", [value], [])
    opsets = [
        onnx.helper.make_opsetid(domain, version)
        for domain, version in (("", 17), ("ai.onnx.ml", 2), (EXTENSIONS, 1))
    ]
    return GraphEditor(onnx.helper.make_model(graph, opset_imports=opsets, ir_version=8))


def _open(editor: GraphEditor, ids: str) -> Any:
    value = onnx.helper.make_tensor_value_info(ids, onnx.TensorProto.INT64, ["length"])
    editor.graph.output.append(value)
    model = editor.finish()
    onnx.checker.check_model(model)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.register_custom_ops_library(onnxruntime_extensions.get_library_path())
    return onnxruntime.InferenceSession(model.SerializeToString(), options)


def _wordpiece(data: bytes, max_length: int = 512) -> tuple[Encode, Encode]:
    graph = _session(lambda editor, text: add_wordpiece(editor, text, data, max_length))
    return graph, open_tokenizer("wordpiece", data, max_length).encode


def _unequal(graph: Encode, exact: Encode, texts: Iterable[str]) -> Counter[str]:
    """How many texts got other ids, by the class of what is in them."""
    counts: Counter[str] = Counter()
    for text in texts:
        if graph(text) != exact(text):
            if "\0" in text:
                assert graph(text) == exact(text[: text.index("\0")])
                counts["U+0000"] += 1
            elif any(character in REORDERED for character in text):
                counts["order of marks"] += 1
            else:
                counts[ascii(text)] += 1
    return counts


@pytest.fixture(scope="module")
def reference() -> tuple[Encode, Encode]:
    """The vocabulary of all-MiniLM-L6-v2, which is bert-base-uncased's."""
    return _wordpiece(REFERENCE.read_bytes(), 128)


@pytest.fixture(scope="module")
def rich() -> tuple[Encode, Encode]:
    return _wordpiece(rich_wordpiece(3))


def test_plain_queries(reference: tuple[Encode, Encode]) -> None:
    queries = [query.text for query in read_queries(DATA / "queries.tsv.gz")][::15]
    assert len(queries) == 500
    assert _unequal(*reference, queries) == {}


def test_diverse_strings(reference: tuple[Encode, Encode]) -> None:
    counts = _unequal(*reference, diverse_strings(2000, seed=21))
    assert set(counts) <= {"U+0000"}
    assert counts["U+0000"] <= 30  # onnxruntime ends a text there; the strings hold it on purpose


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"lowercase": False, "strip_accents": True},
        {"strip_accents": False},
        {"clean_text": False},
        {"handle_chinese_chars": False},
    ],
    ids=str,
)
def test_diverse_strings_that_can_be_spelled(options: dict[str, Any]) -> None:
    counts = _unequal(*_wordpiece(rich_wordpiece(4, **options)), diverse_strings(400, seed=22))
    assert set(counts) <= {"U+0000", "order of marks"}
    assert counts["U+0000"] <= 14
    assert counts["order of marks"] <= 1


def test_the_order_of_marks_is_what_a_rich_vocabulary_loses() -> None:
    """The one class left where text is not cut; BERT's own vocabularies know no such mark."""
    graph, exact = _wordpiece(rich_wordpiece(1, clean_text=False))
    text = "é\u033c\u08e7\u1abf\u0900\u0312\u08e1\U0001d165\U0001d158sea"
    assert graph(text) != exact(text)
    assert sorted(graph(text)) == sorted(exact(text))


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=40))
@example(" ")
@example("[SEP][CLS]a[sep] [MASK]x[\ue000PAD]")
@example("\ufdd0\ufdef\ufdd1")
@example("##ing ##")
@example("a\n\tb\r \x0b")
def test_any_text(rich: tuple[Encode, Encode], text: str) -> None:
    graph, exact = rich
    if not any(character in REORDERED for character in text):
        assert graph(text) == exact(text)


def _modified_utf8(text: str) -> bytes:
    """As the JVM's native interface hands strings over: surrogates one by one, U+0000 in two."""
    halves = text.encode("utf-16-be", "surrogatepass")
    units = (chr(int.from_bytes(halves[i : i + 2])) for i in range(0, len(halves), 2))
    encoded = (unit.encode("utf-8", "surrogatepass") for unit in units)
    return b"".join(b"\xc0\x80" if unit == b"\0" else unit for unit in encoded)


def test_texts_from_java_and_kotlin() -> None:
    """Equal up to U+FFFF, and for emoji; other characters beyond are what may differ there."""
    plain = ["naïve café 日本 [SEP]☃", "good morning 🌞 👨‍👩‍👧 x", "hi😀 there 😀"]
    texts = [*plain, *diverse_strings(1000, seed=24)]
    data = REFERENCE.read_bytes()
    editor = _editor("number", onnx.TensorProto.INT64)
    tensor = onnx.TensorProto(name="texts", data_type=onnx.TensorProto.STRING, dims=[len(texts)])
    tensor.string_data.extend(map(_modified_utf8, texts))
    editor.graph.initializer.append(tensor)
    text = editor.add("Gather", ["texts", "number"], "text")
    session = _open(editor, add_wordpiece(editor, text, data, 128))
    exact = open_tokenizer("wordpiece", data, 128).encode
    counts: Counter[str] = Counter()
    for number, text in enumerate(texts):
        if session.run(None, {"number": np.array([number])})[0].tolist() != exact(text):
            beyond = any(ord(character) > 0xFFFF for character in text)
            counts["U+0000" if "\0" in text else "beyond" if beyond else ascii(text)] += 1
            assert text not in plain
    assert set(counts) <= {"U+0000", "beyond"}
    assert counts["beyond"] <= 130
    assert counts["U+0000"] <= 14


@pytest.mark.parametrize("text", ["x" * 100, "x" * 101, "é" * 101, "word " * 300, "[SEP]" * 90])
def test_long_words_and_long_texts(reference: tuple[Encode, Encode], text: str) -> None:
    graph, exact = reference
    assert graph(text) == exact(text)


def test_the_beginning_is_cut_where_the_file_says_so() -> None:
    document = json.loads(REFERENCE.read_bytes())
    document["truncation"] = {
        "direction": "Left",
        "max_length": 8,
        "strategy": "LongestFirst",
        "stride": 0,
    }
    graph, exact = _wordpiece(json.dumps(document).encode("utf-8"), 8)
    for text in ["", "one", "one two three four five six seven eight nine"]:
        assert graph(text) == exact(text)


def test_words_that_cannot_be_spelled_to_their_end() -> None:
    """The extension's own operator keeps the pieces before the place where it fails."""
    pieces = ["a", "##b", "ab", "##a", "c", "##cd", "e"]
    vocabulary = {piece: number for number, piece in enumerate([*SPECIALS, *pieces])}
    added = [added_token(token, vocabulary[token], special=True) for token in SPECIALS]
    graph, exact = _wordpiece(wordpiece_json(vocabulary, BERT, added))
    for text in [
        "ab",
        "abab",
        "abc",
        "abcd",
        "abcda",
        "ae",
        "ea",
        "d",
        "bd ab",
        "ab[SEP]e",
        "☃ a☃",
    ]:
        assert graph(text) == exact(text)


def test_ids_with_gaps_and_a_tokenizer_without_special_tokens() -> None:
    vocabulary = {"[UNK]": 7, "a": 2, "##a": 40, "b": 5, "[CLS]": 0, "[SEP]": 1}
    document = json.loads(wordpiece_json(vocabulary, BERT, []))
    document["post_processor"] = None
    graph, exact = _wordpiece(json.dumps(document).encode("utf-8"))
    for text in ["aa b c", "", "[SEP]"]:
        assert graph(text) == exact(text)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "found"),
    [
        ({"model": {"continuing_subword_prefix": "@@"}}, "the prefix '@@'"),
        ({"model": {"max_input_chars_per_word": 50}}, "words of up to 50 characters"),
        ({"token": {"lstrip": True}}, r"the added token '\[PAD\]' with conditions"),
        ({"token": {"normalized": True}}, r"the added token '\[PAD\]' with conditions"),
        ({"piece": "a\ufdd3"}, "the piece"),
        ({"added": "是"}, "the added token '是'"),
    ],
)
def test_what_operators_cannot_follow_is_refused(change: dict[str, Any], found: str) -> None:
    document = json.loads(rich_wordpiece(5))
    document["model"] |= change.get("model", {})
    document["added_tokens"][0] |= change.get("token", {})
    size = len(document["model"]["vocab"])
    if "piece" in change:
        document["model"]["vocab"][change["piece"]] = size
    if "added" in change:
        number = document["model"]["vocab"].get(change["added"], size)
        document["added_tokens"].append(added_token(change["added"], number))
    with pytest.raises(UnknownModelError, match=found):
        _wordpiece(json.dumps(document).encode("utf-8"))


@pytest.mark.parametrize(
    ("options", "training"),
    [
        ({"layout": "xlm-roberta"}, {}),
        ({"layout": "xlm-roberta", "known_pieces": 200}, {}),
        ({"layout": "xlm-roberta"}, {"normalization_rule_name": "identity"}),
        ({"layout": "plain"}, {"model_type": "bpe"}),
        ({"layout": "plain"}, {"byte_fallback": True}),
    ],
    ids=str,
)
def test_sentencepiece(
    options: dict[str, Any], training: dict[str, Any], capfd: pytest.CaptureFixture[str]
) -> None:
    data = train_model(**training)
    graph = _session(lambda editor, text: add_sentencepiece(editor, text, data, 64, options))
    exact = open_tokenizer("sentencepiece", data, 64, options).encode
    rng = random.Random(3)
    literals = ["<s>", "</s>", "<pad>", "<unk>", "<mask>", " <mask>", "< mask>", "<s", " ", "ab"]
    texts = ["", " ", "<s>", *made_up_texts(200, seed=7), *diverse_strings(700, seed=23)]
    texts += ["".join(rng.choices(literals, k=8)) for _ in range(200)]
    texts += ["<s>" * 5000, "\u3000<mask>"]
    counts = _unequal(graph, exact, texts)
    assert set(counts) <= {"U+0000"}
    assert counts["U+0000"] <= 14
    capfd.readouterr()  # the library's own remarks

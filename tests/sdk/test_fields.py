from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pocketquery.sdk.errors import CorruptArtifactError
from pocketquery.sdk.fields import Fields, unique_keys


def fields(text: str, **bounds: Any) -> Fields:
    return Fields.of_json(text.encode("utf-8", "surrogatepass"), "x.json", **bounds)


class Counted(str):
    """A key that counts how often it is compared."""

    comparisons = 0

    def __eq__(self, other: object) -> bool:
        Counted.comparisons += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


@pytest.mark.parametrize("count", [1000, 4000])
def test_a_key_that_occurs_twice_is_found_in_linear_time(count: int) -> None:
    names = [*(str(number) for number in range(count)), str(count - 1)]
    Counted.comparisons = 0
    with pytest.raises(ValueError, match=f"the key '{count - 1}' occurs twice"):
        unique_keys([(Counted(name), None) for name in names])
    assert Counted.comparisons < 4 * count


def test_a_long_key_is_cut_in_the_error() -> None:
    key = json.dumps("k" * 100_000)
    with pytest.raises(CorruptArtifactError, match="occurs twice") as caught:
        fields(f"{{{key}: 1, {key}: 2}}")
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1" * 5000, "an integer of 5000 digits, expected at most 20"),
        ('{"a": ' + "9" * 21 + "}", "an integer of 21 digits"),
        ('{"a": 1e999}', "the number 1e999 is too large"),
        ('{"a": -1e999}', "the number -1e999 is too large"),
        ('{"a": Infinity}', "Infinity is not JSON"),
        ('{"a": ' + "[" * 64 + "]" * 64 + "}", "nested deeper than 64"),
        ("[" * 100_000, "not valid JSON"),
        ('{"a": ' * 100_000, "not valid JSON"),
    ],
)
def test_numbers_and_nesting_have_bounds(text: str, message: str) -> None:
    with pytest.raises(CorruptArtifactError, match=message):
        fields(text)


def test_what_is_within_the_bounds_is_read() -> None:
    assert fields('{"a": 18446744073709551615}').integer("a") == 2**64 - 1
    assert fields('{"a": ' + "[" * 62 + "]" * 62 + "}").sequence("a")


def test_the_size_is_looked_at_before_anything_else() -> None:
    with pytest.raises(CorruptArtifactError, match="found 12 bytes or more, expected at most 10"):
        fields("not json at ", most_bytes=10)


@pytest.mark.parametrize(
    ("read", "message"),
    [
        (lambda f: f.text("text", 2), "found 3 characters, expected at most 2"),
        (lambda f: f.text_or_none("text", 2), "found 3 characters"),
        (lambda f: f.integer("number", 6), "found 5, expected an integer, at least 6"),
        (lambda f: f.integer("number", 1, 4), "at least 1 and at most 4"),
        (lambda f: f.sequence("list", 1), "found 2 entries, expected at most 1"),
        (lambda f: f.mapping("map", 0), "found 1 entries"),
        (lambda f: f.texts("map", 1, 2), "'map.key': found 3 characters"),
        (lambda f: f.child("map", 0), "found 1 entries"),
        (lambda f: f.text("half"), "lone surrogates"),
        (lambda f: f.texts("halves"), "lone surrogates"),
    ],
)
def test_a_bound_is_named_with_what_was_found(read: Any, message: str) -> None:
    found = fields(
        r'{"text": "abc", "number": 5, "list": [1, 2], "map": {"key": ""}, "half": "\ud800", '
        r'"halves": {"a": "\udfff"}}'
    )
    with pytest.raises(CorruptArtifactError, match=message):
        read(found)


json_text = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
).map(json.dumps)


@given(json_text | st.text('{}[]:,"0123456789.eE+-\\u falsetruenull'))
@example("1" * 5000)
@example('{"a":1,"a":2}')
def test_any_text_is_an_object_or_refused(text: str) -> None:
    try:
        found = fields(text)
    except CorruptArtifactError:
        return
    assert dict(found.items()) == json.loads(text)

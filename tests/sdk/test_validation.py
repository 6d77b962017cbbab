from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketquery.sdk.errors import CorruptArtifactError, InvalidInputError
from pocketquery.sdk.validation import (
    Rule,
    check,
    check_count,
    check_fields,
    number,
    one_of,
    optional,
    plain,
    whole,
)


def test_whole_numbers_pass_as_int() -> None:
    for value in (1, 7, np.int64(7), np.uint8(7)):
        assert type(check_count(value, "k", most=7)) is int


@pytest.mark.parametrize("value", [0, -3, 8, 2.5, "3", None, [1], np.float32(2), True])
def test_what_is_none_is_named(value: object) -> None:
    with pytest.raises(InvalidInputError, match=r"k is .*, expected a whole number from 1 to 7"):
        check_count(value, "k", most=7)


@pytest.mark.parametrize(
    ("rule", "good", "bad", "expected"),
    [
        (whole(0), [0, 5], [-1, 0.0, "1", False], "a whole number from 0"),
        (number(0, 1), [0, 1, 0.5, np.float32(0.5)], [-0.1, 1.1, math.nan, "0.5", True, None], ""),
        (number(above=0), [1e-9, 3], [0, -1, math.inf], "a number above 0"),
        (number(0, below=0.5), [0, 0.49], [0.5], "a number from 0 to below 0.5"),
        (number(), [-1e9, 0], [math.inf, math.nan, [1.0], 10**400], "a finite number"),
        (one_of("mean", "cls"), ["mean"], ["max", None, 1], "one of mean, cls"),
        (plain(whole()), [1], [0, True, np.int64(1)], "a whole number from 1"),
        (plain(number(1)), [1, 1.5], [np.float64(1.5), np.int8(2), "2"], "a number from 1"),
        (optional(whole()), [None, 1], [0], "a whole number from 1, or None"),
    ],
)
def test_rules(rule: Rule, good: list[object], bad: list[object], expected: str) -> None:
    assert expected in rule.expected
    for value in good:
        check("x", value, rule)
    for value in bad:
        with pytest.raises(InvalidInputError, match=r"^x is "):
            check("x", value, rule)


@given(st.from_type(object) | st.floats() | st.integers() | st.text())
def test_no_value_makes_a_rule_raise(value: object) -> None:
    for rule in (whole(), number(0, 1), one_of("a"), optional(number(above=0))):
        assert rule.holds(value) in (True, False)


def test_fields_of_an_object_and_other_errors() -> None:
    @dataclass
    class Settings:
        steps: int
        share: float

    check_fields(Settings(1, 0.5), steps=whole(), share=number(0, 1))
    with pytest.raises(InvalidInputError, match=r"share is 2, expected a number from 0 to 1"):
        check_fields(Settings(1, 2), steps=whole(), share=number(0, 1))
    with pytest.raises(CorruptArtifactError, match="digits"):
        check("max_length", 10**5000, whole(1, 512), CorruptArtifactError)

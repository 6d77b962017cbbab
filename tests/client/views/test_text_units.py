from __future__ import annotations

import pytest
from hypothesis import given

from pocketquery.client.views.text_units import cut, pieces
from tests.client.augmented_texts import ANYTHING


@pytest.mark.parametrize(
    ("text", "units"),
    [
        ("how to  knit?", ["how", "to", "knit?"]),
        ("東京の hotel", ["東", "京", "の", "hotel"]),
        ("iPhoneの充電", ["iPhone", "の", "充", "電"]),
        ("ต้มยำ", ["ต้", "ม", "ย", "ำ"]),  # sara am is a letter of its own
        ("한국어 검색", ["한국어", "검색"]),
        ("हिन्दी में", ["हिन्दी", "में"]),
        ("", []),
        (" \n", []),
    ],
)
def test_units_are_words_or_characters(text: str, units: list[str]) -> None:
    assert list(cut(text).texts) == units


@given(ANYTHING)
def test_nothing_is_lost(text: str) -> None:
    units = cut(text)
    assert units.arranged(units.texts) == text
    assert len(units.gaps) == len(units.texts) + 1
    assert all(unit.strip() == unit != "" for unit in units.texts)
    assert all(not gap.strip() for gap in units.gaps)
    assert "".join(pieces(text)) == text


def test_marks_and_joined_characters_stay_together() -> None:
    assert pieces("e\u0301a") == ["e\u0301", "a"]
    assert pieces("👩\u200d💻!") == ["👩\u200d💻", "!"]
    assert pieces(" \u0301a") == [" ", "\u0301", "a"]


def test_words_that_come_together_get_a_space() -> None:
    units = cut("iPhoneのMac")
    assert units.arranged(["iPhone", "Mac", "の"]) == "iPhone Macの"
    assert units.without({1}) == "iPhone Mac"


def test_gaps_go_with_what_is_left_out() -> None:
    assert cut(" a  b c ").without({1}) == " a  c "
    assert cut("a b c").without({0}) == "b c"
    assert cut("a b c").without({2}) == "a b"

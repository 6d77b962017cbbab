from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketquery.client.views.keyboards import neighbours


@pytest.mark.parametrize(
    ("character", "expected"),
    [
        ("g", "tyfhvb"),
        ("q", "wa"),
        ("p", "ol"),
        ("G", "TYFHVB"),
        ("é", "wrsd"),
        ("ф", "йцыя"),
        ("ё", "кнап"),
        ("ㅎ", "ㅅㅛㄹㅗㅍㅠ"),
        ("ि", "ीू्ु"),
        ("7", ""),
        ("!", ""),
        ("漢", ""),
        ("の", ""),
    ],
)
def test_known_keys(character: str, expected: str) -> None:
    assert set(neighbours(character)) == set(expected)


@given(st.characters())
def test_neighbours_keep_the_kind_and_are_single(character: str) -> None:
    for key in neighbours(character):
        assert unicodedata.category(key)[0] == unicodedata.category(character)[0]
        assert key != character


@given(st.sampled_from("abcdefghijklmnopqrstuvwxyzабвгдежзийклмнопрстуфхцчшщъыьэюя"))
def test_being_beside_is_mutual(character: str) -> None:
    assert all(character in neighbours(key) for key in neighbours(character))

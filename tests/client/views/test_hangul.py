from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketquery.client.views.hangul import compose, is_syllable, keystrokes

LETTERS = "ㄱㄲㄴㄷㄸㄹㅁㅂㅃㅅㅆㅇㅈㅉㅊㅋㅌㅍㅎㅏㅐㅑㅒㅓㅔㅕㅖㅗㅛㅜㅠㅡㅣ"


def test_every_syllable_survives_being_typed() -> None:
    for code in range(0xAC00, 0xD7A4):
        assert compose(keystrokes(chr(code))) == chr(code)


@pytest.mark.parametrize(
    ("keys", "shown"),
    [
        ("ㅎㅏㄴㄱㅡㄹ", "한글"),
        ("ㅎㅡㄹㄱ", "흙"),
        ("ㅎㅡㄹㄱㅣ", "흘기"),  # the vowel takes the last consonant along
        ("ㄱㅏㅃㅏ", "가빠"),
        ("ㅋㅋㅋ", "ㅋㅋㅋ"),
        ("ㅏㄱ", "ㅏㄱ"),
        ("ㄱㅗㅏ", "과"),
        ("ㄱㅏㅏ", "가ㅏ"),
    ],
)
def test_composition_as_an_input_method_does_it(keys: str, shown: str) -> None:
    assert compose(list(keys)) == shown


@given(st.lists(st.sampled_from(LETTERS), max_size=12))
def test_no_keystroke_is_lost(keys: list[str]) -> None:
    shown = compose(keys)
    typed = [key for c in shown for key in (keystrokes(c) if is_syllable(c) else [c])]
    assert typed == keys

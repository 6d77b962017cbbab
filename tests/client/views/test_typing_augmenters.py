from __future__ import annotations

import random

import pytest
from hypothesis import given

from pocketquery.client.views.hangul import is_syllable
from pocketquery.client.views.typing_augmenters import DropoutView, NoiseCase, Typo, Unfinished
from pocketquery.client.views.typing_noise import mistype
from pocketquery.sdk.errors import InvalidInputError
from tests.client.augmented_texts import ANYTHING, SEEDS, views


@given(ANYTHING, SEEDS)
def test_a_typo_is_the_typing_noise(text: str, seed: int) -> None:
    made = Typo(0.2).augment(text, random.Random(seed))
    assert made.text == mistype(text, 0.2, random.Random(seed))


def test_what_was_typed_so_far_is_a_prefix() -> None:
    assert views(Unfinished(0.5), "abcdef") == {"abc", "abcd", "abcde"}
    assert views(Unfinished(0.0), "ab cd", 200) == {"a", "ab", "ab c"}
    assert views(Unfinished(), "a") == {"a"}
    assert views(Unfinished(1.0), "abc") == {"ab"}


@given(ANYTHING, SEEDS)
def test_a_prefix_of_the_text_but_for_the_last_syllable(text: str, seed: int) -> None:
    view = Unfinished().augment(text, random.Random(seed)).text
    if view != text:
        last = view[-1:]
        rest = view[:-1] if is_syllable(last) or "ㄱ" <= last <= "ㅣ" else view
        assert text.strip().startswith(rest)


def test_a_korean_syllable_is_cut_between_its_keystrokes() -> None:
    assert views(Unfinished(0.0), "흙집", 300) == {"ㅎ", "흐", "흘", "흙", "흙ㅈ", "흙지"}


def test_marks_are_not_cut_from_their_letters() -> None:
    assert views(Unfinished(0.0), "e\u0301e\u0301e\u0301") == {"e\u0301", "e\u0301e\u0301"}


def test_every_case_occurs_and_none_is_what_it_was() -> None:
    assert views(NoiseCase(), "how to Knit") == {
        "how to knit",
        "HOW TO KNIT",
        "How to knit",
        "How To Knit",
    }
    assert views(NoiseCase(), "knit") == {"KNIT", "Knit"}
    assert views(NoiseCase(), "как дела") == {"КАК ДЕЛА", "Как дела", "Как Дела"}
    assert views(NoiseCase(), "東京 42") == {"東京 42"}


@given(ANYTHING, SEEDS)
def test_case_is_all_that_changes(text: str, seed: int) -> None:
    view = NoiseCase().augment(text, random.Random(seed)).text
    assert len(view) == len(text)
    assert all(a == b or a == b.swapcase() for a, b in zip(view, text, strict=True))


def test_the_dropout_view_is_the_text() -> None:
    assert views(DropoutView(), "How to knit") == {"How to knit"}


def test_light_and_heavy() -> None:
    assert NoiseCase().strength == DropoutView().strength == "light"
    assert Typo().strength == Unfinished().strength == "heavy"


def test_settings_out_of_range_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="rate is -1"):
        Typo(-1)
    with pytest.raises(InvalidInputError, match="least is nan"):
        Unfinished(float("nan"))

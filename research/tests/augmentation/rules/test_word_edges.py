from __future__ import annotations

from hypothesis import given

from pocketquery_research.augmentation.rules.word_edges import bare, dressed
from tests.client.augmented_texts import ANYTHING


def test_punctuation_around_a_word_goes_and_comes_back() -> None:
    assert [bare(word) for word in ("(don't!)", "c++", "plain", "?!", "")] == [
        "don't",
        "c",
        "plain",
        "?!",
        "",
    ]
    assert dressed("(Car!)", "automobile") == "(Automobile!)"
    assert dressed("car,", "ÉLAN") == "ÉLAN,"


@given(ANYTHING)
def test_a_word_in_its_own_place_is_the_word(word: str) -> None:
    assert dressed(word, bare(word)) == word

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given

from pocketquery.client.views.text_units import cut
from pocketquery.client.views.word_augmenters import NeighbourSwap, Shuffle, WordDrop
from pocketquery.sdk.errors import InvalidInputError
from tests.client.augmented_texts import ANYTHING, SEEDS, views


@given(ANYTHING, SEEDS)
def test_f4_a_shuffle_keeps_the_multiset_of_tokens(text: str, seed: int) -> None:
    for augmenter in (Shuffle(), NeighbourSwap(3)):
        view = augmenter.augment(text, random.Random(seed)).text
        assert Counter("".join(view.split())) == Counter("".join(text.split()))
        units = cut(text).texts
        # A mark without a letter, or a joiner with nothing behind it, joins its new neighbour.
        if all(unit[0].isalnum() and unit[-1] != "\u200d" for unit in units):
            assert Counter(cut(view).texts) == Counter(units)


def test_f4_words_stay_whole() -> None:
    text = "how do I knit a sock"
    for view in views(Shuffle(), text):
        assert sorted(view.split(" ")) == sorted(text.split(" "))
        assert view != text


def test_a_shuffle_reaches_every_order_but_the_first() -> None:
    assert views(Shuffle(), "a b c") == {"a c b", "b a c", "b c a", "c a b", "c b a"}
    assert views(Shuffle(), "same same") == {"same same"}


def test_characters_are_shuffled_where_no_spaces_are_written() -> None:
    found = views(Shuffle(), "東京都")
    assert len(found) == 5
    assert all(sorted(view) == sorted("東京都") for view in found)


def test_neighbours_change_places() -> None:
    assert views(NeighbourSwap(), "a b c") == {"b a c", "a c b"}
    assert views(NeighbourSwap(), "東京都") == {"京東都", "東都京"}
    assert views(NeighbourSwap(), "same same") == {"same same"}
    assert views(NeighbourSwap(), "one") == {"one"}
    assert views(NeighbourSwap(9), "a b c d") == {"b a d c", "a c b d"}


def test_words_are_dropped_but_never_all() -> None:
    assert views(WordDrop(1.0), "a b c") == {"a", "b", "c"}
    assert views(WordDrop(0.0), "a b c") == {"b c", "a c", "a b"}
    assert views(WordDrop(0.0, at_least=0), "a b c") == {"a b c"}
    assert views(WordDrop(1.0), "one") == {"one"}
    assert views(WordDrop(0.0), "東京") == {"東", "京"}


def test_the_rate_is_the_share_of_dropped_words() -> None:
    text = "word " * 10_000
    view = WordDrop(0.1, at_least=0).augment(text, random.Random(0)).text
    assert len(view.split()) / 10_000 == pytest.approx(0.9, abs=0.01)


@given(ANYTHING, SEEDS)
def test_what_is_left_of_a_drop_stands_in_order(text: str, seed: int) -> None:
    view = WordDrop(0.4).augment(text, random.Random(seed)).text
    rest = iter("".join(text.split()))
    assert all(character in rest for character in "".join(view.split()))


def test_a_drop_is_light_only_where_little_goes() -> None:
    assert WordDrop().strength == "heavy"
    assert WordDrop(0.1, at_least=0).strength == "light"
    assert WordDrop(0.1).strength == "heavy"
    assert WordDrop(0.2, at_least=0).strength == "heavy"
    assert Shuffle().strength == NeighbourSwap().strength == "heavy"


def test_settings_out_of_range_are_refused() -> None:
    with pytest.raises(InvalidInputError, match=r"rate is 1\.5"):
        WordDrop(1.5)
    with pytest.raises(InvalidInputError, match="at_least is -1"):
        WordDrop(at_least=-1)
    with pytest.raises(InvalidInputError, match="swaps is 0"):
        NeighbourSwap(0)

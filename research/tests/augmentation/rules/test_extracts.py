from __future__ import annotations

import random

import pytest
from hypothesis import given

from pocketquery.client.views.text_units import cut
from pocketquery.sdk.errors import InvalidInputError
from pocketquery_research.augmentation.rules.extracts import Crop, StopwordDrop
from pocketquery_research.augmentation.rules.stopwords import STOPWORDS
from tests.client.augmented_texts import ANYTHING, SEEDS, views


def test_a_crop_is_every_stretch_of_its_length() -> None:
    assert views(Crop(0.5, 0.5), "a b c d") == {"a b", "b c", "c d"}
    assert views(Crop(), "two words") == {"two", "words"}
    assert views(Crop(), "東京都") == {"東京", "京都"}
    assert views(Crop(), "one") == {"one"}


def test_a_crop_keeps_the_share_it_says() -> None:
    text = " ".join(map(str, range(100)))
    lengths = {len(view.split()) for view in views(Crop(), text, 300)}
    assert min(lengths) in (60, 61)
    assert max(lengths) in (89, 90)


@given(ANYTHING, SEEDS)
def test_a_crop_is_part_of_the_text(text: str, seed: int) -> None:
    view = Crop().augment(text, random.Random(seed)).text
    assert view in text
    if len(cut(text).texts) > 1:
        assert view.strip() != text.strip()


def test_stop_words_go() -> None:
    drop = StopwordDrop()
    assert views(drop, "How do I knit a sock?") == {"knit sock?"}
    assert views(drop, "knit sock") == {"knit sock"}
    assert views(drop, "what is it") == {"what is it"}  # nothing would be left
    assert views(drop, "is it not safe") == {"not safe"}


def test_stop_words_are_those_of_the_language() -> None:
    rng = random.Random(0)
    assert StopwordDrop().augment("die hard", rng).text == "die hard"
    assert StopwordDrop().augment("wo ist die Bank", rng, "de").text == "Bank"
    assert StopwordDrop("de").augment("wo ist die Bank", rng).text == "Bank"
    assert not StopwordDrop().augment("a an the word", rng, "ja").changed
    assert all(word == word.casefold() for words in STOPWORDS.values() for word in words)


def test_settings_out_of_range_are_refused() -> None:
    with pytest.raises(InvalidInputError, match=r"least is 0\.9 and most 0\.6"):
        Crop(0.9, 0.6)
    with pytest.raises(InvalidInputError, match="language is 'xx', expected one of de, en"):
        StopwordDrop("xx")

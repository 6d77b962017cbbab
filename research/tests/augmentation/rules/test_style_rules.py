from __future__ import annotations

import random

import pytest

from pocketquery.sdk.errors import InvalidInputError
from pocketquery_research.augmentation.rules.style_rules import StyleRules
from tests.client.augmented_texts import views

PAIRS = [
    ("What is the information you want to have?", "what's the info u wanna have"),
    ("Do not give me your picture.", "don't gimme ur pic"),
]


@pytest.mark.parametrize(("formal", "informal"), PAIRS)
def test_a_formal_query_becomes_informal(formal: str, informal: str) -> None:
    assert views(StyleRules("informal"), formal) == {informal}
    assert views(StyleRules(), formal) == {informal}


def test_an_informal_query_becomes_formal() -> None:
    made = StyleRules("formal").augment("how do i fix ur app asap", random.Random(0))
    assert made.text == "How do I repair your application as soon as possible?"
    assert views(StyleRules("formal"), made.text) == {made.text}


def test_either_style_where_both_change_something() -> None:
    assert views(StyleRules(), "do u want to") == {"Do you want to?", "do u wanna"}


def test_other_languages_stay_and_other_styles_are_refused() -> None:
    assert not StyleRules().augment("wie geht es", random.Random(0), "de").changed
    assert StyleRules().strength == "heavy"
    with pytest.raises(InvalidInputError, match="towards is 'rude', expected"):
        StyleRules("rude")  # type: ignore[arg-type]

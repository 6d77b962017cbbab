from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given

from pocketquery_research.augmentation.rules.punctuation import Punct
from tests.client.augmented_texts import ANYTHING, views


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("is it late?", {"is it late"}),
        ("is it late", {"is it late?"}),
        ("well, is it 3.5 late?!", {"well is it 3.5 late", "well, is it 3.5 late"}),
        ("node.js or c++", {"node.js or c++"}),
        ("don't use .net, c#", {"don't use .net c#"}),
        ("東京、駅。", {"東京駅", "東京、駅"}),
        ("東京", {"東京？"}),
        ("كيف حالك", {"كيف حالك؟"}),
        ("Πού είναι", {"Πού είναι;"}),
        ("?!", {"?!"}),
        ("", {""}),
    ],
)
def test_marks_come_and_go(text: str, found: set[str]) -> None:
    assert views(Punct(), text) == found
    assert Punct().strength == "light"


@given(ANYTHING)
def test_letters_stay(text: str) -> None:
    def rest(one: str) -> Counter[str]:
        return Counter(c for c in one if c.isalnum())

    for view in views(Punct(), text, 3):
        assert rest(view) == rest(text)

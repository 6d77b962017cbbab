from __future__ import annotations

import re

import pytest
from hypothesis import given

from pocketquery_research.augmentation.rules.contractions import CONTRACTIONS, contract, expand
from tests.client.augmented_texts import ANYTHING


@pytest.mark.parametrize("text", ["that’ſ", "ıt's", "éit's"])
def test_letters_that_only_look_alike_are_no_contraction(text: str) -> None:
    assert expand(text) == text


@pytest.mark.parametrize("short", CONTRACTIONS)
def test_every_contraction_comes_back(short: str) -> None:
    sentence = f"so {short}, again"
    assert expand(sentence) == f"so {CONTRACTIONS[short]}, again"
    assert contract(expand(sentence)) == sentence


def test_only_whole_words_in_any_case_with_any_apostrophe() -> None:
    assert expand("What’s this? DON'T") == "What is this? Do not"
    assert expand("what'sapp") == "what'sapp"
    assert contract("can not, they are") == "can't, they're"
    assert contract("what island") == "what island"


@given(ANYTHING)
def test_what_has_none_stays(text: str) -> None:
    without = re.sub(r"['’\s]", "", text)  # a contraction has an apostrophe, what it is of a blank
    assert expand(without) == contract(without) == without

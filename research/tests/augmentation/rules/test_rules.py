"""What every augmenter promises, for the rules of this package."""

from __future__ import annotations

import random

import pytest
from hypothesis import given

from pocketquery.client.views.augmenter_choice import choose
from pocketquery.client.views.augmenters import Augmenter
from pocketquery.sdk.errors import InvalidInputError
from pocketquery.server.objectives.augmenter_catalogue import CATALOGUE
from tests.client.augmented_texts import ANYTHING, SEEDS

NAMES = ("crop", "stopword_drop", "punct", "style_rules", "synonym", "template")
every = pytest.mark.parametrize("name", NAMES)


def made(name: str) -> Augmenter:
    table = {"table": {"capital": ["metropolis", "seat"], "検索": ["探索"]}, "rate": 1.0}
    return choose({"name": name} | (table if name == "synonym" else {}), CATALOGUE)


@every
@given(text=ANYTHING, seed=SEEDS)
def test_equal_seeds_give_equal_views_that_are_not_blank(name: str, text: str, seed: int) -> None:
    augmenter = made(name)
    view = augmenter.augment(text, random.Random(seed))
    assert view == augmenter.augment(text, random.Random(seed))
    assert bool(view.text.strip()) == bool(text.strip())
    assert view.changed == (view.text != text)


@every
def test_the_interface_and_what_is_no_text(name: str) -> None:
    augmenter = made(name)
    assert isinstance(augmenter, Augmenter)
    assert (augmenter.name, augmenter.requires) == (name, ())
    with pytest.raises(InvalidInputError, match="the text"):
        augmenter.augment(None, random.Random(0))  # type: ignore[arg-type]

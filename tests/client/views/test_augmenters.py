"""Tests F1 to F6 of the catalogue, for every augmenter alike."""

from __future__ import annotations

import random
import socket
from typing import Any

import pytest
from hypothesis import given

from pocketquery.client.views.augmenters import Augmenter, AugResult, RuleAugmenter
from pocketquery.sdk.errors import InvalidInputError
from tests.client.augmented_texts import ANYTHING, AUGMENTERS, QUERIES, SEEDS, German

every = pytest.mark.parametrize("augmenter", AUGMENTERS, ids=lambda one: one.name)


@every
@given(text=ANYTHING, seed=SEEDS)
def test_f1_equal_seeds_give_equal_views(augmenter: Augmenter, text: str, seed: int) -> None:
    first = augmenter.augment(text, random.Random(seed))
    assert augmenter.augment(text, random.Random(seed)) == first


@every
@given(text=ANYTHING, seed=SEEDS)
def test_f2_f3_a_view_is_not_blank(augmenter: Augmenter, text: str, seed: int) -> None:
    made = augmenter.augment(text, random.Random(seed))
    assert bool(made.text.strip()) == bool(text.strip())
    assert made.changed == (made.text != text)
    made.text.encode("utf-8")


@every
@given(text=ANYTHING, seed=SEEDS)
def test_a_batch_is_one_after_another(augmenter: Augmenter, text: str, seed: int) -> None:
    rng = random.Random(seed)
    singly = [augmenter.augment(one, rng) for one in (text, "two words", text)]
    batch = augmenter.augment_batch([text, "two words", text], random.Random(seed))
    assert batch == singly


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("asked the network")

    for name in ("socket", "create_connection", "getaddrinfo"):
        monkeypatch.setattr(socket, name, refuse)


@every
@pytest.mark.usefixtures("no_network")
def test_f6_available_asks_no_network(augmenter: Augmenter) -> None:
    assert augmenter.available() == (True, "")
    augmenter.augment("some words", random.Random(0))


@every
def test_what_is_no_text_is_refused(augmenter: Augmenter) -> None:
    for wrong in (b"bytes", None, "half \ud83d"):
        with pytest.raises(InvalidInputError, match=r"the text"):
            augmenter.augment(wrong, random.Random(0))  # type: ignore[arg-type]


@every
def test_every_augmenter_speaks_the_interface(augmenter: Augmenter) -> None:
    assert isinstance(augmenter, Augmenter)
    assert augmenter.strength in ("light", "heavy")
    assert augmenter.requires == ()


@pytest.mark.parametrize("query", QUERIES)
@every
def test_what_is_heavy_changes_queries_of_every_script(augmenter: Augmenter, query: str) -> None:
    if augmenter.strength == "light":
        return
    changed = [augmenter.augment(query, random.Random(seed)).changed for seed in range(20)]
    assert sum(changed) >= 15


class Blank(RuleAugmenter):
    """A rule that leaves nothing."""

    name = "blank"

    def rewrite(self, text: str, rng: random.Random) -> str:
        return " "


def test_a_rule_that_leaves_nothing_could_not() -> None:
    assert Blank().augment("knit", random.Random(0)) == AugResult("knit", changed=False)


def test_an_augmenter_for_other_languages_leaves_a_text_alone() -> None:
    german, rng = German(), random.Random(0)
    assert german.augment("bank", rng, "de") == AugResult("geldinstitut", changed=True)
    assert german.augment("bank", rng, "en") == AugResult("bank", changed=False)
    assert german.augment("bank", rng).changed

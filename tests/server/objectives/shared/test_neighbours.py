"""Drawing neighbours: always of one window, never empty or repeated, all of them in the end."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from pocketquery.server.corpus.groups import Group
from pocketquery.server.objectives.shared.text_pairs import Neighbours, draw_neighbours

LETTERS = tuple(f"sentence {chr(97 + i)}" for i in range(8))


def draws(texts: tuple[str, ...], window_len: int, count: int = 2000) -> list[Neighbours]:
    rng = random.Random(0)
    group = Group("d", texts, lang="fr")
    found = [draw_neighbours(group, window_len, 3, rng) for _ in range(count)]
    return [pair for pair in found if pair is not None]


@pytest.mark.parametrize("window_len", [2, 3, 5])
def test_every_pair_of_a_window_is_drawn_and_no_other(window_len: int) -> None:
    seen = Counter((p.centre_position, p.context_position) for p in draws(LETTERS, window_len))
    expected = {(a, b) for a in range(8) for b in range(8) if 1 <= abs(a - b) <= window_len - 1}
    assert set(seen) == expected


def test_centres_are_uniform_and_so_are_the_neighbours_of_one() -> None:
    pairs = draws(LETTERS, 3, 16000)
    centres = Counter(p.centre_position for p in pairs)
    assert all(abs(centres[place] / 16000 - 1 / 8) < 0.015 for place in range(8))
    at_the_end = Counter(p.context_position for p in pairs if p.centre_position == 7)
    assert abs(at_the_end[5] / at_the_end.total() - 0.5) < 0.05


def test_the_texts_are_those_of_the_positions() -> None:
    pair = draws(LETTERS, 5, 1)[0]
    assert (pair.centre, pair.context) == (
        LETTERS[pair.centre_position],
        LETTERS[pair.context_position],
    )
    assert (pair.language, pair.document) == ("fr", "d")


def test_empty_and_repeated_sentences_are_passed_over_but_counted() -> None:
    texts = ("One two", "...", "", "one  TWO", "東京都", "a b c")
    seen = {(p.centre_position, p.context_position) for p in draws(texts, 5)}
    assert seen == {(0, 4), (4, 0), (4, 5), (5, 4)}


@pytest.mark.parametrize(
    "texts",
    [(), ("alone here",), ("same text", "Same  text"), ("first one", *("",) * 9, "last one")],
)
def test_a_document_without_two_near_sentences_has_no_example(texts: tuple[str, ...]) -> None:
    assert draw_neighbours(Group("d", texts), 5, 3, random.Random(0)) is None

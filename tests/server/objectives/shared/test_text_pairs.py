"""Pairs drawn from sessions, documents and windows of sentences."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from pocketquery.server.corpus.groups import Group
from pocketquery.server.objectives.shared.text_pairs import (
    Neighbours,
    draw_adjacent,
    draw_neighbours,
    draw_pair,
    session_turns,
)

SESSION = Group(
    id="s1",
    texts=("hello", "my coupon is gone", "  ", "which one", "the red one", "see  here"),
    roles=("user", "user", "agent", "agent", "user", "agent"),
)


def draws(group: Group, count: int = 200, **options: bool) -> set[tuple[str, str]]:
    rng = random.Random(0)
    pairs = (draw_pair(group, rng, **options) for _ in range(count))  # type: ignore[arg-type]
    return {(pair.user, pair.agent) for pair in pairs if pair is not None}


def test_messages_of_one_side_are_joined_and_empty_ones_left_out() -> None:
    assert session_turns(SESSION) == [
        (True, "hello my coupon is gone"),
        (False, "which one"),
        (True, "the red one"),
        (False, "see  here"),
    ]


def test_an_empty_message_between_two_of_one_side_does_not_part_them() -> None:
    group = Group("s", ("a", "", "b"), ("user", "agent", "user"))
    assert session_turns(group) == [(True, "a b")]


def test_the_user_is_who_is_called_so_or_speaks_first_or_is_named() -> None:
    helpers = Group("s", ("how", "so", "or so", "thanks"), ("ann", "bob", "eve", "ann"))
    assert session_turns(helpers) == [(True, "how"), (False, "so or so"), (True, "thanks")]
    opened_by_agent = Group("s", ("welcome", "hi"), ("S", "U"))
    assert session_turns(opened_by_agent) == [(False, "welcome"), (True, "hi")]
    assert session_turns(helpers, "bob")[0] == (False, "how")


def test_any_turn_of_the_agent_goes_with_any_of_the_user() -> None:
    users, agents = ("hello my coupon is gone", "the red one"), ("which one", "see  here")
    assert draws(SESSION) == {(user, agent) for user in users for agent in agents}


def test_a_title_goes_with_a_sentence_of_its_body() -> None:
    document = Group("d", ("title", "one", "two"), title=True)
    assert draws(document) == {("title", "one"), ("title", "two")}


def test_a_pair_is_its_two_texts() -> None:
    assert draws(Group("p", ("question", "answer"))) == {("question", "answer")}


def test_texts_without_a_partner_stand_alone() -> None:
    assert draws(Group("d", ("one", "two", "three"))) == {("one", ""), ("two", ""), ("three", "")}
    assert draws(Group("q", ("query",))) == {("query", "")}
    assert draws(Group("d", ("only a title",), title=True)) == {("only a title", "")}
    assert draws(Group("d", (" ", "one", "two"), title=True)) == {("one", ""), ("two", "")}
    assert draws(Group("s", ("one", "speaker"), ("user", "user"))) == {("one speaker", "")}


def test_empty_groups_give_nothing() -> None:
    for group in (
        Group("d", ()),
        Group("d", ("", " "), title=True),
        Group("s", (" ", ""), ("user", "agent")),
    ):
        assert draw_pair(group, random.Random(0)) is None
        assert draw_adjacent(group, random.Random(0)) is None


def test_adjacent_texts_follow_one_another_in_documents_and_sessions() -> None:
    rng = random.Random(0)
    document = Group("d", ("a", " ", "b", "c"))
    assert {draw_adjacent(document, rng) for _ in range(50)} == {("a", "b"), ("b", "c")}
    assert {draw_adjacent(SESSION, rng) for _ in range(50)} == {
        ("hello my coupon is gone", "which one"),
        ("which one", "the red one"),
        ("the red one", "see  here"),
    }
    assert draw_adjacent(Group("d", ("alone",)), rng) is None


LETTERS = tuple(f"sentence {chr(97 + i)}" for i in range(8))


def neighbours(texts: tuple[str, ...], window_len: int, count: int = 2000) -> list[Neighbours]:
    rng = random.Random(0)
    group = Group("d", texts, lang="fr")
    found = [draw_neighbours(group, window_len, 3, rng) for _ in range(count)]
    return [pair for pair in found if pair is not None]


@pytest.mark.parametrize("window_len", [2, 3, 5])
def test_every_pair_of_a_window_is_drawn_and_no_other(window_len: int) -> None:
    seen = Counter((p.centre_position, p.context_position) for p in neighbours(LETTERS, window_len))
    expected = {(a, b) for a in range(8) for b in range(8) if 1 <= abs(a - b) <= window_len - 1}
    assert set(seen) == expected


def test_centres_are_uniform_and_so_are_the_neighbours_of_one() -> None:
    pairs = neighbours(LETTERS, 3, 16000)
    centres = Counter(p.centre_position for p in pairs)
    assert all(abs(centres[place] / 16000 - 1 / 8) < 0.015 for place in range(8))
    at_the_end = Counter(p.context_position for p in pairs if p.centre_position == 7)
    assert abs(at_the_end[5] / at_the_end.total() - 0.5) < 0.05


def test_the_texts_are_those_of_the_positions() -> None:
    pair = neighbours(LETTERS, 5, 1)[0]
    assert (pair.centre, pair.context) == (
        LETTERS[pair.centre_position],
        LETTERS[pair.context_position],
    )
    assert (pair.language, pair.document) == ("fr", "d")


def test_empty_and_repeated_sentences_are_passed_over_but_counted() -> None:
    texts = ("One two", "...", "", "one  TWO", "東京都", "a b c")
    seen = {(p.centre_position, p.context_position) for p in neighbours(texts, 5)}
    assert seen == {(0, 4), (4, 0), (4, 5), (5, 4)}


@pytest.mark.parametrize(
    "texts",
    [(), ("alone here",), ("same text", "Same  text"), ("first one", *("",) * 9, "last one")],
)
def test_a_document_without_two_near_sentences_has_no_example(texts: tuple[str, ...]) -> None:
    assert draw_neighbours(Group("d", texts), 5, 3, random.Random(0)) is None

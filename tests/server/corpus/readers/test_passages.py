"""Passages against a slow twin that packs text by text."""

from __future__ import annotations

import pickle
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pocketquery.sdk.errors import InvalidInputError
from pocketquery.server.corpus import Group, GroupList, Passages, write_text_store
from tests.server.corpus.synthetic_groups import every, group_lists


def packed(group: Group, most: int, least: int) -> list[Group]:
    """The passages of one group, taken text by text."""
    runs: list[list[int]] = []
    sizes = [len(text.encode()) for text in group.texts]
    for place, size in enumerate(sizes):
        if runs and sum(sizes[i] for i in runs[-1]) + size <= most:
            runs[-1].append(place)
        else:
            runs.append([place])
    if len(runs) > 1 and sum(sizes[i] for i in runs[-1]) < max(least, 1):
        last = runs.pop()
        runs[-1] += last
    return [
        Group(
            group.id,
            tuple(group.texts[i] for i in run),
            tuple(group.roles[i] for i in run) if group.roles else (),
            group.lang,
            group.title and run[0] == 0,
        )
        for run in runs
        if any(sizes[i] for i in run)
    ]


@given(group_lists, st.integers(1, 30), st.integers(0, 30))
def test_the_passages_are_the_slow_twins(groups: list[Group], most: int, least: int) -> None:
    least = min(least, most)
    source = GroupList(groups, "documents")
    passages = Passages(source, most, least)
    expected = GroupList([run for group in groups for run in packed(group, most, least)], "pairs")
    assert every(passages) == every(expected)
    assert passages.counts().tolist() == expected.counts().tolist()
    assert passages.lengths().tolist() == expected.lengths().tolist()
    languages = [passages.languages[code] for code in passages.language_codes()]
    assert languages == [expected[row].lang for row in range(len(expected))]
    assert passages.counts().dtype == np.int32
    assert passages.lengths().dtype == np.int64


@settings(max_examples=20)
@given(group_lists)
def test_a_store_has_the_passages_of_its_list(groups: list[Group]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = write_text_store(Path(folder) / "s", groups, "documents")
        ours, theirs = Passages(store, 12, 4), Passages(GroupList(groups, "documents"), 12, 4)
        assert every(ours) == every(theirs)
        assert ours.fingerprint == theirs.fingerprint


def test_by_hand() -> None:
    """Of 3 + 3 + 3 + 1 bytes two runs of six and three, and the short end with the latter."""
    source = GroupList([Group("d", ("abc", "def", "ghi", "j"), title=True)], "documents")
    first, second = every(Passages(source, most_bytes=6, least_bytes=2))
    assert (first.texts, first.title) == (("abc", "def"), True)
    assert (second.texts, second.title) == (("ghi", "j"), False)
    assert every(Passages(source, most_bytes=9, least_bytes=2)) == [source[0]]


def test_short_groups_are_passages_and_empty_ones_are_not() -> None:
    groups = [Group("a", ("hi",)), Group("b", ()), Group("c", ("", "")), Group("d", ("x" * 900,))]
    passages = Passages(GroupList(groups, "queries"))
    assert [group.id for group in every(passages)] == ["a", "d"]
    assert passages.kind == "queries"
    assert len(Passages(GroupList([], "queries"))) == 0


def test_the_fingerprint_follows_content_and_bounds() -> None:
    one, two = (GroupList([Group("a", (text,))], "documents") for text in "xy")
    found = {Passages(one).fingerprint, Passages(two).fingerprint, Passages(one, 300).fingerprint}
    assert len(found) == 3


def test_passages_of_a_store_travel_to_workers(tmp_path: Path) -> None:
    store = write_text_store(tmp_path / "s", [Group("a", ("x" * 300, "y" * 300))], "documents")
    again = pickle.loads(pickle.dumps(Passages(store)))
    assert again[1].texts == ("y" * 300,)


def test_a_row_that_is_not_there_is_an_index_error() -> None:
    passages = Passages(GroupList([Group("a", ("x",))], "documents"))
    assert passages[-1].texts == ("x",)
    with pytest.raises(IndexError):
        passages[1]


@pytest.mark.parametrize(("most", "least"), [(0, 0), (5, 6), (5, -1)])
def test_bounds_that_cannot_be(most: int, least: int) -> None:
    with pytest.raises(InvalidInputError, match="expected most_bytes from 1"):
        Passages(GroupList([], "documents"), most, least)

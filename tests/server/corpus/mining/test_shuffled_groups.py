from __future__ import annotations

from collections import Counter
from pathlib import Path

from pocketquery.server.corpus.groups import Group
from pocketquery.server.corpus.mining.shuffled_groups import shuffle_groups, unique_groups

ODD = [
    Group("s", ("hello\nthere", "", "\ud83d"), ("user", "agent", "user"), "en"),
    Group("d\n1", ("Titel", "文"), lang="de", title=True),
    Group("e", ()),
]


def test_groups_come_back_as_they_were(tmp_path: Path) -> None:
    found = list(shuffle_groups(ODD * 3, 0, tmp_path / "out", memory=100))
    assert Counter(found) == Counter(ODD * 3)
    assert list(shuffle_groups(ODD * 3, 1, tmp_path / "out", memory=100)) != found


def test_pairs_with_equal_texts_are_one_in_either_order(tmp_path: Path) -> None:
    pairs = [
        Group("a", ("One text", "another")),
        Group("b", ("Another", "one  TEXT")),
        Group("c", ("one text", "a third")),
        Group("d", ("one text another", "")),
    ]
    found = list(unique_groups(pairs, 0, tmp_path / "out"))
    assert len(found) == 3
    assert {pair.id for pair in found} in ({"a", "c", "d"}, {"b", "c", "d"})
    assert list(unique_groups(pairs[::-1], 0, tmp_path / "out")) == found

from __future__ import annotations

from pathlib import Path

import pytest

from pocketquery.server.corpus import Group
from pocketquery.server.corpus.readers.sessions import read_sessions, roles_of
from tests.server.corpus.readers.lines import check_refused, write


def test_every_layout_of_a_session(tmp_path: Path) -> None:
    lines = [
        {"id": "s", "lang": "de", "turns": [{"role": "user", "text": "Hallo"}]},
        {"turns": [["U", "hi"], ["S", "what\nis it?"], ["U", "this"]]},
        {
            "_id": 3,
            "turns": [{"speaker": "Agent", "text": "a"}, {"speaker": "CUSTOMER", "text": ""}],
        },
        {"id": "none", "turns": []},
    ]
    assert list(read_sessions(write(tmp_path / "s.jsonl", *lines), lang="en")) == [
        Group("s", ("Hallo",), ("user",), "de"),
        Group("2", ("hi", "what is it?", "this"), ("user", "agent", "user"), "en"),
        Group("3", ("a",), ("agent",), "en"),
        Group("none", (), (), "en"),
    ]


def test_neighbouring_turns_of_one_role_become_one(tmp_path: Path) -> None:
    turns = [["U", "a"], ["U", "b"], ["S", " "], ["U", "c"], ["S", "d"], ["S", "e"]]
    path = write(tmp_path / "s.jsonl", {"turns": turns})
    (merged,) = read_sessions(path)
    assert (merged.texts, merged.roles) == (("a b c", "d e"), ("user", "agent"))


def test_who_asks_in_a_chat_is_the_user_and_the_rest_are_agents() -> None:
    assert roles_of(["eva", "tom", "eva", "ann"]) == ["user", "agent", "user", "agent"]
    assert roles_of(["agent", "tom", "agent"]) == ["user", "agent", "user"]  # a nick, then
    assert roles_of(["System", "u"]) == ["agent", "user"]
    assert roles_of(["agent", "Visitor", "agent"]) == ["agent", "user", "agent"]
    assert roles_of(["operator", "usr"]) == ["agent", "user"]
    assert roles_of([]) == []


def test_roles_may_keep_their_names(tmp_path: Path) -> None:
    path = write(tmp_path / "s.jsonl", {"turns": [["eva ", "a"], ["eva", "b"], ["U", "c"]]})
    (group,) = read_sessions(path, rename=False)
    assert (group.texts, group.roles) == (("a b", "c"), ("eva", "U"))


def test_a_session_of_one_speaker_is_kept(tmp_path: Path) -> None:
    path = write(tmp_path / "s.jsonl", {"turns": [["eva", "a"], ["eva", "b"]]})
    assert [group.roles for group in read_sessions(path)] == [("user",)]


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ({"id": "a"}, "no field 'turns'"),
        ({"turns": "hi"}, "turns is str; expected a list"),
        ({"turns": ["hi"]}, "turns[0] is 'hi'"),
        ({"turns": [["U", "a", "b"]]}, "turns[0] is"),
        ({"turns": [["", "a"]]}, "turns[0] has no speaker"),
        ({"turns": [{"text": "a"}]}, "turns[0] has no speaker"),
        ({"turns": [["U", 5]]}, "turns[0] is int"),
    ],
)
def test_a_line_that_is_no_session_is_named(tmp_path: Path, line: object, found: str) -> None:
    path = write(tmp_path / "s.jsonl", line)
    check_refused(lambda path: list(read_sessions(path)), path, 1, found)

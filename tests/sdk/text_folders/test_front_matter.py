from __future__ import annotations

import datetime
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketquery.sdk.text_folders.front_matter import front_matter

yaml = pytest.importorskip("yaml")  # the twin


@pytest.mark.parametrize(
    "text",
    [
        'title: "a \\"b\\" c" # note',
        "title: it's\nurl: http://a.org/x#y",
        'tags: [a, "b, c", d]\naliases: []',
        "tags:\n- a\n- b\nx: 1",
        "a:\n  b: 1\n  c: [x]\n  d:\n    - e\n    - f: 1\n      g: 2",
        "d: 2024-05-01\nt: 2024-05-01 10:00:00",
        "draft: true\nn: -3\nf: 2.5\nv: 1.2.3\nnothing:\nempty: null",
        "t: a\n  b\n  c\n'k': 'it''s'\n\"quoted key\": v",
        "x: |-\n  l1\n  l2\ny: 2",
        'e: 🎉\nlink: "[[Note]]"\nt: C# in depth\np: 50%',
        'x: [a,\n  b]\n# a comment\na: "on\n  two lines"',
    ],
)
def test_as_yaml_reads_it(text: str) -> None:
    def plain(value: Any) -> Any:
        return value.isoformat() if isinstance(value, datetime.date) else str(value)

    expected = json.loads(json.dumps(yaml.safe_load(text), default=plain))
    source = f"---\n{text}\n---\nrest"
    fields, start = front_matter(source)
    assert (fields, source[start:]) == (expected, "rest")


def test_what_people_write_that_is_no_yaml() -> None:
    source = "---\ntitle: Foo: bar\ncover: ![[a.png]]\ntime: 10:30\nwho: @me\n---\n"
    assert front_matter(source)[0] == {
        "title": "Foo: bar",
        "cover": "![[a.png]]",
        "time": "10:30",
        "who": "@me",
    }


def test_toml() -> None:
    source = (
        '+++\ntitle = "A"\ndate = 2024-05-01T10:00:00Z\ntags = ["x"]\n[extra]\ny = 1.5\n+++\nrest'
    )
    fields, start = front_matter(source)
    assert source[start:] == "rest"
    assert fields == {
        "title": "A",
        "date": "2024-05-01T10:00:00+00:00",
        "tags": ["x"],
        "extra": {"y": 1.5},
    }


@pytest.mark.parametrize(
    "text",
    [
        "---\nJust a rule.\n---\nrest",
        "---\na: b\nprose here\n---\n",
        "---\na: b",
        "+++\nx\n+++\n",
        "a\n---\nb: c\n---\n",
    ],
)
def test_rules_are_no_front_matter(text: str) -> None:
    assert front_matter(text) == ({}, 0)


@given(
    st.lists(
        st.sampled_from(["a", ":", " ", "-", "\n", "  ", "[", "]", "'", '"', "|", "#", ",", "é"])
    ).map("".join)
)
def test_anything_between_rules_is_read_or_left(text: str) -> None:
    fields, start = front_matter(f"---\n{text}\n---\n")
    json.dumps(fields, allow_nan=False)
    assert start or not fields

"""Simulated users: read from files, or made of plain queries."""

from __future__ import annotations

import gzip
import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketquery.client.store.store import Example
from pocketquery.sdk.errors import CorpusError, InvalidInputError
from pocketquery_simulation.users import by_topic, read_clients


def write(path: Path, *entries: Any) -> Path:
    path.write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    return path


def test_users_are_read_with_what_they_were_shown_and_opened(tmp_path: Path) -> None:
    path = write(
        tmp_path / "clients.jsonl",
        {"client": "b", "query": "sea"},
        {"client": 7, "query": "sky", "shown": ["d1", 2], "opened": 2},
        {"client": "b", "query": "sun", "shown": None, "opened": None},
    )
    found = read_clients(path)
    assert list(found) == ["b", "7"]
    assert found["b"].examples() == [Example("sea"), Example("sun")]
    assert found["b"].examples(1) == [Example("sun")]
    assert found["7"].kept == (Example("sky", ("d1", "2"), "2"),)
    assert found["7"].consent
    zipped = tmp_path / "clients.jsonl.gz"
    zipped.write_bytes(gzip.compress(path.read_bytes()))
    assert read_clients(zipped) == found


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ({"query": "x"}, "client"),
        ({"client": "a"}, "query"),
        ({"client": "a", "query": " "}, "empty query"),
        ({"client": "a", "query": 3}, "query is int"),
        ({"client": "a", "query": "x", "opened": "d"}, "opened 'd'"),
        ({"client": "a", "query": "x", "shown": "d"}, "shown is str"),
        ({"client": "a", "query": "x", "shown": [None]}, "shown is NoneType"),
        ([], "JSON list"),
    ],
)
def test_what_is_no_users_query_is_refused_with_file_and_line(
    tmp_path: Path, entry: Any, said: str
) -> None:
    path = write(tmp_path / "clients.jsonl", {"client": "a", "query": "fine"}, entry)
    with pytest.raises(CorpusError, match=r"clients.jsonl, line 2") as caught:
        read_clients(path)
    assert said in str(caught.value)


def test_a_file_without_users_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="no line"):
        read_clients(write(tmp_path / "empty.jsonl"))


@given(
    count=st.integers(1, 60),
    clients=st.integers(1, 30),
    each=st.integers(1, 20),
    seed=st.integers(0, 9),
)
def test_made_up_users_ask_about_neighbouring_documents(
    count: int, clients: int, each: int, seed: int
) -> None:
    nearest = np.random.default_rng(seed).integers(0, 10, count)
    queries = [f"query {number}" for number in range(count)]
    users = by_topic(queries, nearest, clients, each)
    assert len(users) == clients
    place = {
        query: rank
        for rank, query in enumerate(np.array(queries)[np.argsort(nearest, kind="stable")])
    }
    for store in users.values():
        asked = [place[example.query] for example in store.kept]
        assert len(set(asked)) == len(asked) == min(each, count)
        assert all((b - a) % count == 1 for a, b in itertools.pairwise(asked))
    if clients * each >= 2 * count:  # then nobody's query is left over
        kept = {example.query for store in users.values() for example in store.kept}
        assert kept == set(queries) or each < count // clients + 1


@pytest.mark.parametrize(("queries", "clients", "each"), [([], 1, 1), (["a"], 0, 1), (["a"], 1, 0)])
def test_nobody_and_nothing_are_refused(queries: list[str], clients: int, each: int) -> None:
    with pytest.raises(InvalidInputError, match="at least one of each"):
        by_topic(queries, np.zeros(len(queries), np.intp), clients, each)

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pocketquery.sdk.index.analysis import Analyzer, spaced


@pytest.fixture(scope="module")
def analyzer() -> Iterator[Analyzer]:
    made = Analyzer()
    yield made
    made.close()


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("The running dogs", {"the": 1, "run": 1, "dog": 1}),
        ("Café CAFE cafe\u0301", {"cafe": 3}),
        ("ﬁnd １２３", {"find": 1, "123": 1}),
        ("हिन्दी में", {"हिन्दी": 1, "में": 1}),
        ("Αθήνα Москва", {"αθηνα": 1, "москва": 1}),
        ("검색 엔진", {"검색": 1, "엔진": 1}),
        ("東京", {"東": 1, "京": 1, "東京": 1}),
        ("GPUで検索", {"gpu": 1, "で": 1, "検": 1, "索": 1, "で検": 1, "検索": 1}),
        ("ที่นี่", {"ที่": 1, "นี่": 1, "ที่นี่": 1}),
        ("ក្រុង", {"ក្": 1, "រុ": 1, "ង": 1, "ក្រុ": 1, "រុង": 1}),
        ("nul\0word", {"nul": 1, "word": 1}),
        ("", {}),
        (" \n\t!?…", {}),
    ],
)
def test_terms(analyzer: Analyzer, text: str, terms: dict[str, int]) -> None:
    assert analyzer.terms(text) == terms


@pytest.mark.parametrize(
    "text", ['a AND "b', "NEAR(x y", "col : x", "x*", "'; DROP TABLE texts; --", "^a OR -b", "{a}"]
)
def test_query_syntax_is_only_text(analyzer: Analyzer, text: str) -> None:
    assert analyzer.terms(text)
    assert analyzer.terms("still here") == {"still": 1, "here": 1}


@settings(max_examples=300, deadline=None)
@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=60))
def test_any_text_has_terms_and_leaves_nothing_behind(text: str) -> None:
    shared = _SHARED
    first = shared.terms(text)
    assert shared.terms(text) == first
    assert all(first.values())
    assert shared.terms(f"{text} zebra")["zebra"] >= 1


_SHARED = Analyzer()


def test_occurrences_are_by_text(analyzer: Analyzer) -> None:
    found = analyzer.occurrences(["b a a", "", "b"])
    assert found == {("a", 0): 2, ("b", 0): 1, ("b", 2): 1}


def test_spaced_text_without_such_scripts_is_unchanged() -> None:
    assert spaced("plain words, здесь тоже") == "plain words, здесь тоже"


def test_long_text(analyzer: Analyzer) -> None:
    assert analyzer.terms("word " * 20_000) == {"word": 20_000}
    assert analyzer.terms("x" * 100_000)
    assert analyzer.terms("水" * 30_000) == {"水": 30_000, "水水": 29_999}


def test_threads_take_turns(analyzer: Analyzer) -> None:
    wrong: list[str] = []

    def work(word: str) -> None:
        for _ in range(100):
            found = analyzer.terms(f"{word} {word}")
            wrong.extend([word] if found != {word: 2} else [])

    threads = [threading.Thread(target=work, args=(word,)) for word in ("cat", "dog", "fox")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong

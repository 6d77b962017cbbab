from __future__ import annotations

import re
import threading
import unicodedata
from collections.abc import Iterator
from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pocketquery.sdk.index.analysis import _ACCENTS, UNSPACED, Analyzer, _stream_safe, spaced
from tests.sdk.diverse_text import diverse_strings


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


MARKS = (
    "\u0301\u0316\u034f\u05b0\u0591\u0e38\u0e48\u0f71\u0f73\u0f81\u1037\u3099\uff9e\u0344\U0001d165"
)


@settings(max_examples=300, deadline=None)
@given(st.text(MARKS + "a\u1fa7\u0e01\u0e34\u05d0", max_size=400))
@example("a" + "\u0316\u0301" * 200)
@example("\u05d0" + ("\u0591" * 20 + "\u034f") * 10)  # what stands between is dropped
@example("\u0f40" + "\u0f73\u0f71" * 200)  # starters that decompose into marks
def test_no_run_that_is_put_in_order_is_long(text: str) -> None:
    """Canonical ordering takes the square of a run's length: 80 KB took two seconds."""
    bare = _ACCENTS.sub("", unicodedata.normalize("NFKD", _stream_safe(text)))
    assert _longest_run(unicodedata.normalize("NFKD", _stream_safe(text))) <= 100
    assert _longest_run(bare) <= 100


def _longest_run(text: str) -> int:
    marks = "".join("1" if unicodedata.combining(character) else "0" for character in text)
    return max(map(len, marks.split("0")))


@settings(max_examples=200, deadline=None)
@given(st.text("a\u0e01", min_size=1, max_size=20), st.text(MARKS, max_size=30))
def test_up_to_thirty_marks_all_count(letters: str, marks: str) -> None:
    assert _stream_safe(letters + marks) == letters + marks
    assert _stream_safe(letters + marks + "a" + marks) == letters + marks + "a" + marks


def test_ordinary_text_is_analysed_as_ever() -> None:
    for text in diverse_strings(5_000, seed=30):
        assert spaced(text) == _spaced_by_definition(text)


def _spaced_by_definition(text: str) -> str:
    bare = _ACCENTS.sub("", unicodedata.normalize("NFKD", text))

    def pieces(run: re.Match[str]) -> str:
        letters: list[str] = []
        for character in run[0]:
            if letters and unicodedata.category(character).startswith("M"):
                letters[-1] += character
            else:
                letters.append(character)
        return f" {' '.join(letters + [a + b for a, b in pairwise(letters)])} "

    return UNSPACED.sub(pieces, unicodedata.normalize("NFC", bare))


def test_a_term_that_is_cut_through_a_character_is_a_term(analyzer: Analyzer) -> None:
    (term,) = analyzer.terms("\u0905" * 20_000)  # three bytes each, and FTS5 keeps 32,768
    assert set(term) == {"\u0905"}


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

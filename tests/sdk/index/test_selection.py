from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pocketquery.sdk.errors import InvalidInputError
from pocketquery.sdk.index import selection
from pocketquery.sdk.index.documents import Document
from pocketquery.sdk.index.index import Index, open_index
from tests.sdk.small_index import WordEncoder, new_index, vectors_of

WORDS = ["oak", "elm", "ash", "fir"]
WORD = st.sampled_from(WORDS)
PHRASE = st.lists(WORD, min_size=2, max_size=5)


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Index]:
    """300 documents of four words in every order."""
    path = tmp_path_factory.mktemp("selection") / "index"
    random = np.random.default_rng(1)
    texts = [" ".join(random.choice(WORDS, random.integers(1, 6))) for _ in range(300)]
    documents = [Document(str(n), text, {"part": n % 2}) for n, text in enumerate(texts)]
    with new_index(path) as builder:
        builder.add(documents, vectors_of(documents))
    with open_index(path, encoder=WordEncoder(), writable=True) as opened:
        opened.delete(["5"])
        yield opened


def has_phrase(words: list[str], phrase: list[str]) -> bool:
    starts = range(len(words) - len(phrase) + 1)
    return any(words[start : start + len(phrase)] == phrase for start in starts)


@settings(max_examples=60, deadline=None)
@given(
    phrases=st.lists(PHRASE, max_size=1),
    unwanted=st.lists(PHRASE, max_size=1),
    must=st.lists(WORD, max_size=1),
    without=st.lists(WORD, max_size=1),
    mode=st.sampled_from(["dense", "lexical", "hybrid"]),
    part=st.sampled_from([None, {"part": 1}]),
    tried=st.sampled_from([1, 40, 256]),
)
def test_what_a_query_demands(
    index: Index,
    phrases: list[list[str]],
    unwanted: list[list[str]],
    must: list[str],
    without: list[str],
    mode: Any,
    part: Any,
    tried: int,
) -> None:
    query = " ".join(
        [
            "oak elm ash fir",
            *(f'"{" ".join(phrase)}"' for phrase in phrases),
            *(f'-"{" ".join(phrase)}"' for phrase in unwanted),
            *(f"+{word}" for word in must),
            *(f"-{word}" for word in without),
        ]
    )
    expected = set()
    texts = [document.text.split() for document in index.documents()]
    phrases = [one for one in phrases if any(has_phrase(words, one) for words in texts)]
    for document in index.documents():
        words = document.text.split()
        if (
            all(has_phrase(words, phrase) for phrase in phrases)
            and not any(has_phrase(words, phrase) for phrase in unwanted)
            and set(must) <= set(words)
            and not set(without) & set(words)
            and (part is None or document.metadata["part"] == 1)
        ):
            expected.add(document.id)
    everything = index.search(query, 1000, mode=mode, filter=part)
    assert {hit.id for hit in everything} == expected
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pocketquery.sdk.index.selection._PHRASE_SAMPLE_ROWS", tried)
        assert index.search(query, 7, mode=mode, filter=part) == everything[:7]


@pytest.mark.parametrize("mode", ["dense", "lexical", "hybrid"])
def test_a_phrase_that_no_document_has_demands_nothing(index: Index, mode: Any) -> None:
    plain = index.search("oak maple elm", 1000, mode=mode)
    assert plain
    for absent in ("maple elm", "oak maple", "fir fir fir fir fir fir"):
        found = index.search(f'oak "{absent}"', 1000, mode=mode)
        assert found == index.search(f"oak {absent}", 1000, mode=mode)
        assert found.absent_phrases == 1
    assert not index.search('oak +"maple elm"', mode=mode)
    words = {one.id: one.text.split() for one in index.documents()}
    phrase = next(
        one
        for name, one in words.items()
        if int(name) % 2 == 0
        and not any(has_phrase(text, one) for other, text in words.items() if int(other) % 2)
    )
    assert not index.search(f'"{" ".join(phrase)}"', mode=mode, filter={"part": 1})


def test_texts_and_postings_are_read_once(index: Index) -> None:
    read: list[Any] = []

    def recorded(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(connection: object, what: Any, *others: Any) -> Any:
            read.extend((name, one) for one in ([what] if isinstance(what, str) else what))
            return function(connection, what, *others)

        return call

    with pytest.MonkeyPatch.context() as patch:
        for name in ("documents_of_rows", "postings_of"):
            patch.setattr(selection, name, recorded(name, getattr(selection, name)))
        index.search('"oak elm" "elm oak" "oak maple" -"fir ash"', 50, group_by="part")
    assert len(read) > 20
    assert len(read) == len(set(read))


@pytest.mark.parametrize("query", ["-oak", '-"oak elm"', "-oak -elm"])
def test_a_query_that_only_excludes_is_refused(index: Index, query: str) -> None:
    with pytest.raises(InvalidInputError, match="must not be there"):
        index.search(query)


def test_an_empty_phrase_beside_words_is_none(index: Index) -> None:
    assert index.search('"" "oak', 3)


def test_a_word_that_no_document_has_stands_for_the_nearest(index: Index) -> None:
    found = index.search("maple", mode="lexical")
    assert not found
    found = index.search("oakk", mode="lexical")
    assert found
    assert all("oak" in hit.text for hit in found)
    begun = index.search("oa", mode="lexical", prefix=True)
    assert {hit.id for hit in begun} <= {hit.id for hit in index.search("oak", 1000)}
    assert begun


@pytest.mark.parametrize("query", ["", " ", '"', "-oak", '-"oak tree"', "+"])
@pytest.mark.parametrize("mode", ["hybrid", "lexical", "dense"])
def test_what_is_being_typed_may_ask_for_nothing_yet(index: Index, query: str, mode: Any) -> None:
    assert index.search(query, mode=mode, prefix=True) == []
    assert index.search(query, mode=mode, prefix=True, group_by="part") == []
    with pytest.raises(InvalidInputError, match="k is 0"):
        index.search(query, k=0, mode=mode, prefix=True)

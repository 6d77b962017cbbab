from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pocketquery.sdk.index.bm25 import Lexical
from pocketquery.sdk.index.documents import Document
from pocketquery.sdk.index.index import Index, open_index
from pocketquery.sdk.index.search import Fusion
from pocketquery.sdk.index.vector_file import Languages
from pocketquery.sdk.results.hits import Hit
from tests.sdk.small_index import WordEncoder, new_index, vectors_of

WORDS = ["bridge", "river", "engine", "garden", "castle", "comet", "x", "."]
QUERIES = st.lists(st.sampled_from([*WORDS, "unheard"]), min_size=1, max_size=4).map(" ".join)
FILTERS: list[Any] = [None, {"part": 1}, {"part": {"$in": [0, 2]}}, {"$not": {"part": 0}}]
NONE = np.zeros(0, np.intp)


def lexical(*scores: float, most: float = 10.0, present: float = 10.0) -> Lexical:
    return Lexical(np.array(scores, np.float32), most, present)


def test_hand_computed() -> None:
    words = lexical(0, 5)
    fused = Fusion(0.2, words).scores(np.array([1.0, 0.2]), words.scores, NONE)
    np.testing.assert_allclose(fused, [0.25, 0.5], atol=1e-12)
    half = Fusion(0.2, lexical(most=10, present=5)).scores(
        np.array([0.6]), np.array([2], np.float32), NONE
    )
    np.testing.assert_allclose(half, [0.5 * 0.4 / 0.8 + 0.2], atol=1e-7)


def test_meaning_says_more_where_words_say_less() -> None:
    weights = [
        Fusion(0.0, lexical(most=10, present=part)).scores(
            np.array([1.0]), np.zeros(1, np.float32), NONE
        )[0]
        for part in (10.0, 5.0, 0.0)
    ]
    assert weights == sorted(weights)
    unsaid = Fusion(0.0, lexical(most=0, present=0)).scores(
        np.array([1.0]), np.zeros(1, np.float32), NONE
    )
    assert unsaid[0] == weights[-1]


def test_meaning_says_more_of_a_language_without_the_words() -> None:
    of_rows = np.repeat([0, 1, 2], 16)  # the last of none
    languages = Languages(of_rows, np.full((2, 1), 16.0), np.zeros(3))
    words = lexical(*[0.0] * 48)._replace(present=np.array([10.0, 5.0, 10.0]))
    fusion = Fusion(0.2, words, languages)
    fused = fusion.scores(np.ones(48), words.scores, NONE)
    np.testing.assert_allclose(fused[[0, 16, 32]], [0.25, 0.5, 0.25], atol=1e-12)
    np.testing.assert_allclose(fusion.slack(0.8), 0.5, atol=1e-12)
    some = np.array([16, 32])
    assert (fusion.scores(np.ones(2), words.scores[some], NONE, some) == fused[some]).all()


def test_a_row_without_a_vector_counts_by_its_words_alone() -> None:
    words = lexical(0, 5, 5)
    fused = Fusion(0.2, words).scores(
        np.array([0.0, 0.0, 0.2]), words.scores, np.array([0, 1], np.intp)
    )
    assert fused.tolist() == [-math.inf, 0.5, 0.5]


@given(
    st.floats(-1, 1.01),
    st.lists(st.tuples(st.floats(-1, 1), st.floats(0, 10, width=32)), min_size=1, max_size=30),
)
def test_who_is_better_in_both_is_not_worse_fused(
    mean: float, pairs: list[tuple[float, float]]
) -> None:
    cosines, words = np.array(pairs).T
    fused = Fusion(mean, lexical()).scores(cosines, words.astype(np.float32), NONE)
    assert np.isfinite(fused).all()
    for i, (cosine, word) in enumerate(pairs):
        for j, (other_cosine, other_word) in enumerate(pairs):
            if cosine >= other_cosine and word >= other_word:
                assert fused[i] >= fused[j]


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Index]:
    """300 documents, many alike, some without a vector, some deleted."""
    path: Path = tmp_path_factory.mktemp("fusion") / "index"
    random = np.random.default_rng(0)
    texts = [" ".join(random.choice(WORDS, random.integers(0, 6))) for _ in range(300)]
    documents = [Document(str(n), text, {"part": n % 3}) for n, text in enumerate(texts)]
    with new_index(path) as builder:
        for start in range(0, 300, 70):
            some = documents[start : start + 70]
            builder.add(some, vectors_of(some))
    with open_index(path, encoder=WordEncoder(), writable=True) as opened:
        opened.delete(["3", "77", "200"])
        yield opened


def by_id(hits: list[Hit]) -> dict[str, Hit]:
    return {hit.id: hit for hit in hits}


@settings(max_examples=80, deadline=None)
@given(
    query=QUERIES,
    mode=st.sampled_from(["hybrid", "dense", "lexical"]),
    filter=st.sampled_from(FILTERS),
    k=st.integers(1, 310),
    offset=st.integers(0, 310),
)
def test_a_page_is_a_part_of_all_hits(
    index: Index, query: str, mode: Any, filter: Any, k: int, offset: int
) -> None:
    everything = index.search(query, 1000, mode=mode, filter=filter)
    page = index.search(query, k, mode=mode, filter=filter, offset=offset)
    assert page == everything[offset : offset + k]
    scores = [hit.score for hit in everything]
    assert scores == sorted(scores, reverse=True)
    if page:
        least = page[len(page) // 2].score
        cut = index.search(query, 1000, mode=mode, filter=filter, min_score=least)
        assert cut == [hit for hit in everything if hit.score >= least]


@settings(max_examples=40, deadline=None)
@given(query=QUERIES, filter=st.sampled_from(FILTERS))
def test_a_hits_score_is_its_own(index: Index, query: str, filter: Any) -> None:
    """Whatever else is found: the same in every selection, and the formula of what it says."""
    everything = by_id(index.search(query, 1000))
    for hit in index.search(query, 1000, filter=filter):
        assert hit == everything[hit.id]
    dense, lexical = (by_id(index.search(query, 1000, mode=mode)) for mode in ("dense", "lexical"))
    assert set(everything) == set(dense) | set(lexical)
    for name, hit in everything.items():
        assert hit.cosine == (dense[name].score if name in dense else None)
        assert hit.bm25 == (lexical[name].score if name in lexical else 0)


def test_a_lone_document_has_the_score_of_a_good_one(tmp_path: Path) -> None:
    documents = [Document("a", "bridge river engine")]
    with new_index(tmp_path / "index") as builder:
        builder.add(documents, vectors_of(documents))
    with open_index(tmp_path / "index", encoder=WordEncoder()) as opened:
        (good,) = opened.search("bridge river engine")
        (bad,) = opened.search("unheard")
    assert good.score > 0.5 > 0.2 > bad.score
    assert good.cosine == pytest.approx(1, abs=0.01)
    assert bad.bm25 == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"offset": -1}, "offset"),
        ({"offset": 1.5}, "offset"),
        ({"min_score": "high"}, "min_score"),
        ({"min_score": float("nan")}, "min_score"),
    ],
)
def test_bad_limits_are_named(index: Index, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        index.search("bridge", **options)

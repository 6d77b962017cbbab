"""PROP's word sets: the smoothed likelihood by hand, and what is drawn how often."""

from __future__ import annotations

import math

import numpy as np
import pytest

from pocketquery.server.objectives.prop import WordModel

# Three words: 6, 3 and 1 of 10 in the collection; the document is "a a b c".
COUNTS = np.array([6, 3, 1])
DOCUMENT = np.array([0, 0, 1, 2])


def test_the_likelihood_of_a_set_by_hand() -> None:
    model = WordModel(COUNTS, smoothing=4.0)
    # p(a|D) = (2 + 4 * 0.6) / 8 = 0.55, p(b|D) = (1 + 1.2) / 8 = 0.275, p(c|D) = 1.4 / 8 = 0.175
    for words, expected in (([0], 0.55), ([1], 0.275), ([2], 0.175), ([0, 2], 0.55 * 0.175)):
        found = model.log_likelihood(np.array(words), DOCUMENT)
        assert found == pytest.approx(math.log(expected), abs=1e-12)


def test_the_probabilities_of_all_words_sum_to_one() -> None:
    model = WordModel(np.array([5, 0, 2, 9]), smoothing=3.0)
    singles = [model.log_likelihood(np.array([word]), np.array([1, 3, 3])) for word in range(4)]
    assert sum(map(math.exp, singles)) == pytest.approx(1, abs=1e-12)


def test_the_order_of_words_and_of_the_document_is_free() -> None:
    model = WordModel(COUNTS, smoothing=4.0)
    found = model.log_likelihood(np.array([0, 1]), DOCUMENT)
    assert model.log_likelihood(np.array([1, 0]), DOCUMENT[::-1]) == pytest.approx(found)


def test_a_word_that_occurs_nowhere_is_impossible() -> None:
    model = WordModel(np.array([1, 0]), smoothing=2.0)
    assert model.log_likelihood(np.array([1]), np.array([0])) == -math.inf


def shares(model: WordModel, draws: int = 20_000) -> list[float]:
    rng = np.random.default_rng(0)
    words = [int(model.draw(DOCUMENT, 1, rng)[0]) for _ in range(draws)]
    return [words.count(word) / draws for word in range(3)]


def test_words_are_drawn_by_their_probability_in_the_document() -> None:
    everything = WordModel(COUNTS, smoothing=4.0, threshold=1.0)  # nothing is sub-sampled
    assert shares(everything) == pytest.approx([0.55, 0.275, 0.175], abs=0.012)


def test_frequent_words_are_sub_sampled() -> None:
    # sqrt(0.1 / f) is 0.408 for a, 0.577 for b and 1 for c.
    weights = np.array([0.55 * 0.408248, 0.275 * 0.577350, 0.175])
    expected = (weights / weights.sum()).tolist()
    found = shares(WordModel(COUNTS, smoothing=4.0, threshold=0.1))
    assert found == pytest.approx(expected, abs=0.012)


def test_a_set_holds_distinct_words_and_as_many_as_there_are() -> None:
    model, rng = WordModel(COUNTS, smoothing=4.0), np.random.default_rng(0)
    for _ in range(200):
        assert len(set(model.draw(DOCUMENT, 2, rng).tolist())) == 2
    assert sorted(model.draw(DOCUMENT, 9, rng).tolist()) == [0, 1, 2]


def test_words_that_nothing_has_are_never_drawn() -> None:
    rng = np.random.default_rng(0)
    model = WordModel(np.array([0, 4, 0, 4, 0]), smoothing=2.0)
    drawn = np.concatenate([model.draw(np.array([1]), 2, rng) for _ in range(500)])
    assert set(drawn.tolist()) == {1, 3}


def test_an_empty_document_has_the_collections_words_and_an_empty_world_none() -> None:
    rng = np.random.default_rng(0)
    nothing = np.zeros(0, np.int64)
    assert len(WordModel(COUNTS, smoothing=4.0).draw(nothing, 2, rng)) == 2
    assert len(WordModel(np.zeros(3, np.int64), smoothing=0.0).draw(nothing, 2, rng)) == 0

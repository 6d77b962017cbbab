from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pytest
from numpy.typing import NDArray

from pocketquery.sdk.errors import CorpusError, InvalidInputError
from pocketquery.sdk.index.documents import Document
from pocketquery.server.corpus.groups import Group, GroupList
from pocketquery.server.corpus.mining.hard_negatives import (
    NegativesConfig,
    Question,
    Questions,
    mine_triples,
)
from pocketquery.server.corpus.mining.rankers import Bm25Ranker
from pocketquery.server.corpus.readers.collection import Collection
from pocketquery.server.corpus.readers.queries import Query

PASSAGES = tuple(f"passage {number}" for number in range(30))


@dataclass
class Fixed:
    """A ranker with one ranking for all."""

    rows: tuple[int, ...]

    def rank(self, queries: Sequence[str], depth: int) -> Iterator[NDArray[np.int64]]:
        return (np.array(self.rows[:depth], np.int64) for _ in queries)


def mined(question: Question, *rows: tuple[int, ...], **settings: int) -> list[tuple[str, ...]]:
    data = Questions(PASSAGES, (question,))
    found = mine_triples(data, [Fixed(one) for one in rows], NegativesConfig(**settings))
    return [triple.texts for triple in found]


def numbers(texts: tuple[str, ...]) -> list[int]:
    return [int(text.split()[-1]) for text in texts[1:]]


def test_a_triple_for_each_positive_with_negatives_of_the_ranking() -> None:
    found = mined(Question("q", "what", (3, 5)), tuple(range(12)), negatives=4)
    assert [numbers(texts)[0] for texts in found] == [3, 5]
    for texts in found:
        negatives = numbers(texts)[1:]
        assert texts[0] == "what"
        assert len(set(negatives)) == 4
        assert set(negatives) <= set(range(12)) - {3, 5}
    assert numbers(found[0])[1:] != numbers(found[1])[1:]


def test_negatives_are_within_depth_and_behind_what_is_skipped() -> None:
    drawn = {
        number
        for seed in range(40)
        for texts in mined(Question("q", "w", (9,)), tuple(range(30)), depth=12, skip=4, seed=seed)
        for number in numbers(texts)[1:]
    }
    assert drawn == set(range(4, 12)) - {9}


def test_excluded_passages_are_no_negatives() -> None:
    question = Question("q", "w", (0,), excluded=frozenset({1, 2}))
    assert mined(question, (0, 1, 2, 3)) == [("w", "passage 0", "passage 3")]


def test_texts_that_answer_or_repeat_are_no_negatives() -> None:
    passages = ("The answer", "the  ANSWER", "what", "other", "Other", "", "last")
    data = Questions(passages, (Question("q", "What", (0,)),))
    found = [triple.texts for triple in mine_triples(data, [Fixed(tuple(range(7)))])]
    assert len(found) == 1
    assert set(found[0][2:]) == {"other", "last"}


def test_several_rankers_give_in_turn() -> None:
    first, second = tuple(range(1, 10)), tuple(range(10, 20))
    negatives = numbers(mined(Question("q", "w", (0,)), first, second, negatives=4)[0])[1:]
    assert [number < 10 for number in negatives] == [True, False, True, False]
    alike = numbers(mined(Question("q", "w", (0,)), first, first, negatives=7)[0])[1:]
    assert len(set(alike)) == 7
    few = numbers(mined(Question("q", "w", (0,)), (1,), second, negatives=4)[0])[1:]
    assert len(few) == 4


def test_a_question_without_negatives_is_left_out() -> None:
    assert mined(Question("q", "w", (0,)), (0,)) == []
    assert mined(Question("q", "w", (0,)), ()) == []


def test_a_collection_gives_its_judged_queries() -> None:
    documents = [Document(f"d{n}", f"text {n}", {"title": f"Title {n}"}) for n in range(4)]
    judgements = {"q1": {"d0": 2, "d1": 0}, "q2": {"d3": 1}}
    queries = [Query("q1", "first"), Query("q2", "second"), Query("q3", "third")]
    collection = Collection.of(documents, queries, judgements, [("q1", "d2")])
    data = Questions.of_collection(collection)
    assert data.passages[0] == "Title 0 text 0" or data.passages[0].startswith("Title 0")
    assert data.questions == (
        Question("q1", "first", (0,), frozenset({2})),
        Question("q2", "second", (3,)),
    )
    found = list(mine_triples(data, [Fixed((0, 1, 2, 3))]))
    assert [triple.id for triple in found] == ["q1", "q2"]
    # What was judged and found not to answer is as good a negative as any.
    assert set(found[0].texts[2:]) == {data.passages[1], data.passages[3]}


def test_pairs_of_one_document_are_no_negatives_of_each_other() -> None:
    pairs = [
        Group("d1", ("river in the north", "the river is long"), lang="en"),
        Group("d1", ("river again", "the river is cold"), lang="en"),
        Group("d2", ("river elsewhere", "another river"), lang="en"),
        Group("d3", ("alone",)),
    ]
    data = Questions.of_pairs(GroupList(pairs, "pairs"))
    found = list(mine_triples(data, [Bm25Ranker(data.passages)]))
    assert [triple.texts for triple in found] == [
        ("river in the north", "the river is long", "another river"),
        ("river again", "the river is cold", "another river"),
        ("river elsewhere", "another river", *found[2].texts[2:]),
    ]
    assert set(found[2].texts[2:]) == {"the river is long", "the river is cold"}
    assert found[0].lang == "en"
    with pytest.raises(CorpusError, match="two texts"):
        Questions.of_pairs(GroupList(pairs[3:], "pairs"))


def test_another_answer_of_the_same_question_is_no_negative() -> None:
    pairs = [
        Group("1", ("How do I reset my password", "open the settings to reset a password")),
        Group("2", ("how do i reset my  password", "call the desk to reset a password")),
        Group("3", ("how do i reset my router", "hold the button to reset a router")),
    ]
    data = Questions.of_pairs(GroupList(pairs, "pairs"))
    for triple in list(mine_triples(data, [Bm25Ranker(data.passages)]))[:2]:
        assert triple.texts[2:] == ("hold the button to reset a router",)


def test_settings_that_cannot_be() -> None:
    for settings in ({"negatives": 0}, {"skip": -1}, {"depth": 3, "skip": 3}):
        with pytest.raises(InvalidInputError, match="expected"):
            NegativesConfig(**settings)
    with pytest.raises(InvalidInputError, match="ranker"):
        list(mine_triples(Questions(PASSAGES, ()), []))

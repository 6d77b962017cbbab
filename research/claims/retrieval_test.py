"""Questions and the passages they belong to: what the studies with fine-tuning are scored on."""

from __future__ import annotations

import copy
import random
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pocketquery.server.corpus.groups import Group, GroupList
from pocketquery.server.corpus.mining.hard_negatives import (
    NegativesConfig,
    Question,
    Questions,
    mine_triples,
)
from pocketquery.server.corpus.mining.rankers import Bm25Ranker, DenseRanker, Ranker
from pocketquery.server.modeling import SentenceEncoder
from pocketquery.server.objectives import build_objective
from pocketquery.server.pretraining import Part, PretrainingConfig, pretrain

__all__ = [
    "RetrievalTest",
    "bm25_ranks",
    "dense_ranks",
    "fine_tuned",
    "first_triples",
    "rank_scores",
    "triples_of",
]


Scores = dict[str, NDArray[np.float64]]
"""Metric -> score of every item (query, pair, or a single figure), float64 (items,)."""


@dataclass(frozen=True)
class RetrievalTest:
    """Passages, and questions with the row of their passage; of several, once for each."""

    passages: list[str]
    training: list[tuple[str, int]]
    test: list[tuple[str, int]]


def triples_of(
    test: RetrievalTest,
    seed: int = 0,
    negatives: int = 7,
    found_by: SentenceEncoder | None = None,
) -> GroupList:
    """The training questions in a drawn order, each with so many negatives.

    Args:
        test: whose questions and passages.
        seed: of the order.
        negatives: of a question, among the first fifty that are found for it.
        found_by: an encoder that finds them; None: BM25 does.
    """
    asked = random.Random(seed).sample(test.training, len(test.training))
    answers: dict[str, set[int]] = defaultdict(set)
    for text, row in asked:
        answers[text].add(row)
    questions = tuple(
        Question(str(i), text, (row,), frozenset(answers[text]))
        for i, (text, row) in enumerate(asked)
    )
    ranker: Ranker = Bm25Ranker(test.passages)
    if found_by is not None:
        ranker = DenseRanker(found_by.encode, found_by.encode, test.passages)
    mined = mine_triples(
        Questions(tuple(test.passages), questions),
        [ranker],
        NegativesConfig(negatives=negatives, depth=50),
    )
    return GroupList(list(mined), "triples")


def first_triples(triples: GroupList, count: int) -> GroupList:
    """The first ``count`` of them: a low-resource training set."""
    chosen: list[Group] = [triples[row] for row in range(min(count, len(triples)))]
    return GroupList(chosen, "triples")


def fine_tuned(
    encoder: SentenceEncoder,
    triples: GroupList,
    config: PretrainingConfig,
    options: Mapping[str, int],
) -> SentenceEncoder:
    """A copy of an encoder after learning from questions; what it was given stays as it is.

    Args:
        encoder: to begin with.
        triples: questions with their passage and hard negatives.
        config: of the run.
        options: of the objective ``fine_tune``.
    """
    tuned = copy.deepcopy(encoder)
    objective = build_objective("fine_tune", tuned, options)
    return pretrain(tuned, [Part(objective, triples)], config).eval()


def dense_ranks(
    questions: NDArray[np.float32], passages: NDArray[np.float32], right: Sequence[int]
) -> NDArray[np.int64]:
    """The rank, from 1, of each question's passage; passages of equal score stand before it."""
    scores = questions @ passages.T  # (questions, passages)
    own = scores[np.arange(len(right)), np.asarray(right)]
    ranks: NDArray[np.int64] = (scores >= own[:, None]).sum(axis=1)
    return ranks


def bm25_ranks(test: RetrievalTest, depth: int = 1000) -> NDArray[np.int64]:
    """The rank of each test question's passage by BM25, ``depth`` + 1 where it is not found."""
    ranker = Bm25Ranker(test.passages)
    found = []
    rankings = ranker.rank([text for text, _ in test.test], depth)
    for (_, right), ranking in zip(test.test, rankings, strict=True):
        place = np.flatnonzero(ranking == right)
        found.append(int(place[0]) + 1 if len(place) else depth + 1)
    return np.array(found, dtype=np.int64)


def rank_scores(ranks: NDArray[np.int64], prefix: str = "") -> Scores:
    """MRR@10 and recall at 10 and 100 of ranks, one right passage a question."""
    return {
        f"{prefix}mrr@10": np.where(ranks <= 10, 1 / ranks, 0.0),
        f"{prefix}recall@10": (ranks <= 10).astype(np.float64),
        f"{prefix}recall@100": (ranks <= 100).astype(np.float64),
    }

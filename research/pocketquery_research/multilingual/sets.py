"""Questions of many languages and the passages that answer them, and how a ranking is scored."""

from __future__ import annotations

import csv
import gzip
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pocketquery.server.evaluation import score_rankings
from pocketquery.server.evaluation.ranking import rank_exactly
from pocketquery_research.multilingual.teacher_graph import Vectors

__all__ = [
    "DEPTH",
    "LANGUAGES",
    "Asked",
    "Scores",
    "asked",
    "cross",
    "dense_scores",
    "objects",
    "read_xquad",
]
__all__ += ["share_interval", "table", "text_scores"]

Scores = NDArray[np.float64]
LANGUAGES = ("en", "de", "es", "ru", "ar", "hi", "vi", "zh")  # XQuAD's
DEPTH = 10
_DRAWS = 1000


@dataclass(frozen=True)
class Asked:
    """Questions of a language and what answers them; XQuAD's have the same ids in each."""

    ids: list[str]
    questions: list[str]
    passage_ids: list[str]
    passages: list[str]
    right: dict[str, dict[str, int]]


def read_xquad(data: Path, language: str, most: int, step: int = 1) -> Asked:
    """XQuAD in a language: every ``step``-th passage, at most ``most`` questions, evenly spaced."""
    folder = data / "xquad"
    return asked(
        objects(folder / f"{language}.corpus.jsonl.gz")[::step],
        table(folder / f"{language}.queries.tsv.gz"),
        table(folder / "qrels.tsv"),
        most,
    )


def asked(
    passages: Sequence[Any], questions: Sequence[Sequence[str]], judged: Sequence[Any], most: int
) -> Asked:
    """Of questions that a passage answers at most ``most``, evenly spaced."""
    texts = {one["_id"]: one["text"] for one in passages}
    right: dict[str, dict[str, int]] = {}
    for question, passage, *_ in judged:
        if passage in texts:
            right.setdefault(question, {})[passage] = 1
    answered = [row for row in questions if row[0] in right and row[1].strip()]
    chosen = answered
    if len(answered) > most:
        chosen = [answered[i * len(answered) // most] for i in range(most)]
    return Asked(
        [row[0] for row in chosen],
        [row[1] for row in chosen],
        list(texts),
        list(texts.values()),
        {row[0]: right[row[0]] for row in chosen},
    )


def cross(one: Asked, other: Asked) -> Asked:
    """The questions of ``one`` and the passages of ``other``."""
    return Asked(one.ids, one.questions, other.passage_ids, other.passages, one.right)


def dense_scores(one: Asked, questions: Vectors, passages: Vectors) -> Scores:
    """nDCG@10 of each question by the cosine of its vector to each passage's."""
    return text_scores(one, rank_exactly(questions, passages, one.passage_ids, DEPTH))


def text_scores(one: Asked, rankings: Sequence[Sequence[str]]) -> Scores:
    """nDCG@10 of each question, given its passages in order."""
    scored = score_rankings(one.right, dict(zip(one.ids, rankings, strict=True)))
    by_question = dict(zip(scored.query_ids, scored.per_query["ndcg@10"], strict=True))
    return np.array([by_question[name] for name in one.ids])


def share_interval(own: Scores, base: Scores) -> list[float]:
    """Interval of 95 % of the mean share, over draws of the questions, paired.

    Args:
        own: (questions,), or (sets, questions) of sets that ask the same questions.
        base: of the same shape.
    """
    own, base = np.atleast_2d(own), np.atleast_2d(base)
    drawn = np.random.default_rng(0).integers(0, own.shape[1], (_DRAWS, own.shape[1]))
    shares = (own[:, drawn].mean(axis=2) / base[:, drawn].mean(axis=2)).mean(axis=0)
    return [float(value) for value in np.quantile(shares, (0.025, 0.975))]


def table(path: Path) -> list[list[str]]:
    """The rows of a tab-separated file, packed or not."""
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8", newline="\n") as file:
        return list(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


def objects(path: Path) -> list[dict[str, Any]]:
    """The objects of a packed JSON Lines file."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]

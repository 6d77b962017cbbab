"""The claims of Query-BERT about training without negatives (O6 to O9), in small.

    python benchmarks/claims/query_bert.py [--corpora quora made_up] [--data FOLDER]

*Query-BERT*: BYOL-like training of a query encoder. Half of the arms learn from human-labelled
duplicates (the report's "pseudo self-supervised" setting), three from views of single questions.
Duplicates are told by the cosine, with the threshold of the best F1 on dev; no question is in two
parts. A ranking that calls every pair a duplicate has an F1 of 2/3.

* ``quora``: Quora question pairs.
* ``made_up``: families of templates, with near misses.

``auc`` is a mean over the duplicates (the share of other pairs that score below each), ``f1`` one
figure a seed. The orderings are decided on both.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from duplicate_fixture import make_duplicates
from numpy.typing import NDArray
from reporting import main
from study import Corpus, Scores, Trained
from verdicts import Check, Claim, above, all_of, not_below

from pocketquery.server.corpus.groups import Group, GroupList
from pocketquery.server.evaluation.duplicate_pairs import (
    DuplicatePair,
    DuplicateSplit,
    read_duplicate_pairs,
    split_duplicates,
)
from pocketquery.server.evaluation.duplicates import pair_scores, score_duplicates


def corpus(name: str, data: Path) -> Corpus:
    """Duplicates to train on as pairs, and all training questions as queries."""
    split = split_duplicates(_pairs(name, data), seed=0)
    train = [pair for pair in split.train if pair.duplicate]
    pairs = [Group(f"pair-{i}", (pair.first, pair.second)) for i, pair in enumerate(train)]
    questions = dict.fromkeys(text for pair in split.train for text in (pair.first, pair.second))
    queries = [Group(f"query-{i}", (text,)) for i, text in enumerate(questions)]
    return Corpus(
        name,
        warm=GroupList(queries, "queries"),
        sources={"pairs": GroupList(pairs, "pairs"), "views": GroupList(queries, "queries")},
        evaluate=lambda trained: _evaluate(trained, split),
    )


def claims(name: str) -> list[Claim]:
    """The report's orderings."""
    return [
        Claim(
            "O6",
            "a separate target > SimSiam, with both projectors",
            all_of(_both("bsl_mlp", "simsiam_mlp"), _both("bsl_attention", "simsiam_attention")),
        ),
        Claim(
            "O7",
            "attention projector > MLP projector, in SimSiam and with a separate target",
            all_of(_both("simsiam_attention", "simsiam_mlp"), _both("bsl_attention", "bsl_mlp")),
        ),
        Claim("O8", "EMA > none", _both("bsl_attention_ema", "bsl_attention")),
        Claim(
            "O9",
            "all views, directional > two light views > all views, regular",
            all_of(_both("all_directional", "light"), _both("light", "all_regular")),
        ),
    ]


def _both(better: str, worse: str) -> Check:
    """Above in AUC, and not below in F1."""
    return all_of(above(better, worse, "auc"), not_below(better, worse, "f1"))


def _pairs(name: str, data: Path) -> list[DuplicatePair]:
    if name == "made_up":
        pairs, labels = make_duplicates(8_000, seed=0)
        return [DuplicatePair(*pair, label) for pair, label in zip(pairs, labels, strict=True)]
    folder = data / "quora"
    return [
        pair
        for part in ("train", "valid")
        for pair in read_duplicate_pairs(folder / f"{part}.tsv.gz")
    ]


def _evaluate(trained: Trained, split: DuplicateSplit) -> Scores:
    dev, test = pair_scores(trained.encoder, split.dev), pair_scores(trained.encoder, split.test)
    report = score_duplicates(*dev, *test)
    single = {"f1": report.f1, "accuracy": report.accuracy, "ap": report.average_precision}
    return {"auc": placements(*test), **{name: np.array([v]) for name, v in single.items()}}


def placements(scores: NDArray[np.float64], positive: NDArray[np.bool_]) -> NDArray[np.float64]:
    """For each duplicate the share of other pairs below it: their mean is the area under ROC."""
    others = np.sort(scores[~positive])
    below = np.searchsorted(others, scores[positive], side="left")
    upto = np.searchsorted(others, scores[positive], side="right")
    placements: NDArray[np.float64] = (below + upto) / 2 / len(others)
    return placements


if __name__ == "__main__":
    raise SystemExit(main("query_bert", ("quora", "made_up"), corpus, claims, lambda name: "auc"))

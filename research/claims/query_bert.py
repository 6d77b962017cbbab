"""The claims of Query-BERT about training without negatives (O6 to O9), in small.

    python research/claims/query_bert.py [--corpora quora cross_domain made_up] [--data FOLDER]

*Query-BERT*: BYOL-like training of a query encoder. Half of the arms learn from human-labelled
duplicates (the report's "pseudo self-supervised" setting), three from views of single questions.
Duplicates are told by the cosine, with the threshold of the best F1 on dev; no question is in two
parts. A ranking that calls every pair a duplicate has an F1 of 2/3.

* ``quora``: Quora question pairs.
* ``cross_domain``: the same dev and test, trained on other questions, as the report does: views are
  of questions that people typed into a search engine, duplicates those that a forum marked.
* ``made_up``: families of templates, with near misses.

``auc`` is a mean over the duplicates (the share of other pairs that score below each), ``f1`` one
figure a seed. The orderings are decided on both.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from data_sets import exchange_duplicates, searched
from fixtures.duplicate_fixture import make_duplicates
from numpy.typing import NDArray
from reporting import Definition, main
from study import Corpus, Scores, Study, Trained
from verdicts import Check, Claim, above, not_below
from views import light_views

from pocketquery.server.corpus.groups import Group, GroupList
from pocketquery.server.modeling import SentenceEncoder
from pocketquery.server.pretraining import Part
from pocketquery_research.evaluation.duplicate_pairs import (
    DuplicatePair,
    DuplicateSplit,
    read_duplicate_pairs,
    split_duplicates,
)
from pocketquery_research.evaluation.duplicates import pair_scores, score_duplicates


class QueryBertStudy(Study):
    """With light views that are written once, from the start."""

    _views = ""

    def begin_anywhere(self) -> None:
        super().begin_anywhere()
        self._views = "template,template"  # speed alone is measured

    def _part(self, name: str, options: Mapping[str, Any], encoder: SentenceEncoder) -> Part:
        # Not in the settings: a run is named by them, and where its cache lies is no part of it.
        if options.get("light") == "$VIEWS":
            options = {**options, "light": self._written_views()}
        return super()._part(name, options, encoder)

    def _written_views(self) -> str:
        """The slots as an option; their views are written before the first arm that reads them."""
        if not self._views:
            queries = self.corpus.sources["views"]
            texts = [queries[row].texts[0] for row in range(len(queries))]
            cache = self._folder() / f"views-{self._start_key()}.sqlite"
            model = self.shared_start.leg_folder(self._leg)
            self._views = light_views(cache, model, texts)
        return self._views


def corpus(name: str, data: Path) -> Corpus:
    """Duplicates to train on as pairs, and all training questions as queries."""
    split = split_duplicates(_pairs(name, data), seed=0)
    train = [(pair.first, pair.second) for pair in split.train if pair.duplicate]
    questions = [text for pair in split.train for text in (pair.first, pair.second)]
    if name == "cross_domain":
        train, _ = exchange_duplicates(data)
        tested = {text for pair in split.dev + split.test for text in (pair.first, pair.second)}
        questions = [text for text in searched(data) if text not in tested]
    pairs = [Group(f"pair-{i}", pair) for i, pair in enumerate(train)]
    queries = [Group(f"query-{i}", (text,)) for i, text in enumerate(dict.fromkeys(questions))]
    return Corpus(
        name,
        GroupList(queries, "queries"),
        {"pairs": GroupList(pairs, "pairs"), "views": GroupList(queries, "queries")},
        lambda trained: _evaluate(trained, split),
        lambda encoder: float(placements(*pair_scores(encoder, split.dev)).mean()),
    )


def claims(name: str) -> list[Claim]:
    """The report's orderings."""
    return [
        Claim(
            "O6",
            "a separate target > SimSiam, with both projectors",
            [
                *_both("bsl_mlp", "simsiam_mlp"),
                *_both("bsl_attention", "simsiam_attention"),
            ],
            [
                *_both("bsl_mlp", "simsiam_mlp_twice"),
                *_both("bsl_attention", "simsiam_attention_twice"),
            ],
        ),
        Claim(
            "O7",
            "attention projector > MLP projector, in SimSiam and with a separate target",
            [*_both("simsiam_attention", "simsiam_mlp"), *_both("bsl_attention", "bsl_mlp")],
        ),
        Claim("O8", "EMA > none", _both("bsl_attention_ema", "bsl_attention")),
        Claim(
            "O9",
            "all views, directional > two light views > all views, regular",
            [*_both("all_directional", "light"), *_both("light", "all_regular")],
            _both("all_directional", "light_twice"),
        ),
    ]


def _both(better: str, worse: str) -> list[Check]:
    """Above in AUC, and not below in accuracy, which every pair of the test has a part in.

    F1 is one figure of all pairs; it stands in the tables.
    """
    return [above(better, worse, "auc"), not_below(better, worse, "right", 0.01)]


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
    told = (test[0] > report.threshold) == test[1]
    return {
        "auc": placements(*test),
        "right": told.astype(np.float64),
        **{name: np.array([v]) for name, v in single.items()},
    }


def placements(scores: NDArray[np.float64], positive: NDArray[np.bool_]) -> NDArray[np.float64]:
    """For each duplicate the share of other pairs below it: their mean is the area under ROC."""
    others = np.sort(scores[~positive])
    below = np.searchsorted(others, scores[positive], side="left")
    upto = np.searchsorted(others, scores[positive], side="right")
    placements: NDArray[np.float64] = (below + upto) / 2 / len(others)
    return placements


STUDY = Definition(
    "query_bert",
    ("quora", "cross_domain", "made_up"),
    corpus,
    claims,
    lambda name: "auc",
    QueryBertStudy,
)

if __name__ == "__main__":
    raise SystemExit(main(STUDY))

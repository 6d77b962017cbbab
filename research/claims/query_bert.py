"""The claims of Query-BERT about training without negatives (O6 to O9), in small.

    python research/claims/query_bert.py [--data FOLDER]

*Query-BERT*: BYOL-like training of a query encoder, on Quora's question pairs. Half of the arms
learn from human-labelled duplicates (the report's "pseudo self-supervised" setting), three from
views of single questions (``texts/views.py``). Duplicates are told by the cosine, at the threshold
of the best F1 on dev; no question is in two parts. A ranking that calls every pair a duplicate has
an F1 of 2/3.

``auc`` is a mean over the duplicates (the share of other pairs that score below each), ``f1`` one
figure a seed. The orderings are decided on both.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray
from reporting import Definition, main
from study import Corpus, Scores, Study, Trained
from texts.views import written_views
from verdicts import Check, Claim, above, not_below

from pocketquery.server.corpus.groups import Group, GroupList
from pocketquery.server.modeling import SentenceEncoder
from pocketquery.server.pretraining import Part
from pocketquery_research.evaluation.duplicate_pairs import (
    DuplicateSplit,
    read_duplicate_pairs,
    split_duplicates,
)
from pocketquery_research.evaluation.duplicates import pair_scores, score_duplicates


class QueryBertStudy(Study):
    """With views that are written once, from the start and from the duplicates."""

    _views: Mapping[str, str] = MappingProxyType({})

    def begin_anywhere(self) -> None:
        super().begin_anywhere()
        self._views = {"light": "template,template", "heavy": "shuffle,shuffle"}  # for speed alone

    def _part(self, name: str, options: Mapping[str, Any], encoder: SentenceEncoder) -> Part:
        # Not in the settings: a run is named by them, and where its cache lies is no part of it.
        if options.get("slots") == "$VIEWS":
            options = {**options, "slots": "fixed", **self._written_views()}
        return super()._part(name, options, encoder)

    def _written_views(self) -> Mapping[str, str]:
        """The augmenters as options; views are written before the first arm that reads them."""
        if not self._views:
            pairs, asked = self.corpus.sources["pairs"], self.corpus.sources["asked"]
            questions = (asked[row].texts[0] for row in range(len(asked)))
            duplicates: dict[str, list[str]] = {question: [] for question in questions}
            for first, second in (pairs[row].texts for row in range(len(pairs))):
                duplicates[first].append(second)
                duplicates[second].append(first)
            cache = self._folder() / f"views-{self._start_key()}.sqlite"
            model = self.shared_start.leg_folder(self._leg)
            self._views = written_views(cache, model, duplicates)
        return self._views


def corpus(data: Path) -> Corpus:
    """Duplicates as pairs, all training questions, and those that have a duplicate (``asked``)."""
    folder = data / "quora"
    parts = [read_duplicate_pairs(folder / f"{part}.tsv.gz") for part in ("train", "valid")]
    split = split_duplicates([pair for part in parts for pair in part], seed=0)
    same = [(pair.first, pair.second) for pair in split.train if pair.duplicate]
    pairs = [Group(f"pair-{i}", pair) for i, pair in enumerate(same)]
    questions = [text for pair in split.train for text in (pair.first, pair.second)]
    queries, asked = (
        GroupList(
            [Group(f"query-{i}", (text,)) for i, text in enumerate(dict.fromkeys(texts))], "queries"
        )
        for texts in (questions, [text for pair in same for text in pair])
    )
    return Corpus(
        "quora",
        queries,
        {"pairs": GroupList(pairs, "pairs"), "views": queries, "asked": asked},
        lambda trained: _evaluate(trained, split),
        lambda encoder: float(placements(*pair_scores(encoder, split.dev)).mean()),
    )


def claims() -> list[Claim]:
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


STUDY = Definition("query_bert", "quora", corpus, claims, "auc", QueryBertStudy)

if __name__ == "__main__":
    raise SystemExit(main(STUDY))

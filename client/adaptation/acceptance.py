"""Judge an adapted encoder by held-out pseudo-queries and by the golden texts.

The documents that pseudo-queries are kept aside of teach nothing, and each is what its queries look
for: a known item, whose nDCG@10 is 1 / log2(1 + rank), or 0 below the tenth rank. The bundle's
golden texts are of all kinds, so what they move by is what the rest of the space moves by.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from pocketquery.client.adaptation.pseudo_queries import PseudoQuery
from pocketquery.client.bootstrap import Interval, bootstrap_difference
from pocketquery.client.views.typing_noise import mistype
from pocketquery.sdk.arrays import Floats
from pocketquery.sdk.index.index import Index
from pocketquery.sdk.words.query import without_operators

__all__ = [
    "LARGEST_DRIFT",
    "AdaptationVerdict",
    "Condition",
    "Scores",
    "judge",
    "known_item_scores",
]

Condition = tuple[Literal["dense", "hybrid"], Literal["clean", "mistyped"]]
CONDITIONS: tuple[Condition, ...] = (
    ("dense", "clean"),
    ("dense", "mistyped"),
    ("hybrid", "clean"),
    ("hybrid", "mistyped"),
)
_DEPTH = 10
LARGEST_DRIFT = 0.1  # of texts of all kinds, mean of 1 - cos

Scores = dict[Condition, NDArray[np.float64]]


@dataclass(frozen=True)
class AdaptationVerdict:
    """Whether an adaptation is kept, and what was found.

    Attributes:
        accepted: whether it is.
        reason: a sentence that says why.
        gains: by ranking and kind of query, the difference of nDCG@10 with its 95 % interval.
        before, after: the means of nDCG@10.
        drift: of the golden texts, mean of ``1 - cos`` to their vectors.
    """

    accepted: bool
    reason: str
    gains: dict[Condition, Interval]
    before: dict[Condition, float]
    after: dict[Condition, float]
    drift: float

    def to_dict(self) -> dict[str, Any]:
        """The verdict as JSON values."""
        figures = {
            " ".join(name): {
                "before": self.before[name],
                "after": self.after[name],
                "gain": gain.estimate,
                "low": gain.low,
                "high": gain.high,
            }
            for name, gain in self.gains.items()
        }
        return {
            "accepted": self.accepted,
            "reason": self.reason,
            "ndcg@10": figures,
            "drift": self.drift,
        }


def known_item_scores(
    encode_query: Callable[[list[str]], Floats],
    index: Index,
    queries: Sequence[PseudoQuery],
    *,
    typo_rate: float,
    seed: int,
) -> Scores:
    """nDCG@10 by ranking and kind, float64 (documents,): the mean of each document's queries, which
    ask for one thing and so do not count as many.

    Args:
        encode_query: turns n texts into vectors, float32 (n, dimension).
        index: what is searched.
        queries: each with the one document that it looks for.
        typo_rate: share of the letters mistyped in the second kind.
        seed: of the typing; equal seeds mistype alike.
    """
    texts = {
        "clean": [query.text for query in queries],
        "mistyped": [
            mistype(query.text, typo_rate, random.Random(f"{seed} {place}"))
            for place, query in enumerate(queries)
        ],
    }
    vectors = {kind: encode_query(asked) for kind, asked in texts.items()}
    places = {
        source: place for place, source in enumerate(dict.fromkeys(q.source for q in queries))
    }
    document = np.array([places[query.source] for query in queries])
    count = np.bincount(document)
    return {
        (mode, kind): np.bincount(
            document,
            [
                _gain([h.id for h in index.search(t, _DEPTH, mode=mode, vector=v)], query.source)
                for query, t, v in zip(
                    queries, map(without_operators, texts[kind]), vectors[kind], strict=True
                )
            ],
        )
        / count
        for mode, kind in CONDITIONS
    }


def judge(
    before: Scores, after: Scores, drift: float, largest_drift: float = LARGEST_DRIFT
) -> AdaptationVerdict:
    """Keep what is shown to find more by meaning, and not shown to find less in any way.

    Args:
        before, after: of :func:`known_item_scores`, of the same queries.
        drift: of the golden texts.
        largest_drift: that is accepted.
    """
    gains = {name: bootstrap_difference([(after[name], before[name])]) for name in CONDITIONS}
    dense = [name for name in CONDITIONS if name[0] == "dense"]
    both = bootstrap_difference(
        [(np.mean([after[n] for n in dense], axis=0), np.mean([before[n] for n in dense], axis=0))]
    )
    worse = [name for name, gain in gains.items() if gain.high < 0]
    reason = ""
    if drift > largest_drift:
        reason = (
            f"texts of all kinds moved by {drift:.3f} (mean of 1 - cos), at most {largest_drift:g} "
            "is allowed; train with fewer steps"
        )
    elif worse:
        reason = "less is found: " + ", ".join(f"{' '.join(n)} {gains[n]}" for n in worse)
    elif both.low <= 0:
        reason = f"not shown to find more by meaning: {both}"
    return AdaptationVerdict(
        accepted=not reason,
        reason=reason or f"more is found by meaning: {both}",
        gains=gains,
        before={name: float(scores.mean()) for name, scores in before.items()},
        after={name: float(scores.mean()) for name, scores in after.items()},
        drift=drift,
    )


def _gain(ranking: list[str], source: str) -> float:
    return 1 / float(np.log2(ranking.index(source) + 2)) if source in ranking else 0.0

"""The acceptance gate: a candidate adapter ships only where it is shown to find more.

A local loss falls while retrieval falls (a loss that only pulls is lowest where all queries are
one), so the gate looks at what a user sees: held-out queries through the bundle's own int8 encoder
with the candidate as it would travel, in float16, over the frozen document vectors. The queries are
asked as they are and mistyped, several times each, as devices mistype them to train: well-typed
queries hardly move in a round, so they tell harm, and it takes the mistyped ones to tell learning
from nothing, or from its negation. Two comparisons on the same queries:

- with the release in force: mean and paired-bootstrap interval of the difference. No set may lose,
  and on one of them the whole interval must lie above zero: a round that proves nothing changes
  nothing;
- with the encoder as it was shipped: the mean, so that small losses cannot add up over rounds; and
  spread and effective rank of the query vectors, for a collapse that few documents do not show.

And no single document may rise across queries that it has nothing to do with (risen.py): a change
that plants one leaves every mean where it was.

The spread is judged as a share of the shipped encoder's, not by itself: a sound encoder of an
uneven space, or queries on one topic, can have a ``std_ratio`` of 0.5 to begin with.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pocketquery.client.bootstrap import Interval, bootstrap_difference
from pocketquery.client.training.monitors import Health, measure
from pocketquery.sdk.arrays import Tensors
from pocketquery.sdk.bundle.adapter import AdapterRelease, read_adapter
from pocketquery.sdk.bundle.adapter_tensors import released, tensors_sha256
from pocketquery.sdk.bundle.bundle import Bundle
from pocketquery.sdk.encoder import AdapterSource, Encoder
from pocketquery.sdk.errors import InvalidInputError
from pocketquery.server.corpus import Judgements, Query
from pocketquery.server.evaluation.metrics import score_rankings
from pocketquery.server.evaluation.ranking import rank_exactly
from pocketquery.server.federation.releases.gate_report import (
    CLEAN,
    MISTYPED,
    AcceptanceReport,
    Comparison,
    GateSettings,
    Verdict,
    verdict_on,
)
from pocketquery.server.federation.releases.risen import DEPTH, most_risen

__all__ = ["Gate", "GateCollection"]


@dataclass(frozen=True)
class GateCollection:
    """Held-out queries and the documents they are to find; no device has trained on them.

    Attributes:
        queries: typed well; some of them judged, those that are not count for spread and rank
            alone.
        document_ids: one for each row of ``document_vectors``.
        document_vectors: the teacher's, float32 (documents, dimension), rows of unit length.
        judgements: graded relevance.
        typings: the queries mistyped, once or several times: each has a text for every query.
        judges_clean: whether retrieval of the queries as they are counts. Not where the judgements
            are what the shipped encoder finds for them: any change at all could only lose.
    """

    queries: Sequence[Query]
    document_ids: Sequence[str]
    document_vectors: NDArray[np.float32]
    judgements: Judgements
    typings: Sequence[Sequence[str]] = ()
    judges_clean: bool = True

    def __post_init__(self) -> None:
        shape = self.document_vectors.shape
        if len(shape) != 2 or shape[0] != len(self.document_ids) or not shape[0]:
            raise InvalidInputError(
                f"document_vectors has shape {shape}; expected one row for each of the "
                f"{len(self.document_ids)} document ids, at least one"
            )
        if not (self.typings or self.judges_clean) or any(
            len(texts) != len(self.queries) for texts in self.typings
        ):
            raise InvalidInputError(
                f"found {[len(texts) for texts in self.typings]} mistyped texts of "
                f"{len(self.queries)} queries, expected one of each query in every typing, and a "
                "typing where the queries as they are do not count"
            )
        if not self.judged:
            raise InvalidInputError(
                f"none of the gate's {len(self.queries)} queries has a relevant document; give "
                "judgements of these queries"
            )

    @property
    def judged(self) -> Judgements:
        """The judgements of the queries that are here and have a relevant document."""
        return {
            query.id: self.judgements[query.id]
            for query in self.queries
            if any(grade > 0 for grade in self.judgements.get(query.id, {}).values())
        }


@dataclass(frozen=True, eq=False)
class _Measured:
    """One encoder on the collection.

    Attributes:
        vectors: of the queries as they are, (queries, dimension).
        finite: whether all vectors are, those of the mistyped queries too.
        scores: by the set's name, (judged,); of the mistyped ones each query's mean.
        rankings: of the queries as they are, then of each typing, one after another.
    """

    vectors: NDArray[np.float32]
    finite: bool
    scores: Mapping[str, NDArray[np.float64]]
    rankings: Sequence[Sequence[str]]


class Gate:
    """Judges candidates for one bundle, one after another; each adapter is measured once.

    Args:
        bundle: whose int8 encoder runs.
        collection: held-out queries and documents, in the bundle's space.
        settings: what a candidate must keep.

    Raises:
        InvalidInputError: the document vectors have another dimension than the bundle's space.
    """

    def __init__(
        self, bundle: Bundle, collection: GateCollection, settings: GateSettings | None = None
    ) -> None:
        self._encoder = Encoder.of_bundle(bundle)
        self._collection = collection
        self._settings = settings or GateSettings()
        if collection.document_vectors.shape[1] != self._encoder.dimension:
            raise InvalidInputError(
                f"the gate's document vectors have {collection.document_vectors.shape[1]} "
                f"dimensions, the bundle {self._encoder.name!r} has {self._encoder.dimension}; "
                "encode the documents with the bundle's teacher"
            )
        self._own = self._encoder.adapter
        self._known: dict[str, _Measured] = {}

    def judge(self, old: AdapterSource | None, new: AdapterSource) -> AcceptanceReport:
        """Whether ``new`` may follow ``old``.

        Args:
            old: the release in force, by its path, bytes or tensors; None: the bundle's own.
            new: the candidate; tensors are rounded to float16, as a release would be.

        Raises:
            CorruptArtifactError: a tensor is missing, unknown or of another shape, or a release
                was changed. Values that are not finite are no error but a rejected candidate.
        """
        shipped = self._measured(self._own)
        before = shipped if old is None else self._measured(self._tensors(old))
        tensors = self._tensors(new)
        if not all(np.isfinite(value).all() for value in tensors.values()):
            return self._not_finite(shipped, before)
        after = self._measured(tensors)
        # What the next call may ask for again; a federation has as many versions as rounds.
        self._known = {
            key: value for key, value in self._known.items() if value in (shipped, before, after)
        }
        if not after.finite:
            return self._not_finite(shipped, before)
        return self._compared(shipped, before, after)

    def _tensors(self, source: AdapterSource) -> Tensors:
        if isinstance(source, Mapping):
            return released(source)
        if isinstance(source, AdapterRelease):
            return source.tensors
        return read_adapter(source, manifest=self._encoder.manifest).tensors

    def _measured(self, tensors: Tensors) -> _Measured:
        key = tensors_sha256(tensors)
        if key not in self._known:
            self._encoder.swap_adapter(tensors)
            self._known[key] = self._measure()
        return self._known[key]

    def _measure(self) -> _Measured:
        data = self._collection
        vectors = self._encoder.encode_query([query.text for query in data.queries])
        finite = bool(np.isfinite(vectors).all())
        scores: dict[str, NDArray[np.float64]] = {}
        rankings = self._ranked(vectors)
        if data.judges_clean:
            scores[CLEAN] = self._scores(rankings)
        typed = []
        for texts in data.typings:
            mistyped = self._encoder.encode_query(list(texts))
            finite = finite and bool(np.isfinite(mistyped).all())
            ranked = self._ranked(mistyped)
            typed.append(self._scores(ranked))
            rankings += ranked
        if typed:
            scores[MISTYPED] = np.mean(typed, axis=0)
        return _Measured(vectors, finite, scores, rankings)

    def _ranked(self, vectors: NDArray[np.float32]) -> list[list[str]]:
        """The ranking of each query, from its vector."""
        data, seed = self._collection, self._settings.seed
        return rank_exactly(vectors, data.document_vectors, data.document_ids, DEPTH, seed=seed)

    def _scores(self, rankings: Sequence[Sequence[str]]) -> NDArray[np.float64]:
        """The score of each judged query, (judged,), from the ranking of each query."""
        data = self._collection
        by_query = {
            query.id: ranking for query, ranking in zip(data.queries, rankings, strict=True)
        }
        return score_rankings(data.judged, by_query).per_query[self._settings.metric]

    def _compared(
        self, shipped: _Measured, before: _Measured, after: _Measured
    ) -> AcceptanceReport:
        settings = self._settings
        sets = {
            name: Comparison(
                before=float(before.scores[name].mean()),
                after=float(scores.mean()),
                shipped=float(shipped.scores[name].mean()),
                difference=bootstrap_difference(
                    [(scores, before.scores[name])],
                    samples=settings.samples,
                    confidence=settings.confidence,
                    seed=settings.seed,
                ),
            )
            for name, scores in after.scores.items()
        }
        health = measure(after.vectors, shipped.vectors)
        judged = self._collection.judged
        relevant = [
            {document for document, grade in judged.get(query.id, {}).items() if grade > 0}
            for query in self._collection.queries
        ]
        typings = len(after.rankings) // len(relevant)
        risen = most_risen(shipped.rankings, after.rankings, relevant * typings)
        verdict, detail = verdict_on(sets, health, settings, risen)
        return AcceptanceReport(verdict, detail, len(judged), sets, health, settings, risen)

    def _not_finite(self, shipped: _Measured, before: _Measured) -> AcceptanceReport:
        nowhere = Interval(math.nan, math.nan, math.nan)
        sets = {
            name: Comparison(
                float(before.scores[name].mean()), math.nan, float(scores.mean()), nowhere
            )
            for name, scores in shipped.scores.items()
        }
        return AcceptanceReport(
            verdict=Verdict.NOT_FINITE,
            detail="the candidate, or a vector it gives, holds NaN or infinity",
            queries=len(self._collection.judged),
            sets=sets,
            health=Health(*[math.nan] * len(dataclasses.fields(Health))),
            settings=self._settings,
        )

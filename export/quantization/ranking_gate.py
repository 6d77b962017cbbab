"""The ranking gate: int8 may ship only if it ranks the user's documents as float does.

A cosine near 1 says little about rankings, so the gate measures what a user sees. It compares the
int8 encoder with the float student over the teacher's document vectors: the overlap of the ten best
documents, and nDCG@10 where judgements exist. Means over queries that calibration has seen hide
what happens to the one it has not, so every text that was held out of calibration must also keep a
least cosine to float. Where the gate fails, MatMuls go back to float, the most harmful first, until
it passes. Every step is kept for the manifest.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx

from pocketquery.export.parity import row_cosines
from pocketquery.export.sessions import GraphSession
from pocketquery.export.settings import GateThresholds
from pocketquery.sdk.arrays import Floats
from pocketquery.sdk.errors import ArtifactError, InvalidInputError
from pocketquery.server.corpus import Judgements, Query
from pocketquery.server.evaluation.metrics import score_rankings
from pocketquery.server.evaluation.ranking import rank_exactly

__all__ = ["GateData", "GateStep", "GateReport", "compare_rankings", "pass_gate"]

Quantizer = Callable[[Sequence[str]], onnx.ModelProto]

_DEPTH = 10
_RANKING_QUERIES = 200  # enough to order MatMuls by harm; passing is judged on all queries


@dataclass(frozen=True)
class GateData:
    """The user's own queries and corpus.

    Attributes:
        queries: at least one; the query prompt is put before them where the student has one.
        document_ids: one for each row of ``document_vectors``.
        document_vectors: the teacher's, float32 (documents, dimension), rows of unit length.
        judgements: graded relevance, or None to look at the overlap alone.
        expected: what int8 is held to, float32 (queries, dimension): a teacher's own vectors of the
            queries; None for those of the float graph.
    """

    queries: Sequence[Query]
    document_ids: Sequence[str]
    document_vectors: Floats
    judgements: Judgements | None = None
    expected: Floats | None = None

    def __post_init__(self) -> None:
        if not self.queries:
            raise InvalidInputError("the ranking gate has no queries; expected at least one")
        shape = self.document_vectors.shape
        if len(shape) != 2 or shape[0] != len(self.document_ids) or not shape[0]:
            raise InvalidInputError(
                f"document_vectors has shape {shape}; expected one row for each of the "
                f"{len(self.document_ids)} document ids, at least one"
            )
        if self.judgements is not None:
            known = {query.id for query in self.queries}
            if not known & set(self.judgements):
                raise InvalidInputError(
                    "no query of the ranking gate has a judgement; give judgements of these "
                    "queries, or none"
                )


@dataclass(frozen=True)
class GateStep:
    """One trial: which MatMuls stayed in float, and what came out against the float student.

    ``overlap`` and ``ndcg`` are over the gate's queries, the cosines over the held-out texts.
    """

    excluded: tuple[str, ...]
    overlap: float
    ndcg: float | None
    cosine_mean: float
    cosine_min: float


@dataclass(frozen=True)
class GateReport:
    """What the gate saw; :meth:`to_dict` goes into the manifest."""

    queries: int
    documents: int
    thresholds: GateThresholds
    float_ndcg: float | None
    steps: tuple[GateStep, ...] = field(default=())

    @property
    def last(self) -> GateStep:
        """The trial that decided."""
        return self.steps[-1]

    def to_dict(self) -> dict[str, Any]:
        """The fields as JSON can hold them."""
        return dataclasses.asdict(self) | {"passed": True}


def pass_gate(
    float_model: onnx.ModelProto,
    quantize: Quantizer,
    candidates: Sequence[str],
    data: GateData,
    query_ids: Sequence[Sequence[int]],
    held_out_ids: Sequence[Sequence[int]],
    thresholds: GateThresholds = GateThresholds(),
    *,
    on_step: Callable[[GateStep], None] | None = None,
) -> tuple[onnx.ModelProto, GateReport]:
    """Quantise with as few exclusions as the gate lets through.

    Args:
        float_model: the student's float graph.
        quantize: makes an int8 graph with the named MatMuls left in float.
        candidates: names of the MatMuls that may be left in float.
        data: queries and documents.
        query_ids: token ids of ``data.queries``, prompt and specials included.
        held_out_ids: token ids of at least one text that calibration did not see, likewise.
        thresholds: when to let pass.
        on_step: told of every trial, for progress.

    Returns:
        The int8 graph and the report.

    Raises:
        ArtifactError: the gate fails even with every candidate in float.
        InvalidInputError: the document vectors are not of the student's dimension.
    """
    session = GraphSession(float_model)
    expected = session.encode(query_ids) if data.expected is None else data.expected
    judge = _Judge(expected, session.encode(held_out_ids), data, thresholds)
    steps: list[GateStep] = []
    excluded: list[str] = []
    remaining: list[str] | None = None
    while True:
        model = quantize(excluded)
        session = GraphSession(model)
        step = judge.step(session.encode(query_ids), session.encode(held_out_ids), excluded)
        steps.append(step)
        if on_step is not None:
            on_step(step)
        if judge.passes(step):
            documents = len(data.document_ids)
            return model, GateReport(
                len(data.queries), documents, thresholds, judge.float_ndcg, tuple(steps)
            )
        if remaining is None:
            sample = query_ids[:_RANKING_QUERIES], held_out_ids
            remaining = _by_harm(judge, quantize, candidates, *sample, ranks=judge.ranks(step))
        if not remaining:
            raise ArtifactError(
                f"the ranking gate fails with all {len(excluded)} MatMuls left in float: "
                f"{judge.failure(step)}. Nothing was written. Lower the "
                "thresholds, give more queries, or train the student longer"
            )
        excluded.append(remaining.pop(0))


def compare_rankings(
    expected: Floats, actual: Floats, data: GateData, thresholds: GateThresholds
) -> GateStep:
    """Hold the vectors of another graph to those of the encoder, as the gate holds int8 to float.

    Args:
        expected: the encoder's vectors of ``data.queries``, float32 (queries, dimension).
        actual: the other graph's.
        data: queries and documents.
        thresholds: when to let pass; of the rankings alone.

    Raises:
        ArtifactError: ``actual`` ranks otherwise.
    """
    judge = _Judge(expected, expected, data, thresholds)
    step = judge.step(actual, actual, ())
    if not judge.ranks(step):
        raise ArtifactError(f"{judge.ranking_failure(step)}. Nothing was written.")
    return step


class _Judge:
    """Scores vectors against the expected ones, whose rankings are computed once.

    Args:
        expected: of the queries, float32 (queries, dimension).
        held_out: of the held-out texts, float32 (texts, dimension).
        data: queries and documents.
        thresholds: when to let pass.
    """

    def __init__(
        self, expected: Floats, held_out: Floats, data: GateData, thresholds: GateThresholds
    ) -> None:
        self._data, self._thresholds = data, thresholds
        self._best = min(_DEPTH, max(1, len(data.document_ids) // 2))
        self._held_out = held_out
        if expected.shape[1] != data.document_vectors.shape[1]:
            raise InvalidInputError(
                f"the document vectors have {data.document_vectors.shape[1]} dimensions, the "
                f"student's {expected.shape[1]}; encode the documents with its teacher"
            )
        self._rankings = self._rank(expected)
        self.float_ndcg = self._ndcg(self._rankings)

    def step(self, vectors: Floats, held_out: Floats, excluded: Sequence[str]) -> GateStep:
        rankings = self._rank(vectors)
        cosines = row_cosines(held_out, self._held_out)
        return GateStep(
            tuple(excluded),
            self._overlap(rankings),
            self._ndcg(rankings),
            float(cosines.mean()),
            float(cosines.min()),
        )

    def passes(self, step: GateStep) -> bool:
        return self.ranks(step) and step.cosine_min >= self._thresholds.cosine

    def ranks(self, step: GateStep) -> bool:
        """Whether the rankings pass, whatever the cosines."""
        if step.overlap < self._thresholds.overlap:
            return False
        if step.ndcg is None or self.float_ndcg is None:
            return True
        return self.float_ndcg - step.ndcg <= self._thresholds.ndcg_loss

    def harm(self, vectors: Floats, held_out: Floats) -> tuple[float, float]:
        """Overlap of the first queries and least cosine: the higher, the more was gained."""
        least = float(row_cosines(held_out, self._held_out).min())
        return self._overlap(self._rank(vectors)), least

    def _overlap(self, rankings: Sequence[Sequence[str]]) -> float:
        best = self._best
        pairs = zip(rankings, self._rankings, strict=False)  # a sample is the first queries
        return float(np.mean([len(set(a[:best]) & set(b[:best])) / best for a, b in pairs]))

    def ranking_failure(self, step: GateStep) -> str:
        limits = self._thresholds
        text = f"top-10 overlap {step.overlap:.3f} (expected {limits.overlap} or more)"
        if step.ndcg is None or self.float_ndcg is None:
            return text
        return (
            f"{text} and nDCG@10 {step.ndcg:.3f} against {self.float_ndcg:.3f} (expected a loss "
            f"of at most {limits.ndcg_loss})"
        )

    def failure(self, step: GateStep) -> str:
        return (
            f"{self.ranking_failure(step)}, least cosine {step.cosine_min:.3f} (expected "
            f"{self._thresholds.cosine} or more)"
        )

    def _rank(self, vectors: Floats) -> list[list[str]]:
        return rank_exactly(vectors, self._data.document_vectors, self._data.document_ids, _DEPTH)

    def _ndcg(self, rankings: Sequence[Sequence[str]]) -> float | None:
        if self._data.judgements is None:
            return None
        by_query = {q.id: ranking for q, ranking in zip(self._data.queries, rankings, strict=True)}
        judged: Mapping[str, dict[str, int]] = {
            query: grades for query, grades in self._data.judgements.items() if query in by_query
        }
        return score_rankings(dict(judged), by_query).means()["ndcg@10"]


def _by_harm(
    judge: _Judge,
    quantize: Quantizer,
    candidates: Sequence[str],
    query_ids: Sequence[Sequence[int]],
    held_out_ids: Sequence[Sequence[int]],
    *,
    ranks: bool,
) -> list[str]:
    """Candidates, the one whose exclusion alone helps most first: with the rankings, or, where
    these pass, with the least cosine."""
    gains: dict[str, tuple[float, float]] = {}
    for name in candidates:
        session = GraphSession(quantize([name]))
        overlap, least = judge.harm(session.encode(query_ids), session.encode(held_out_ids))
        gains[name] = (least, overlap) if ranks else (overlap, least)
    return sorted(candidates, key=lambda name: gains[name], reverse=True)

"""What the int8 encoder finds with an adapter: held-out questions over the devices' own index."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from private_rounds.changes import SEED, Fleet

from pocketquery.sdk.arrays import Floats
from pocketquery.sdk.bundle.adapter_tensors import released
from pocketquery.sdk.encoder import Encoder
from pocketquery.server.evaluation import rank_exactly, score_rankings
from pocketquery.server.federation.releases.gate import GateCollection
from pocketquery.server.federation.releases.gate_data import judged_by_people
from pocketquery_demo.corpus import read_demo_corpus

__all__ = ["CONDITIONS", "Retrieval", "Scores", "gate_collection"]

CONDITIONS = ("clean", "mistyped")
_GATE_QUESTIONS = 500
_DEPTH = 10

Scores = dict[str, NDArray[np.float64]]  # condition -> nDCG@10 of each question


def gate_collection(fleet: Fleet, questions: int, typings: int) -> GateCollection:
    """At most 500 questions for the operator's gate, each typed so often, at most 4 times; the
    tests are others on the same articles."""
    return _first(_collection(fleet, gate=True), questions, typings)


class Retrieval:
    """The tests: questions on the eight articles that neither the distillation nor a user saw.

    Args:
        fleet: whose bundle and index are asked.
        typings: how often each question is mistyped (8 % of the letters), at most 4.
        questions: at most; all of the 1,074 where None.
    """

    def __init__(self, fleet: Fleet, typings: int = 3, questions: int | None = None) -> None:
        self._encoder = Encoder.of_bundle(fleet.bundle)
        self.collection = _first(_collection(fleet, gate=False), questions, typings)

    def scores(self, adapter: Mapping[str, Floats]) -> Scores:
        """nDCG@10 of each question with ``adapter`` as a release would carry it; of the mistyped
        ones the mean over the typings.
        """
        self._encoder.swap_adapter(released(adapter))
        typed = [self._scores(texts) for texts in self.collection.typings]
        clean = self._scores([query.text for query in self.collection.queries])
        return {"clean": clean, "mistyped": np.mean(typed, axis=0)}

    def ranks(self, adapter: Mapping[str, Floats], texts: Sequence[str], row: int) -> list[int]:
        """At which rank, from 1, each text finds the document in ``row``."""
        self._encoder.swap_adapter(released(adapter))
        scores = self._encoder.encode_query(list(texts)) @ self.collection.document_vectors.T
        return [int((line > line[row]).sum()) + 1 for line in scores]

    def _scores(self, texts: Sequence[str]) -> NDArray[np.float64]:
        data = self.collection
        vectors = self._encoder.encode_query(list(texts))
        lists = rank_exactly(vectors, data.document_vectors, data.document_ids, _DEPTH)
        found = {query.id: ranking for query, ranking in zip(data.queries, lists, strict=True)}
        return score_rankings(data.judged, found).per_query["ndcg@10"]


def _first(found: GateCollection, questions: int | None, typings: int) -> GateCollection:
    return replace(
        found,
        queries=found.queries[:questions],
        typings=[texts[:questions] for texts in found.typings[:typings]],
    )


def _collection(fleet: Fleet, *, gate: bool) -> GateCollection:
    found = read_demo_corpus().held_out
    queries = list(found.queries)
    random.Random(SEED).shuffle(queries)
    part = queries[:_GATE_QUESTIONS] if gate else queries[_GATE_QUESTIONS:]
    judged = {query.id: found.judgements[query.id] for query in part}
    return judged_by_people(fleet.index, part, judged)

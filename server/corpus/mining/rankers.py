"""Rankers that find passages which look relevant: BM25, or a model in training."""

from __future__ import annotations

import sqlite3
import weakref
from collections.abc import Iterator, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from pocketquery.sdk.arrays import Encode, Floats
from pocketquery.sdk.index.bm25 import bm25, create_postings, insert_postings
from pocketquery.sdk.index.vectors import best, best_first
from pocketquery.sdk.words import Analyzer

__all__ = ["Bm25Ranker", "DenseRanker", "Encode", "Ranker"]

"""Texts to vectors of unit length, float32 (texts, dimension)."""

_SEGMENT = 10_000  # texts whose postings are in memory at once
_BLOCK = 256  # queries scored at once: bounds the memory to _BLOCK x passages


class Ranker(Protocol):
    """Ranks the passages it was made with."""

    def rank(self, queries: Sequence[str], depth: int) -> Iterator[NDArray[np.int64]]:
        """For each query the rows of the best passages, best first, int64 (at most depth,)."""


class Bm25Ranker:
    """The index's own BM25, over postings in a temporary database that spills to disk.

    Args:
        passages: texts; a passage that shares no term with a query is never found.
    """

    def __init__(self, passages: Sequence[str]) -> None:
        self._analyzer = Analyzer()
        # Deleted when it is closed, which at exit another thread may do.
        self._database = sqlite3.connect("", check_same_thread=False)
        weakref.finalize(self, self._database.close)
        create_postings(self._database)
        lengths = []
        for start in range(0, len(passages), _SEGMENT):
            texts = passages[start : start + _SEGMENT]
            occurrences, some = self._analyzer.occurrences(texts)
            insert_postings(self._database, start, occurrences)
            lengths.append(some)
        self._lengths = np.concatenate([*lengths, np.zeros(0, np.uint32)]).astype(np.float32)

    def rank(self, queries: Sequence[str], depth: int) -> Iterator[NDArray[np.int64]]:
        """For each query the rows of the best passages, best first, int64 (at most depth,)."""
        for query in queries:
            scores = bm25(self._database, self._analyzer.query(query).terms, self._lengths).scores
            matches = np.flatnonzero(scores)
            yield matches[_best(scores[matches], depth)]


class DenseRanker:
    """A model's cosines with all passages, whose vectors are kept in memory.

    Args:
        encode_query: of the model.
        encode_passage: of the model.
        passages: texts.
    """

    def __init__(
        self, encode_query: Encode, encode_passage: Encode, passages: Sequence[str]
    ) -> None:
        self._encode_query = encode_query
        self._vectors = encode_passage(passages)

    def rank(self, queries: Sequence[str], depth: int) -> Iterator[NDArray[np.int64]]:
        """For each query the rows of the best passages, best first, int64 (at most depth,)."""
        for start in range(0, len(queries), _BLOCK):
            vectors = self._encode_query(queries[start : start + _BLOCK])
            for scores in vectors @ self._vectors.T:  # (block, passages)
                yield _best(scores, depth)


def _best(scores: Floats, depth: int) -> NDArray[np.int64]:
    """Rows of the highest scores, the highest first; of equal ones the earlier."""
    rows = best(scores, depth)
    return best_first(rows, scores[rows], depth)[0]

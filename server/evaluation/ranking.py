"""Ranking documents by vectors, exactly, with ties broken fairly."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = ["rank_exactly", "without_excluded"]

_BLOCK = 512  # queries scored at once: bounds the memory to _BLOCK x documents


def rank_exactly(
    query_vectors: NDArray[np.float32],
    document_vectors: NDArray[np.float32],
    document_ids: Sequence[str],
    depth: int,
    *,
    seed: int = 0,
) -> list[list[str]]:
    """The ``depth`` documents of highest inner product for every query, best first.

    Equal scores keep the order of a seeded shuffle of the documents: an encoder that gives every
    text the same vector ranks at chance, not by the order of the file.

    Args:
        query_vectors: float32 (queries, dimension).
        document_vectors: float32 (documents, dimension).
        document_ids: one id for each document vector.
        depth: length of the rankings; shorter only where there are fewer documents.
        seed: of the shuffle.
    """
    order = np.random.default_rng(seed).permutation(len(document_ids))
    shuffled = document_vectors[order]
    rankings: list[list[str]] = []
    for start in range(0, len(query_vectors), _BLOCK):
        scores = query_vectors[start : start + _BLOCK] @ shuffled.T  # (block, documents)
        best = np.argsort(-scores, axis=1, kind="stable")[:, :depth]
        rankings.extend([document_ids[order[column]] for column in row] for row in best)
    return rankings


def without_excluded(
    query_id: str, ranking: Sequence[str], excluded: frozenset[tuple[str, str]], depth: int
) -> list[str]:
    """The first ``depth`` documents of a ranking that are not excluded for this query."""
    return [document for document in ranking if (query_id, document) not in excluded][:depth]

"""Knowledge retrieval: a user's query must find any question of the right knowledge entry.

The main table of "Auto-MLM: Improved Contrastive Learning for Self-supervised Multi-lingual
Knowledge Retrieval": several questions belong to one entry; a query counts as answered where one of
the K nearest belongs to its entry.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pocketquery.sdk.errors import InvalidInputError

__all__ = ["hits_at"]

_BLOCK = 512  # queries scored at once


def hits_at(
    k: int,
    query_vectors: NDArray[np.float32],
    query_entries: Sequence[str],
    question_vectors: NDArray[np.float32],
    question_entries: Sequence[str],
    *,
    distinct: bool = False,
    seed: int = 0,
) -> NDArray[np.float64]:
    """Whether each query's entry is among its K nearest questions, or K nearest distinct entries.

    Ties are broken by a seeded shuffle of the questions.

    Args:
        k: how far down the ranking is looked.
        query_vectors: float32 (queries, dimension), unit rows.
        query_entries: the right entry of each query.
        question_vectors: float32 (questions, dimension), unit rows.
        question_entries: the entry of each question.
        distinct: K counts entries, each at its best question.
        seed: of the shuffle.

    Returns:
        1.0 or 0.0 for each query, float64 (queries,).

    Raises:
        InvalidInputError: numbers of rows differ, or ``k`` is below 1.
    """
    if k < 1 or len(query_vectors) != len(query_entries):
        raise InvalidInputError(
            f"k is {k}, {len(query_vectors)} query vectors have {len(query_entries)} entries; "
            "expected k of at least 1 and an entry for every query"
        )
    if len(question_vectors) != len(question_entries):
        raise InvalidInputError(
            f"{len(question_vectors)} question vectors have {len(question_entries)} entries; "
            "expected an entry for every question"
        )
    order = np.random.default_rng(seed).permutation(len(question_entries))
    codes = {entry: code for code, entry in enumerate(dict.fromkeys(question_entries))}
    entries = np.array([codes[entry] for entry in question_entries])[order]
    hits = []
    for start in range(0, len(query_vectors), _BLOCK):
        scores = query_vectors[start : start + _BLOCK] @ question_vectors[order].T
        ranked = entries[np.argsort(-scores, axis=1, kind="stable")]  # (block, questions)
        for entry, row in zip(query_entries[start:], ranked, strict=False):
            near = row if distinct is False else np.array(list(dict.fromkeys(row.tolist())))
            hits.append(codes.get(entry, -1) in near[:k])
    return np.array(hits, dtype=np.float64)

"""What the student is to reproduce: the teacher's vectors, computed once and kept on disk."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from pocketquery.sdk.arrays import Floats, Integers
from pocketquery.server.modeling.vector_cache import VectorSource, cached_vectors

__all__ = ["Targets", "nearest_documents", "prepare_targets"]


_BLOCK = 512  # texts compared with all documents at once


@dataclass(frozen=True)
class Targets:
    """The teacher's view of the training texts.

    Attributes:
        vectors: float32 (n_texts, dim), the teacher on each clean text as a query.
        documents: float32 (n_documents, dim), the teacher on each document.
        nearest: int64 (n_texts, k), the documents the teacher ranks first for each text.
        shares: float32 (n_texts, k), rows that sum to 1: how much of the ranking each of
            ``nearest`` is to get, and every other document nothing. None: the teacher's vectors
            rank.
        mean: float32 (dim,), of ``vectors``: from there students learn directions. 0: from nowhere.
    """

    vectors: Floats
    documents: Floats
    nearest: Integers
    shares: Floats | None = None
    mean: Floats | float = 0.0


def prepare_targets(
    teacher: VectorSource,
    texts: Sequence[str],
    documents: Sequence[str],
    cache: Path,
    *,
    nearest: int,
    bfloat16: bool = False,
    show_progress_bar: bool = False,
) -> Targets:
    """Encode texts and documents with the teacher, reusing what ``cache`` already holds.

    Without documents the training texts themselves are ranked, each other than its own.

    Args:
        teacher: the frozen encoder.
        texts: training texts, encoded as queries.
        documents: encoded as documents.
        cache: folder of finished pieces; a killed call continues after the last one.
        nearest: documents kept per text.
        bfloat16: autocast (cosine to float32 above 0.9999, a third of the time on accelerators
            and on processors with AMX).
        show_progress_bar: one bar a role.
    """
    options = {"bfloat16": bfloat16, "show_progress_bar": show_progress_bar}
    device = teacher.device
    vectors = cached_vectors(teacher, "query", texts, cache, **options)
    mean = vectors.mean(axis=0)
    if documents:
        ranked = cached_vectors(teacher, "document", documents, cache, **options)
        return Targets(
            vectors, ranked, nearest_documents(vectors, ranked, nearest, device), mean=mean
        )
    # A text is its own nearest neighbour; one more is asked for and the first is dropped.
    rows = nearest_documents(vectors, vectors, nearest + 1, device)
    return Targets(vectors, vectors, rows[:, 1:], mean=mean)


def nearest_documents(
    vectors: Floats, documents: Floats, k: int, device: torch.device | str = "cpu"
) -> Integers:
    """Rows of ``documents`` nearest to each vector, best first: int64 (n, min(k, n_documents)).

    Exact; millions of texts want an accelerator as ``device``.
    """
    k = min(k, len(documents))
    nearest = np.empty((len(vectors), k), dtype=np.int64)
    columns = torch.from_numpy(documents).to(device).T
    for start in range(0, len(vectors), _BLOCK):
        block = torch.from_numpy(vectors[start : start + _BLOCK]).to(device)
        scores = block @ columns  # (block, n_documents)
        nearest[start : start + _BLOCK] = torch.topk(scores, k, dim=1).indices.cpu().numpy()
    return nearest

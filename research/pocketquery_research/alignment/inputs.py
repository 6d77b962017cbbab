"""What an alignment learns from: queries, and vectors of a document encoder that stays as it is."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pocketquery.distill.targets import nearest_documents
from pocketquery.sdk.arrays import Floats, Integers
from pocketquery.sdk.errors import CorpusError
from pocketquery.server.corpus.groups import Source
from pocketquery.server.modeling import SentenceEncoder
from pocketquery.server.modeling.vector_cache import cached_vectors, texts_sha256

__all__ = ["AlignmentData", "alignment_data"]


@dataclass(frozen=True)
class AlignmentData:
    """Queries and documents; the vectors are read-only, and never computed again.

    Attributes:
        queries: n texts, all different.
        own: float32 (n, dim), the document encoder's vector of each query.
        documents: float32 (m, dim), of each document, unit rows.
        positives: of each query the rows of its relevant documents; may be empty.
        negatives: of each query the rows of its hard negatives; may be empty.
        space_id: the document encoder's.
    """

    queries: tuple[str, ...]
    own: Floats
    documents: Floats
    positives: tuple[Integers, ...]
    negatives: tuple[Integers, ...]
    space_id: str

    def hashes(self) -> dict[str, str]:
        """What tells these data from others: a SHA-256 of each attribute, by its name.

        It reads every vector, about a second a gigabyte.
        """
        return {
            "queries": texts_sha256(self.queries),
            "own": _sha256(self.own),
            "documents": _sha256(self.documents),
            "positives": _sha256(*_joined(self.positives)),
            "negatives": _sha256(*_joined(self.negatives)),
        }


def alignment_data(
    document_encoder: SentenceEncoder,
    source: Source,
    cache: Path,
    *,
    documents: Sequence[str] = (),
    nearest: int = 0,
    show_progress_bar: bool = False,
) -> AlignmentData:
    """Encode a source with the document encoder, which is frozen by this.

    Args:
        document_encoder: the frozen one; every vector is computed once and kept in ``cache``.
        source: ``triples`` (query, positive, negatives), ``pairs`` (query, document) or
            ``queries``. Groups of one query are put together.
        cache: folder of finished pieces; a killed call continues after the last one.
        documents: further documents, from which negatives may come.
        nearest: where a query has no hard negatives: as many of the documents that the document
            encoder ranks highest for it and that are not relevant.
        show_progress_bar: one bar a role.

    Raises:
        CorpusError: the source is of another kind, or empty.
    """
    if source.kind not in ("triples", "pairs", "queries") or not len(source):
        raise CorpusError(
            f"the source has {len(source)} groups of the kind {source.kind}; expected triples, "
            "pairs or queries, at least one"
        )
    document_encoder.requires_grad_(False).eval()
    positives: dict[str, dict[int, None]] = {}
    negatives: dict[str, dict[int, None]] = {}
    rows: dict[str, int] = {}
    for place in range(len(source)):
        texts = source[place].texts
        if not texts:  # a blank query, or a triple without a query or positive
            continue
        query, *found = texts
        numbered = [rows.setdefault(text, len(rows)) for text in found]
        positives.setdefault(query, {}).update(dict.fromkeys(numbered[:1]))
        negatives.setdefault(query, {}).update(dict.fromkeys(numbered[1:]))
    if not positives:
        raise CorpusError(f"the {len(source)} {source.kind} have no text; expected at least one")
    for text in documents:
        rows.setdefault(text, len(rows))
    own, vectors = (
        cached_vectors(document_encoder, role, texts, cache, show_progress_bar=show_progress_bar)
        for role, texts in (("query", list(positives)), ("document", list(rows)))
    )
    hard = [[row for row in negatives[query] if row not in positives[query]] for query in positives]
    if nearest and len(vectors):
        hard = _mined(own, vectors, [list(found) for found in positives.values()], hard, nearest)
    for array in (own, vectors):
        array.flags.writeable = False
    return AlignmentData(
        queries=tuple(positives),
        own=own,
        documents=vectors,
        positives=tuple(np.array(list(found), dtype=np.int64) for found in positives.values()),
        negatives=tuple(np.array(found, dtype=np.int64) for found in hard),
        space_id=document_encoder.space_id,
    )


def _mined(
    own: Floats,
    vectors: Floats,
    positives: list[list[int]],
    negatives: list[list[int]],
    count: int,
) -> list[list[int]]:
    """``negatives``, and where a query has none the nearest documents that are not relevant."""
    most = max(len(found) for found in positives)
    ranked = nearest_documents(own, vectors, count + most)
    return [
        given or [int(row) for row in best if row not in relevant][:count]
        for given, best, relevant in zip(negatives, ranked, positives, strict=True)
    ]


def _joined(rows: Sequence[Integers]) -> tuple[Integers, Integers]:
    """Lists of rows as their lengths and one array, int64 (n,) and int64 (sum of lengths,)."""
    lengths = np.array([len(found) for found in rows], dtype=np.int64)
    return lengths, np.concatenate([np.zeros(0, np.int64), *rows])


def _sha256(*arrays: NDArray[Any]) -> str:
    """SHA-256 of arrays: their types, shapes and content all count."""
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(f"{array.dtype.str}{array.shape}".encode())
        digest.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return digest.hexdigest()

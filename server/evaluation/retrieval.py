"""Evaluate retrieval: a bundle beside its teacher, BM25 and both together.

Four systems rank the same documents for the same queries:

    teacher   the teacher on both sides, exact float search
    bundle    the bundle's query vectors against the teacher's documents in the int8 index
    bm25      the index's lexical search
    hybrid    the index's fusion of the last two

Without a bundle the teacher is measured alone: there is no second row, and hybrid is its own.
"""

from __future__ import annotations

import contextlib
import random
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pocketquery.client import mistype
from pocketquery.sdk.encoder import Encoder
from pocketquery.sdk.errors import SpaceMismatchError
from pocketquery.sdk.index.index import Index, create_index, open_index
from pocketquery.sdk.index.search import Mode
from pocketquery.server.corpus import Collection, Query
from pocketquery.server.evaluation.document_vectors import encode_documents
from pocketquery.server.evaluation.metrics import DEPTH, METRICS, Scores, score_rankings
from pocketquery.server.evaluation.ranking import rank_exactly, without_excluded

if TYPE_CHECKING:  # torch is the caller's to import
    from pocketquery.server.modeling import SentenceEncoder

__all__ = [
    "evaluation_table",
    "Evaluation",
    "QueryEncoder",
    "evaluate",
    "mistyped",
    "temporary_index",
    "check_space",
]

QueryEncoder = Callable[[list[str]], NDArray[np.float32]]
"""Query texts to float32 (queries, dimension) in the documents' space."""


_INDEX_MODES: dict[str, Mode] = {"bundle": "dense", "bm25": "lexical", "hybrid": "hybrid"}


@dataclass(frozen=True)
class Evaluation:
    """Scores of every system by its name: teacher, bundle if any, bm25, hybrid, any extra ones."""

    scores: Mapping[str, Scores]

    def means(self) -> dict[str, dict[str, float]]:
        """system -> metric -> mean over the queries."""
        return {name: scores.means() for name, scores in self.scores.items()}

    def retention(self) -> dict[str, float | None]:
        """metric -> the bundle's mean over the teacher's; None where the teacher's is 0.

        Empty where no bundle was measured.
        """
        if "bundle" not in self.scores:
            return {}
        bundle, teacher = self.scores["bundle"].means(), self.scores["teacher"].means()
        return {name: bundle[name] / teacher[name] if teacher[name] else None for name in bundle}


def evaluate(
    collection: Collection,
    bundle: Encoder | None,
    teacher: SentenceEncoder,
    *,
    document_vectors: NDArray[np.float32] | None = None,
    index: Index | None = None,
    typos: float = 0.0,
    seed: int = 0,
    more_encoders: Mapping[str, QueryEncoder] | None = None,
    show_progress_bar: bool = False,
) -> Evaluation:
    """Rank the collection's documents for its queries with each system, and score the rankings.

    Args:
        bundle: the query encoder under test; None to measure the teacher alone.
        teacher: encodes the documents, and the queries of the symmetric row.
        document_vectors: the teacher's, float32 (documents, dimension), where at hand already.
        index: an index of exactly these documents that searches with ``bundle``, to spare
            building one (see :func:`temporary_index`).
        typos: share of letters mistyped in the queries, for every system alike.
        seed: of the typos and of the order of ties.
        more_encoders: further query encoders, ranked exactly in float against the same documents
            under their names (a fp32 student, say).
        show_progress_bar: while the teacher encodes the documents.

    Raises:
        SpaceMismatchError: the bundle was not distilled from this teacher; names both spaces.
    """
    if bundle is not None:
        check_space(bundle, teacher)
    if document_vectors is None:
        document_vectors = encode_documents(
            teacher, collection.documents, show_progress_bar=show_progress_bar
        )
    queries = mistyped(collection.queries, typos, seed)
    encoders: dict[str, QueryEncoder] = {"teacher": teacher.encode_query, **(more_encoders or {})}
    encoded = {name: encode(queries) for name, encode in encoders.items()}
    rankings = {
        name: _exact(collection, vectors, document_vectors, seed)
        for name, vectors in encoded.items()
    }
    with contextlib.ExitStack() as stack:
        if index is None:
            searching = temporary_index(collection, bundle or teacher, document_vectors)
            index = stack.enter_context(searching)
        asked = encoded["teacher"] if bundle is None else bundle.encode_query(queries)
        for name, mode in _INDEX_MODES.items():
            if name != "bundle" or bundle is not None:
                rankings[name] = _searched(index, collection, queries, asked, mode)
    return Evaluation(
        {name: score_rankings(collection.judgements, ranked) for name, ranked in rankings.items()}
    )


def check_space(bundle: Encoder, teacher: SentenceEncoder) -> None:
    """Raise SpaceMismatchError unless bundle and teacher live in one space."""
    if bundle.space_id != teacher.space_id:
        names = f"the bundle {bundle.name!r}", f"the teacher {teacher.name!r}"
        raise SpaceMismatchError.between(names[0], bundle.space_id, names[1], teacher.space_id)


def mistyped(queries: Sequence[Query], rate: float, seed: int) -> list[str]:
    """The texts of the queries, each mistyped by a generator of its own (seed and query id)."""
    return [mistype(query.text, rate, random.Random(f"{seed} {query.id}")) for query in queries]


@contextlib.contextmanager
def temporary_index(
    collection: Collection,
    encoder: Encoder | SentenceEncoder,
    document_vectors: NDArray[np.float32],
) -> Iterator[Index]:
    """An index of the collection, searched with ``encoder``, that is gone on leaving.

    The index breaks ties by its rows, so the documents go in shuffled (with a fixed seed).
    """
    order = np.random.default_rng(0).permutation(len(collection.documents))
    documents = [collection.documents[row] for row in order]
    dimension = document_vectors.shape[1]
    with tempfile.TemporaryDirectory(prefix="pocketquery-") as folder:
        path = Path(folder) / "index"
        with create_index(path, space_id=encoder.space_id, dimension=dimension) as builder:
            builder.add(documents, document_vectors[order])
        with open_index(path, encoder=encoder) as index:
            yield index


def _exact(
    collection: Collection,
    query_vectors: NDArray[np.float32],
    document_vectors: NDArray[np.float32],
    seed: int,
) -> dict[str, list[str]]:
    ids = [document.id for document in collection.documents]
    depth = DEPTH + _most_excluded(collection)
    rankings = rank_exactly(query_vectors, document_vectors, ids, depth, seed=seed)
    return _without_excluded(collection, rankings)


def _searched(
    index: Index,
    collection: Collection,
    texts: Sequence[str],
    vectors: NDArray[np.float32],
    mode: Mode,
) -> dict[str, list[str]]:
    depth = DEPTH + _most_excluded(collection)
    rankings = [
        [hit.id for hit in index.search(text, depth, mode=mode, vector=vector)]
        for text, vector in zip(texts, vectors, strict=True)
    ]
    return _without_excluded(collection, rankings)


def _without_excluded(
    collection: Collection, rankings: Sequence[Sequence[str]]
) -> dict[str, list[str]]:
    return {
        query.id: without_excluded(query.id, ranking, collection.excluded, DEPTH)
        for query, ranking in zip(collection.queries, rankings, strict=True)
    }


def _most_excluded(collection: Collection) -> int:
    """How many documents at most are taken out of one query's ranking."""
    counts: dict[str, int] = {}
    for query, _ in collection.excluded:
        counts[query] = counts.get(query, 0) + 1
    return max(counts.values(), default=0)


def evaluation_table(evaluation: Evaluation) -> str:
    """One line a system and one for the retention, if any; one column a metric."""
    rows: dict[str, dict[str, float]] = evaluation.means()
    lines = [" " * 10 + "".join(f"{metric:>12}" for metric in METRICS)]
    lines += [
        f"{name:<10}" + "".join(f"{means[metric]:>12.4f}" for metric in METRICS)
        for name, means in rows.items()
    ]
    retention = evaluation.retention()
    if not retention:
        return "\n".join(lines)
    cells = ["-" if retention[metric] is None else f"{retention[metric]:.1%}" for metric in METRICS]
    lines.append(f"{'retention':<10}" + "".join(f"{cell:>12}" for cell in cells))
    return "\n".join(lines)

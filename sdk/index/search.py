"""One search: the query is checked, words and meaning rank, both rankings are fused.

:func:`check_query` says what was asked, before the index is touched. :class:`Selection` says which
rows may be returned. :func:`rank` scores words by BM25 and meaning by cosine, and :func:`fuse`
makes one score of both, over the best hundred rows of each.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, Protocol, get_args, runtime_checkable

import numpy as np

from pocketquery.sdk.arrays import Floats, NDArray, Rows
from pocketquery.sdk.errors import CorruptArtifactError, InvalidInputError
from pocketquery.sdk.index.analysis import Analyzer
from pocketquery.sdk.index.bm25 import bm25
from pocketquery.sdk.index.documents import Document, check_document, content, documents_of_rows
from pocketquery.sdk.index.filters import Condition, matching_rows
from pocketquery.sdk.index.hits import Hit, Hits
from pocketquery.sdk.index.segments import Snapshot
from pocketquery.sdk.index.vectors import (
    Vectors,
    best,
    best_first,
    best_of_blocks,
    in_blocks,
    rescored,
    unit_rows,
)
from pocketquery.sdk.validation import check_count, check_text

__all__ = [
    "CheckedQuery",
    "Mode",
    "QueryEncoder",
    "Ranking",
    "Selection",
    "check_encoder",
    "check_query",
    "encode_documents",
    "hits_of",
    "fuse",
    "rank",
]

Mode = Literal["dense", "lexical", "hybrid"]
Mask = NDArray[np.bool_]
Ranking = tuple[NDArray[np.intp], Floats]
"""Rows, best first, and their scores."""
Ranked = Callable[[int, Mask | None], tuple[Rows, NDArray[np.floating[Any]]]]
"""The best so many rows of those that a mask allows (None: of all), rising, and their scores: fewer
only where there are no more."""

CANDIDATES = 100  # of each ranking; the scores either lacks are computed for the union
# Tuned on SciFact's training claims and SQuAD's questions, whose mean nDCG@10 is flat from .4 to .6
# (.816, .818, .816) and above dense alone (.712), BM25 alone (.784), reciprocal ranks (.793).
_DENSE_WEIGHT = 0.5
_FILTER_SAMPLE_ROWS = 4096  # rows
_SHARE = 0.15  # of the rows; asking about more by their numbers takes as long as about all


@runtime_checkable
class QueryEncoder(Protocol):
    """What a search needs of an encoder; :class:`pocketquery.sdk.Encoder` has it."""

    @property
    def space_id(self) -> str: ...

    def encode_query(self, sentences: str, /) -> Floats: ...


@runtime_checkable
class DocumentEncoder(Protocol):
    """What adding documents without vectors needs of an encoder."""

    def encode_document(self, sentences: Sequence[str], /) -> Floats: ...


def check_encoder(encoder: object) -> None:
    """Raise InvalidInputError where ``encoder`` encodes no queries."""
    if isinstance(encoder, QueryEncoder):
        return
    hint = f"sdk.load({encoder!r})" if isinstance(encoder, str) else "sdk.load(), called"
    raise InvalidInputError(
        f"encoder is a {type(encoder).__name__}, expected an encoder, as {hint} gives one"
    )


@dataclass(frozen=True)
class CheckedQuery:
    """A query with what its mode needs.

    Attributes:
        mode: which ranking is asked for.
        text: empty where only a vector was given.
        vector: float32 (dimension,) of length 1; empty for a lexical search.
        k: how many, at least 1.
    """

    mode: Mode
    text: str
    vector: Floats
    k: int


def check_query(
    query: object,
    k: object,
    mode: Mode | None,
    vector: object,
    dimension: int,
    encoder: QueryEncoder | None,
) -> CheckedQuery:
    """The arguments of ``Index.search`` as a query; a text is encoded where its mode needs it.

    Raises:
        InvalidInputError: as ``Index.search`` says.
    """
    text = query if isinstance(query, str) else ""
    if isinstance(query, str):
        if not check_text(query, "the query").strip():
            raise InvalidInputError("the query is blank; expected some text")
    elif vector is None:
        vector = query
    else:
        raise InvalidInputError("vector goes with a text query; the query is a vector already")
    mode = mode or ("hybrid" if text else "dense")
    if mode not in get_args(Mode):
        raise InvalidInputError(f"the mode is {mode!r}, expected one of {get_args(Mode)}")
    count = check_count(k, "k")
    if mode == "lexical" and text:
        return CheckedQuery(mode, text, np.zeros(0, np.float32), count)
    if mode != "dense" and not text:
        raise InvalidInputError(f"{mode} search needs the query's text, found a vector only")
    if text and vector is None:
        vector = _encode(text, encoder)
    return CheckedQuery(mode, text, _unit(vector, dimension), count)


def _unit(vector: object, dimension: int) -> Floats:
    try:
        array = np.asarray(vector)
    except ValueError:  # rows of several lengths
        array = np.zeros(0, object)
    if array.dtype.kind not in "fiu":
        raise InvalidInputError(
            f"the query is a {type(vector).__name__}, expected a text, or its vector: float32 "
            f"({dimension},)"
        )
    if array.shape != (dimension,):
        raise InvalidInputError(
            f"the query's vector has shape {array.shape}, expected ({dimension},), the index's "
            "dimension; pass one vector, by an encoder of the index's space"
        )
    unit: Floats = unit_rows(array[None], dimension, "the query's vector")[0]
    return unit


def _encode(text: str, encoder: QueryEncoder | None) -> Floats:
    if encoder is None:
        raise InvalidInputError(
            "a search by meaning for a text needs an encoder: sdk.open_index(path, "
            'encoder=sdk.load()). Without one, pass a vector or use mode="lexical"'
        )
    return encoder.encode_query(text)


def encode_documents(documents: Sequence[Document], encoder: object) -> Floats:
    """Vectors of documents by the encoder that an index has, float32 (n, dimension).

    Raises:
        InvalidInputError: it encodes none, or is None; or a document cannot be stored.
    """
    if not isinstance(encoder, DocumentEncoder):
        raise InvalidInputError(
            "documents came without vectors, and the index was opened without an encoder of "
            "documents; pass vectors, or encoder=sdk.load() to open_index or create_index"
        )
    for position, document in enumerate(documents):
        check_document(document, f"documents[{position}]")
    return encoder.encode_document([content(document) for document in documents])


class Selection:
    """The rows that one search may return: those alive that meet its filter, if it has one.

    A filter is SQL over JSON, a microsecond and more for each document, which in a large index
    takes far longer than the search. So the search ranks first, and the filter is asked about the
    best rows alone; only where too few of them meet it is it asked about all. What is found is the
    same.

    Args:
        connection: on one state.
        count: its rows.
        alive: bool (count,), False where a row is deleted; None where none is.
        condition: the filter; None for none.
    """

    def __init__(
        self,
        connection: sqlite3.Connection,
        count: int,
        alive: Mask | None,
        condition: Condition | None,
    ) -> None:
        self._connection = connection
        self._count = count
        self._allowed = alive
        self._condition = condition

    def best(self, most: int, ranked: Ranked) -> Rows:
        """The ``most`` best selected rows, rising; of equal scores the first ones."""
        tried = max(_FILTER_SAMPLE_ROWS, most)
        while self._condition is not None and tried <= self._count * _SHARE:
            rows, scores = ranked(tried, self._allowed)
            meet = matching_rows(self._connection, self._condition, self._count, rows)[rows]
            met = int(np.count_nonzero(meet))
            if len(rows) < tried or met >= most:
                return rows[meet][best(scores[meet], most)]
            tried = max(4 * tried, 2 * tried * most // max(met, 1))  # as many as it should take
        self._ask_about_all()
        return ranked(most, self._allowed)[0]

    def _ask_about_all(self) -> None:
        if self._condition is not None:
            matching = matching_rows(self._connection, self._condition, self._count)
            self._allowed = matching if self._allowed is None else matching & self._allowed
            self._condition = None


def rank(
    connection: sqlite3.Connection,
    snapshot: Snapshot,
    analyzer: Analyzer,
    query: CheckedQuery,
    selection: Selection,
) -> Ranking:
    """The rows that answer ``query``, best first, and their scores.

    Args:
        connection: on the state of ``snapshot``.
        snapshot: its vectors and lengths.
        analyzer: makes the query's terms.
        query: what is searched for.
        selection: which rows may be returned.
    """
    k = query.k if query.mode != "hybrid" else max(query.k, CANDIDATES)
    if query.mode == "dense":
        return _nearest(snapshot.vectors, query.vector, k, selection)
    lengths = snapshot.lengths(connection)
    lexical = bm25(connection, analyzer.terms(query.text), lengths)
    rows = selection.best(max(k, CANDIDATES), partial(_best_of, lexical))
    if query.mode == "lexical":
        return best_first(rows, lexical[rows], k)
    near, _ = _nearest(snapshot.vectors, query.vector, k, selection)
    rows = np.union1d(rows, near)
    return best_first(
        rows, fuse(snapshot.vectors.rescore(query.vector, rows), lexical[rows]), query.k
    )


def fuse(dense: Floats, lexical: Floats) -> Floats:
    """Fused scores, float32 (m,) in 0..1, of m candidates. ::

        fused(d) = w * unit(dense)(d) + (1 - w) * unit(lexical)(d)

    ``unit`` maps the candidates' scores onto 0..1 by the smallest and largest among them. A convex
    combination of normalised scores is better than reciprocal ranks (Bruch, Gai and Ingber 2023,
    "An Analysis of Fusion Functions for Hybrid Retrieval").

    Args:
        dense: float32 (m,), cosines.
        lexical: float32 (m,), BM25, 0 where no term is shared.
    """
    return _DENSE_WEIGHT * _min_max(dense) + (1 - _DENSE_WEIGHT) * _min_max(lexical)


def _min_max(scores: Floats) -> Floats:
    low, high = scores.min(initial=np.inf), scores.max(initial=-np.inf)
    if not high > low:
        return np.zeros(len(scores), np.float32)
    unit: Floats = (scores - low) / (high - low)
    return unit


def _nearest(vectors: Vectors, query: Floats, k: int, selection: Selection) -> Ranking:
    rows = selection.best(rescored(k), partial(vectors.near, query))
    return best_first(rows, vectors.rescore(query, rows), k)


def _best_of(
    scores: Floats, most: int, allowed: NDArray[np.bool_] | None
) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """The ``most`` best allowed rows, rising, and their scores, of those with a score at all."""
    if allowed is not None:
        scores = np.where(allowed, scores, np.float32(0))
    return best_of_blocks(in_blocks(scores), most, above=0)


def hits_of(connection: sqlite3.Connection, ranking: Ranking) -> Hits:
    """The documents of ranked rows, with their scores."""
    rows, scores = ranking
    documents = documents_of_rows(connection, rows.tolist())
    if len(documents) != len(rows):
        raise CorruptArtifactError(
            f"the index's database has {len(documents)} of {len(rows)} documents that were found; "
            "expected all. Copy the index anew or build it again"
        )
    ranked = [documents[row] for row in rows.tolist()]
    return Hits(
        Hit(one.id, score, one.text, one.metadata)
        for one, score in zip(ranked, scores.tolist(), strict=True)
    )

"""What may be searched for, checked before the index is touched, and which rows may be returned."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, get_args, runtime_checkable

import numpy as np

from pocketquery.sdk.arrays import Floats, NDArray, Rows
from pocketquery.sdk.errors import InvalidInputError
from pocketquery.sdk.index.documents import Document, check_document, content
from pocketquery.sdk.index.filters import Condition, matching_rows
from pocketquery.sdk.index.vectors import best, unit_rows
from pocketquery.sdk.validation import check_count, check_text

__all__ = ["CheckedQuery", "Mode", "QueryEncoder", "Selection", "check_query", "encode_documents"]

Mode = Literal["dense", "lexical", "hybrid"]
Mask = NDArray[np.bool_]
Ranked = Callable[[int, Mask | None], tuple[Rows, NDArray[np.floating[Any]]]]
"""The best so many rows of those that a mask allows (None: of all), rising, and their scores: fewer
only where there are no more."""

_TRIED = 4096  # rows
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
            "a search by meaning for a text needs an encoder: open_index(path, "
            'encoder=load(bundle)). Without one, pass a vector or use mode="lexical"'
        )
    return encoder.encode_query(text)


def encode_documents(documents: Sequence[Document], encoder: object) -> Floats:
    """Vectors of documents by the encoder that an index was opened with, float32 (n, dimension).

    Raises:
        InvalidInputError: it encodes none, or is None; or a document cannot be stored.
    """
    if not isinstance(encoder, DocumentEncoder):
        raise InvalidInputError(
            "documents came without vectors, and the index was opened without an encoder of "
            "documents; pass vectors, or open_index(..., encoder=sdk.load())"
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
        tried = max(_TRIED, most)
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

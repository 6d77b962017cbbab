"""What may be searched for: a text, a vector or both, checked before the index is touched."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, get_args, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from pocketquery.sdk.errors import InvalidInputError
from pocketquery.sdk.index.vectors import unit_rows
from pocketquery.sdk.texts import check_text
from pocketquery.sdk.validation import check_count

__all__ = ["CheckedQuery", "DocumentEncoder", "Mode", "QueryEncoder", "check_query"]

Mode = Literal["dense", "lexical", "hybrid"]
Floats = NDArray[np.float32]


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
    unit = unit_rows([vector], dimension, "the query's vector")[0]
    return CheckedQuery(mode, text, unit, count)


def _encode(text: str, encoder: QueryEncoder | None) -> Floats:
    if encoder is None:
        raise InvalidInputError(
            "a search by meaning for a text needs an encoder: open_index(path, "
            'encoder=load(bundle)). Without one, pass a vector or use mode="lexical"'
        )
    return encoder.encode_query(text)

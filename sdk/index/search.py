"""One search: the query is checked, words and meaning rank, both are fused.

:func:`check_query` says what was asked, before the index is touched. :class:`Selection` says which
rows may be returned. :func:`rank` scores words by BM25 and meaning by cosine, and :class:`Fusion`
makes one score of both. A row's score depends on the query and the index alone: not on the filter,
not on other rows that are found, not on how many are asked for.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from pocketquery.sdk.arrays import Doubles, Floats, NDArray, Rows
from pocketquery.sdk.errors import InvalidInputError
from pocketquery.sdk.index.bm25 import Lexical, bm25, has_term, widest_share
from pocketquery.sdk.index.database import damaged
from pocketquery.sdk.index.documents import documents_of_rows
from pocketquery.sdk.index.encoders import QueryEncoder, Reader
from pocketquery.sdk.index.segments import Snapshot
from pocketquery.sdk.index.selection import Blocks, Mask, Selection
from pocketquery.sdk.index.vector_file import Languages, apart_of
from pocketquery.sdk.index.vectors import QueryVector, best_first, in_blocks, unit_rows
from pocketquery.sdk.results.hits import Hit, Hits
from pocketquery.sdk.validation import check, check_count, check_text, number, optional, whole
from pocketquery.sdk.words import Query, expand
from pocketquery.sdk.words.query import is_blank, parse
from pocketquery.sdk.words.vocabulary import COMPOUNDING, Expansion

__all__ = [
    "CheckedQuery",
    "Fusion",
    "Mode",
    "Ranking",
    "check_query",
    "expanded",
    "hits_of",
    "rank",
]

Mode = Literal["dense", "lexical", "hybrid"]

# Of 36 pairs the best by a rule set before, on 16 sets that are not reported: hybrid nowhere more
# than .01 below the better of words and meaning, .03 for identifiers alone (research/LOG.md).
_DENSE_WEIGHT = 0.25
_LEANING = 2.0
_ALL = slice(None)
# A query's common words say nothing where the index lacks half of the query and few rows have them:
# it is in another language than the texts (research/LOG.md).
_LEAST_PRESENT = 0.5
_MOST_SHARE = 0.15
_LEAST_ROOM = 0.05  # between the mean cosine and 1: of documents that are nearly all alike


@dataclass(frozen=True)
class CheckedQuery:
    """A query with what its mode needs.

    Attributes:
        mode: which ranking is asked for.
        text: empty where only a vector was given.
        vector: float32 (dimension,) of length 1; empty for a lexical search, and for a hybrid one
            whose text the encoder does not read.
        k: how many, at least 1.
        offset: how many of the best are passed over.
        min_score: the least score of a hit; None for any.
    """

    mode: Mode
    text: str
    vector: Floats
    k: int
    offset: int = 0
    min_score: float | None = None


def check_query(
    query: object,
    k: object,
    mode: Mode | None,
    vector: object,
    dimension: int,
    encoder: QueryEncoder,
    offset: object = 0,
    min_score: object = None,
    prefix: bool = False,
) -> CheckedQuery | None:
    """The arguments of ``Index.search`` as a query; a text is encoded where its mode needs it.
    None for what is being typed (``prefix``) and asks for nothing yet.

    Raises:
        InvalidInputError: as ``Index.search`` says.
    """
    text = query if isinstance(query, str) else ""
    is_typed = prefix and isinstance(query, str) and vector is None
    if isinstance(query, str):
        if is_blank(check_text(query, "the query")) and not is_typed:
            raise InvalidInputError("the query is blank or signs alone; expected a word")
    elif vector is None:
        vector = query
    else:
        raise InvalidInputError("vector goes with a text query; the query is a vector already")
    mode = mode or ("hybrid" if text else "dense")
    if mode not in get_args(Mode):
        raise InvalidInputError(
            f"the mode is {mode!r}, expected one of {', '.join(get_args(Mode))}"
        )
    count = check_count(k, "k")
    check("offset", offset, whole(0))
    check("min_score", min_score, optional(number()))
    limits: Any = count, offset, min_score
    if is_typed and (is_blank(text) or not parse(text).plain):
        return None
    if mode == "lexical" and text:
        return CheckedQuery(mode, text, np.zeros(0, np.float32), *limits)
    if mode != "dense" and not text:
        raise InvalidInputError(f"{mode} search needs the query's text, found a vector only")
    if text and vector is None:
        plain = parse(text).plain
        if not plain:
            raise InvalidInputError(
                f"the query {text[:80]!r} only says what must not be there; expected a word to "
                "look for"
            )
        if mode == "hybrid" and isinstance(encoder, Reader) and not encoder.reads(plain):
            return CheckedQuery(mode, text, np.zeros(0, np.float32), *limits)
        vector = encoder.encode_query(plain)
    return CheckedQuery(mode, text, _unit(vector, dimension), *limits)


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


class Ranking(NamedTuple):
    """Rows, best first."""

    rows: Rows
    scores: Doubles
    cosines: Doubles | None
    """None for a search by words alone."""
    bm25: Floats | None
    """None for a search by meaning alone."""

    def cut(self, query: CheckedQuery) -> Ranking:
        """Without those before the offset, and those below the least score."""
        stop = len(self.rows)
        if query.min_score is not None:
            stop = int(np.count_nonzero(self.scores >= query.min_score))
        page = slice(query.offset, stop)
        return Ranking(
            self.rows[page],
            self.scores[page],
            None if self.cosines is None else self.cosines[page],
            None if self.bm25 is None else self.bm25[page],
        )


class Fusion:
    """One score of words and meaning, for one query. ::

        fused(d) = a (cos(d) - m) / (1 - m) + bm25(d) / U - s    a = .25 (1 + 2 (1 - p / U))

    m is the mean cosine of all documents with the query, so the first part says how far a document
    stands out; in every encoder's space alike, whether its cosines lie between 0 and .6 or between
    .75 and .95. U is the most that BM25 can be for the query, so the second says how much of what
    was asked is there in words. Both mean something by themselves, and neither needs another
    document. p is the part of U whose terms some document has: where words say little, meaning says
    more. A hit's score is 1 at most: a document that is the query reaches more. In an index of
    several languages, p is of the terms that some document in d's language has, and s is what d
    has of both for its language alone, or what answers in another would stand behind all in the
    query's.

    Args:
        mean: m.
        lexical: gives U and p.
        languages: those that ``lexical`` was made with.
    """

    def __init__(self, mean: float, lexical: Lexical, languages: Languages | None = None) -> None:
        self._mean, self._languages = mean, languages
        self._most = lexical.most or 1.0
        absent = 1 - lexical.present / self._most
        # a, over 1 - m.
        self._meaning: Any = _DENSE_WEIGHT * (1 + _LEANING * absent) / max(1 - mean, _LEAST_ROOM)
        if languages is not None:
            sums = np.bincount(languages.of_rows, lexical.scores, len(languages.apart))
            words = apart_of(sums[:-1, None].astype(np.float64), languages.counts)[:, 0]
            self._shares = languages.apart * self._meaning + words / self._most

    def scores(
        self, cosines: Doubles, bm25: Floats, missing: Rows, rows: Rows | slice = _ALL
    ) -> Doubles:
        """Fused scores of m rows, float64 (m,).

        Args:
            cosines: float64 (m,).
            bm25: float32 (m,).
            missing: the positions of rows without a vector. Their words count alone; -inf where
                they share none.
            rows: which they are.
        """
        fused = cosines - self._mean
        if self._languages is None:
            fused *= self._meaning
        else:
            languages = self._languages.of_rows[rows]
            fused *= self._meaning[languages]
            fused -= self._shares[languages]
        fused[missing] = 0
        fused += bm25.astype(np.float64) / self._most
        if len(missing):
            fused[missing[bm25[missing] <= 0]] = -np.inf
        return fused

    def slack(self, cosines: float) -> float:
        """That of fused scores, of cosines that have this one."""
        return cosines * float(np.max(self._meaning))


def rank(
    connection: sqlite3.Connection,
    snapshot: Snapshot,
    query: CheckedQuery,
    selection: Selection,
) -> Ranking:
    """The rows that answer ``query``, best first.

    Args:
        connection: on the state of ``snapshot``.
        snapshot: its vectors and lengths.
        query: what is searched for.
        selection: which rows may be returned; has the terms of the query's text.
    """
    k, vectors, asked = query.k + query.offset, snapshot.vectors, selection.query
    if query.mode == "dense" or asked is None:
        return _by_meaning(connection, snapshot, query, selection)
    if not len(query.vector):
        lexical = _lexical(connection, snapshot, asked)
        rows = selection.best(k, lambda allowed: _words(lexical.scores, allowed), above=0)
        rows, words = best_first(rows, lexical.scores[rows], k)
        scores = words.astype(np.float64)
        if query.mode == "hybrid":
            scores = np.minimum(scores / (lexical.most or 1.0), 1.0)
        return Ranking(rows, scores, None, words).cut(query)
    meant = QueryVector(query.vector)
    languages = snapshot.languages(connection, meant)
    lexical = _lexical(connection, snapshot, asked, languages)
    if np.ravel(lexical.present)[-1] < _LEAST_PRESENT * lexical.most:
        common = snapshot.analyzer.common_terms(asked)
        if common and widest_share(connection, common, len(vectors), languages) <= _MOST_SHARE:
            said = _lexical(connection, snapshot, asked.without(common), languages)
            lexical = said._replace(most=lexical.most)
    fusion = Fusion(float(meant.cosine(snapshot.mean)), lexical, languages)

    def scored(allowed: Mask | None) -> Iterator[tuple[int, Doubles]]:
        for first, cosines, missing in vectors.scores(meant):
            block = slice(first, first + len(cosines))
            fused = fusion.scores(cosines, lexical.scores[block], missing, block)
            if allowed is not None:
                fused[~allowed[block]] = -np.inf
            yield first, fused

    rows = selection.best(k, scored, slack=fusion.slack(meant.slack))
    cosines = vectors.cosines(meant, rows)
    missing = np.flatnonzero(~vectors.placed(rows))
    fused = fusion.scores(cosines, lexical.scores[rows], missing, rows)
    cosines[missing] = np.nan
    order = np.lexsort((rows, -fused))[:k]
    fused = np.minimum(fused[order], 1.0)
    return Ranking(rows[order], fused, cosines[order], lexical.scores[rows[order]]).cut(query)


def _lexical(
    connection: sqlite3.Connection,
    snapshot: Snapshot,
    asked: Query,
    languages: Languages | None = None,
) -> Lexical:
    weights, instead = expanded(connection, snapshot, asked)
    return bm25(connection, weights, snapshot.lengths(connection), asked, instead, languages)


def _by_meaning(
    connection: sqlite3.Connection, snapshot: Snapshot, query: CheckedQuery, selection: Selection
) -> Ranking:
    k, vectors, meant = query.k + query.offset, snapshot.vectors, QueryVector(query.vector)
    languages = snapshot.languages(connection, meant)

    def near(allowed: Mask | None) -> Iterator[tuple[int, Doubles]]:
        for first, scores in vectors.near(meant, allowed):
            if languages is not None:
                scores -= languages.apart_at(slice(first, first + len(scores)))
            yield first, scores

    rows = selection.best(k, near, slack=meant.slack)
    cosines = vectors.cosines(meant, rows)
    scores = cosines if languages is None else cosines - languages.apart_at(rows)
    order = np.lexsort((rows, -scores))[:k]
    return Ranking(rows[order], scores[order], cosines[order], None).cut(query)


def expanded(connection: sqlite3.Connection, snapshot: Snapshot, asked: Query) -> Expansion:
    """A query's terms, and those of the index that stand for them."""
    if not (
        asked.prefix
        or snapshot.analyzer.language in COMPOUNDING
        or not all(has_term(connection, word) for word in asked.words)
    ):
        return Expansion(asked.terms, {})  # without reading the whole vocabulary
    return expand(asked, snapshot.vocabulary(connection), snapshot.analyzer)


def _words(scores: Floats, allowed: Mask | None) -> Blocks:
    return in_blocks(scores if allowed is None else np.where(allowed, scores, np.float32(0)))


def hits_of(connection: sqlite3.Connection, ranking: Ranking) -> Hits:
    """The documents of ranked rows, with their scores."""
    rows = ranking.rows.tolist()
    documents = documents_of_rows(connection, rows)
    if len(documents) != len(rows):
        raise damaged(f"{len(documents)} of {len(rows)} documents that were found", "all")
    return Hits(
        Hit(documents[row].id, score, documents[row].text, documents[row].metadata, cosine, words)
        for row, score, cosine, words in zip(
            rows,
            ranking.scores.tolist(),
            _values(ranking.cosines, len(rows)),
            _values(ranking.bm25, len(rows)),
            strict=True,
        )
    )


def _values(scores: NDArray[np.floating[Any]] | None, count: int) -> list[float | None]:
    if scores is None:
        return [None] * count
    return [None if one != one else one for one in scores.tolist()]  # NaN: without a vector

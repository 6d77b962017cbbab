"""The rows that one search may return: alive, of its filter, and with what its query demands."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from pocketquery.sdk.arrays import NDArray, Rows
from pocketquery.sdk.index.bm25 import postings_of
from pocketquery.sdk.index.documents import content, documents_of_rows
from pocketquery.sdk.index.segments import Snapshot
from pocketquery.sdk.index.vectors import best, best_of_blocks
from pocketquery.sdk.results.filters import Condition, matching_rows
from pocketquery.sdk.words import Analyzer, Query

__all__ = ["Blocks", "Mask", "Scored", "Selection", "demanded", "without_absent"]

Mask = NDArray[np.bool_]
Blocks = Iterable[tuple[int, NDArray[np.floating[Any]]]]
Scored = Callable[[Mask | None], Blocks]
"""Every row's score in blocks, as ``best_of_blocks`` takes them; -inf, or no more than the least
that counts, where a mask does not allow a row."""

_FILTER_SAMPLE_ROWS = 4096  # rows
_PHRASE_SAMPLE_ROWS = 256  # rows whose texts are read
_PHRASE_BATCH_ROWS = 16  # until a phrase is found for the first time
_SHARE = 0.15  # of the rows; asking about more by their numbers takes as long as about all


class Selection:
    """The rows that one search may return.

    A filter is SQL over JSON, a microsecond and more for each document, and a phrase is looked for
    in the text itself; in a large index either takes far longer than the search. So the search
    ranks first, and the best rows alone are asked about; only where too few of them are right, all.
    What is found is the same.

    Args:
        connection: on one state.
        count: its rows.
        allowed: bool (count,), the rows that may be asked about; None for all.
        condition: the filter; None for none.
        query: whose phrases a text must have, or must not; None for none.
        analyzer: of the index.
    """

    def __init__(
        self,
        connection: sqlite3.Connection,
        count: int,
        allowed: Mask | None,
        condition: Condition | None,
        query: Query | None,
        analyzer: Analyzer,
    ) -> None:
        self._connection = connection
        self._count = count
        self._allowed = allowed
        self._condition = condition
        self._query = query if query and (query.phrases or query.excluded_phrases) else None
        self._analyzer = analyzer

    @classmethod
    def of(
        cls,
        connection: sqlite3.Connection,
        snapshot: Snapshot,
        condition: Condition | None,
        query: Query | None,
    ) -> Selection:
        """Of a state that ``connection`` sees, by a filter and a query's text, where there are."""
        count, allowed = len(snapshot.vectors), snapshot.alive(connection)
        if query and (demands := demanded(connection, count, query)) is not None:
            allowed = demands if allowed is None else allowed & demands
        return cls(connection, count, allowed, condition, query, snapshot.analyzer)

    def best(self, most: int, scored: Scored, above: float = -np.inf, slack: float = 0.0) -> Rows:
        """The ``most`` best selected rows, rising; of equal scores the first ones.

        Args:
            most: how many.
            scored: gives the scores.
            above: only rows with a higher score.
            slack: the scores are true to half of it; all rows that may be among the best are given.
        """
        tried = max(_PHRASE_SAMPLE_ROWS if self._query else _FILTER_SAMPLE_ROWS, most)
        share = 1.0 if self._query else _SHARE
        while (self._condition or self._query) and tried <= self._count * share:
            rows, scores = best_of_blocks(scored(self._allowed), tried, above, slack)
            meet = self._meet(rows)
            # Of the rows below the ones that were tried, only those within the slack are there.
            met = int(np.count_nonzero(meet[best(scores, tried)]))
            if len(rows) < tried or met >= most:
                return rows[meet][best(scores[meet], most, slack)]
            tried = max(4 * tried, 2 * tried * most // max(met, 1))  # as many as it should take
        self._ask_about_all()
        return best_of_blocks(scored(self._allowed), most, above, slack)[0]

    def _ask_about_all(self) -> None:
        if self._condition is not None:
            matching = matching_rows(self._connection, self._condition, self._count)
            self._allowed = matching if self._allowed is None else matching & self._allowed
            self._condition = None
        if self._query is not None:
            rows = np.arange(self._count)
            rows = rows if self._allowed is None else rows[self._allowed]
            allowed = np.zeros(self._count, bool)
            allowed[rows[self._meet(rows)]] = True
            self._allowed, self._query = allowed, None

    def _meet(self, rows: Rows) -> Mask:
        meet = np.ones(len(rows), bool)
        if self._condition is not None:
            meet = matching_rows(self._connection, self._condition, self._count, rows)[rows]
        if self._query is not None:
            some = rows[meet].tolist()
            documents = documents_of_rows(self._connection, some)
            meet[meet] = [
                row in documents
                and self._query.matches(self._analyzer.sequence(content(documents[row])))
                for row in some
            ]
        return meet


def demanded(connection: sqlite3.Connection, count: int, query: Query) -> Mask | None:
    """The rows that may have what a query demands, bool (count,), by their terms; None for all.

    Whether the words of a phrase follow one another stands in the texts alone.

    Raises:
        CorruptArtifactError: postings that cannot be of these documents.
    """
    allowed: Mask | None = None
    required = query.required.union(*query.phrases)
    for terms, wanted in ((required, True), *((terms, False) for terms in query.excluded)):
        if terms:
            having = np.ones(count, bool)
            for term in terms:
                one = np.zeros(count, bool)
                one[postings_of(connection, term, count)[0]] = True
                having &= one
            having = having if wanted else ~having
            allowed = having if allowed is None else allowed & having
    return allowed


def without_absent(connection: sqlite3.Connection, snapshot: Snapshot, query: Query) -> Query:
    """``query`` without the phrases that no document has, which demand nothing: a question in
    another language quotes, too. Those behind a + stay. No filter changes which these are.

    Raises:
        CorruptArtifactError: postings that cannot be of these documents.
    """
    phrases = tuple(
        phrase
        for phrase in query.phrases
        if phrase in query.required_phrases or _is_there(connection, snapshot, phrase)
    )
    return query if len(phrases) == len(query.phrases) else replace(query, phrases=phrases)


def _is_there(connection: sqlite3.Connection, snapshot: Snapshot, phrase: tuple[str, ...]) -> bool:
    one = Query("", {}, phrases=(phrase,))
    having = demanded(connection, len(snapshot.vectors), one)
    rows = [] if having is None else np.flatnonzero(having).tolist()
    for start in range(0, len(rows), _PHRASE_BATCH_ROWS):
        documents = documents_of_rows(connection, rows[start : start + _PHRASE_BATCH_ROWS])
        texts = map(content, documents.values())
        if any(one.matches(snapshot.analyzer.sequence(text)) for text in texts):
            return True
    return False

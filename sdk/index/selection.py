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
from pocketquery.sdk.words import Query

__all__ = ["Blocks", "Mask", "Scored", "Selection"]

Mask = NDArray[np.bool_]
Blocks = Iterable[tuple[int, NDArray[np.floating[Any]]]]
Scored = Callable[[Mask | None], Blocks]
"""Every row's score in blocks, as ``best_of_blocks`` takes them; -inf, or no more than the least
that counts, where a mask does not allow a row."""

_FILTER_SAMPLE_ROWS = 4096  # rows
_PHRASE_SAMPLE_ROWS = 256  # rows whose texts are read
_PHRASE_BATCH_ROWS = 16  # until a phrase is found for the first time
_NOTHING = Query("", {})
_SHARE = 0.15  # of the rows; asking about more by their numbers takes as long as about all


class Selection:
    """The rows that one search may return.

    A filter is SQL over JSON, a microsecond and more for each document, and a phrase is looked for
    in the text itself; in a large index either takes far longer than the search. So the search
    ranks first, and the best rows alone are asked about; only where too few of them are right, all.
    What is found is the same. Postings and texts are read once.

    Args:
        connection: on the state of ``snapshot``.
        snapshot: has the rows.
        condition: the filter; None for none.
        query: of the text that is searched for; None where there is none.

    Attributes:
        query: without the phrases that no document has, which demand nothing: a question in another
            language quotes, too. Those behind a + stay. No filter changes which these are.
        absent_phrases: how many these are.

    Raises:
        CorruptArtifactError: postings that cannot be of these documents.
    """

    def __init__(
        self,
        connection: sqlite3.Connection,
        snapshot: Snapshot,
        condition: Condition | None,
        query: Query | None,
    ) -> None:
        self._connection = connection
        self._analyzer = snapshot.analyzer
        self._count = len(snapshot.vectors)
        self._allowed = snapshot.alive(connection)
        self._condition = condition
        self._masks: dict[str, Mask] = {}  # by term, the rows that have it
        self._phrases: dict[int, frozenset[tuple[str, ...]]] = {}  # by row, of the query's
        self._asked = asked = query or _NOTHING
        self._wanted = {
            phrase
            for phrase in asked.phrases
            if phrase in asked.required_phrases or self._is_there(phrase)
        }
        self.query, self.absent_phrases = query, 0
        if not self._wanted.issuperset(asked.phrases):
            there = tuple(phrase for phrase in asked.phrases if phrase in self._wanted)
            self.query = replace(asked, phrases=there)
            self.absent_phrases = len(asked.phrases) - len(there)
        self._reads_texts = bool(self._wanted or asked.excluded_phrases)
        if required := asked.required.union(*self._wanted):
            self._restrict(self._having(required))
        for terms in asked.excluded:
            self._restrict(~self._having(terms))

    def best(self, most: int, scored: Scored, above: float = -np.inf, slack: float = 0.0) -> Rows:
        """The ``most`` best selected rows, rising; of equal scores the first ones.

        Args:
            most: how many.
            scored: gives the scores.
            above: only rows with a higher score.
            slack: the scores are true to half of it; all rows that may be among the best are given.
        """
        tried = max(_PHRASE_SAMPLE_ROWS if self._reads_texts else _FILTER_SAMPLE_ROWS, most)
        share = 1.0 if self._reads_texts else _SHARE
        while (self._condition or self._reads_texts) and tried <= self._count * share:
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
            self._restrict(matching_rows(self._connection, self._condition, self._count))
            self._condition = None
        if self._reads_texts:
            rows = np.arange(self._count)
            rows = rows if self._allowed is None else rows[self._allowed]
            allowed = np.zeros(self._count, bool)
            allowed[rows[self._meet(rows)]] = True
            self._allowed, self._reads_texts = allowed, False

    def _restrict(self, allowed: Mask) -> None:
        self._allowed = allowed if self._allowed is None else allowed & self._allowed

    def _meet(self, rows: Rows) -> Mask:
        meet = np.ones(len(rows), bool)
        if self._condition is not None:
            meet = matching_rows(self._connection, self._condition, self._count, rows)[rows]
        if self._reads_texts:
            unwanted = self._asked.excluded_phrases
            found = self._phrases_in(rows[meet].tolist())
            meet[meet] = [self._wanted <= one and one.isdisjoint(unwanted) for one in found]
        return meet

    def _having(self, terms: Iterable[str]) -> Mask:
        """The rows that have all of ``terms``, bool (count,). Whether the words of a phrase follow
        one another stands in the texts alone."""
        having = np.ones(self._count, bool)
        for term in terms:
            if term not in self._masks:
                self._masks[term] = np.zeros(self._count, bool)
                self._masks[term][postings_of(self._connection, term, self._count)[0]] = True
            having &= self._masks[term]
        return having

    def _is_there(self, phrase: tuple[str, ...]) -> bool:
        rows = np.flatnonzero(self._having(phrase)).tolist()
        batches = range(0, len(rows), _PHRASE_BATCH_ROWS)
        return any(
            phrase in found
            for start in batches
            for found in self._phrases_in(rows[start : start + _PHRASE_BATCH_ROWS])
        )

    def _phrases_in(self, rows: list[int]) -> list[frozenset[tuple[str, ...]]]:
        """Those of the query's phrases that the text of each of ``rows`` has."""
        unread = [row for row in rows if row not in self._phrases]
        for row, document in documents_of_rows(self._connection, unread).items():
            words = self._analyzer.sequence(content(document))
            self._phrases[row] = self._asked.phrases_in(words)
        return [self._phrases.get(row, frozenset()) for row in rows]

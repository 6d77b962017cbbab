"""BM25 over our own postings, in the index's SQLite file.

FTS5 could rank by itself, with the same formula and constants, but it reads every posting one at a
time: 9 ms a query on 5,000 abstracts, and no score for a document it did not rank. Here a term's
postings in one segment (the documents of one add) are two packed arrays in one row, scored by
numpy: 0.2 ms for the same, a score for every document, the same ranking.

    score(q, d) = sum over terms t of q:  n(t, q) * idf(t) * tf * (k1 + 1) / (tf + norm(d))
    idf(t) = log(1 + (N - df + .5) / (df + .5)),   norm(d) = k1 * (1 - b + b * |d| / mean)

(Robertson and Zaragoza 2009, "The Probabilistic Relevance Framework", with Lucene's idf, which is
never negative.) N, df and the mean length count deleted documents until the index is compacted.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, groupby
from operator import itemgetter
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from pocketquery.sdk.arrays import Doubles, NDArray, Rows
from pocketquery.sdk.errors import CorruptArtifactError
from pocketquery.sdk.index.database import damaged
from pocketquery.sdk.index.untrusted_file import Schema
from pocketquery.sdk.index.vector_file import Languages, own_part
from pocketquery.sdk.words import Query, Vocabulary

__all__ = [
    "POSTINGS_TABLE",
    "Lexical",
    "bm25",
    "check_postings",
    "create_postings",
    "has_term",
    "insert_postings",
    "postings_by_term",
    "postings_of",
    "renumber_postings",
    "vocabulary_of",
    "widest_share",
    "without_place",
]

# Without rowid the records of a term lie side by side, and no index repeats the terms: a long query
# reads them in a third of the time.
POSTINGS_TABLE: Schema = {
    "postings": "CREATE TABLE postings (term TEXT NOT NULL, first_row INTEGER NOT NULL,"
    " rows BLOB NOT NULL, counts BLOB NOT NULL, PRIMARY KEY (term, first_row)) WITHOUT ROWID"
}

_K1 = 1.2
_B = 0.75
_ROW = np.dtype("<u4")
_COUNT = np.dtype("<u2")
_LARGEST_COUNT = np.iinfo(np.uint16).max
_LEAST_BYTES = 2  # of a document's terms together, in UTF-8


def create_postings(connection: sqlite3.Connection) -> None:
    """The table of the postings, empty; rows are relative to their segment's first."""
    connection.execute(POSTINGS_TABLE["postings"])


def insert_postings(
    connection: sqlite3.Connection, first_row: int, occurrences: Counter[tuple[str, int]]
) -> None:
    """Store the postings of one segment.

    Args:
        connection: in a transaction.
        first_row: the segment's first row.
        occurrences: by (term, row relative to ``first_row``), as ``Analyzer.occurrences`` gives.
    """
    order = sorted(occurrences)  # by term, then by row
    rows = np.fromiter((row for _, row in order), _ROW, len(order)).tobytes()
    counts = np.fromiter(
        (min(occurrences[key], _LARGEST_COUNT) for key in order), _COUNT, len(order)
    )
    packed, start = counts.tobytes(), 0
    records = []
    for term, entries in groupby(order, itemgetter(0)):
        stop = start + sum(1 for _ in entries)
        bounds = slice(start * _ROW.itemsize, stop * _ROW.itemsize)
        count_bounds = slice(start * _COUNT.itemsize, stop * _COUNT.itemsize)
        records.append((term, first_row, rows[bounds], packed[count_bounds]))
        start = stop
    connection.executemany("INSERT INTO postings VALUES (?, ?, ?, ?)", records)


def without_place(
    occurrences: Counter[tuple[str, int]], lengths: NDArray[np.uint32]
) -> NDArray[np.bool_]:
    """Which documents say too little to have a place by meaning, bool (documents,).

    Those whose terms have fewer than two bytes of UTF-8 together: no text at all, punctuation, a
    single letter or digit. An encoder gives all of them about one vector, which is nearer to most
    short queries than the documents that answer them.

    Args:
        occurrences: by (term, row), as ``Analyzer.occurrences`` gives.
        lengths: of the documents, likewise.
    """
    missing = lengths < _LEAST_BYTES  # a term has at least one byte
    if missing.any():
        for term, row in occurrences:
            if missing[row] and len(term.encode()) >= _LEAST_BYTES:
                missing[row] = False
    return missing


class Lexical(NamedTuple):
    """BM25 for one query.

    Attributes:
        scores: float32 (n,), 0 where a row has none of the terms.
        most: what no document can reach, the sum over the terms of weight * idf * (k1 + 1); a term
            that no document has counts with the idf of none.
        present: that sum over the terms that a document has. In an index of several languages
            float64 (l + 1,), over those that a document of each language has, as far as its rows
            are enough to say so; the last is for rows without a language.
    """

    scores: NDArray[np.float32]
    most: float
    present: float | Doubles


def bm25(
    connection: sqlite3.Connection,
    terms: Mapping[str, float],
    lengths: NDArray[np.float32],
    asked: Query | None = None,
    instead: Mapping[str, str] = MappingProxyType({}),
    languages: Languages | None = None,
) -> Lexical:
    """BM25 of every row for a query.

    Args:
        connection: on the snapshot that ``lengths`` belongs to.
        terms: the weight of each term of the query: how often it is there.
        lengths: float32 (n,), terms in each document.
        asked: the query. ``most`` and ``present`` are of its terms, and not of what stands for one
            of them, nor of compounds that no document has. A word of its phrases counts once in a
            document, which has them all. None: of all terms.
        instead: of each compound of a word that no document has, that word's term. ``most`` and
            ``present`` have the largest of such a word's compounds in its place.
        languages: of the index; None for ``present`` of all rows.

    Raises:
        CorruptArtifactError: postings that cannot be of these documents.
    """
    scores = np.zeros(len(lengths), np.float32)
    if not len(lengths):
        return Lexical(scores, 0.0, 0.0)
    mean = max(float(lengths.mean()), 1.0)
    norms = _K1 * (1 - _B + _B / mean * lengths)
    once = set() if asked is None else set(chain.from_iterable(asked.phrases))
    asked_for: list[list[_Part]] = []
    replaced: dict[str, list[_Part]] = {word: [] for word in instead.values()}
    for term, weight in terms.items():
        rows, counts = postings_of(connection, term, len(lengths))
        idf = np.log1p((len(lengths) - len(rows) + 0.5) / (len(rows) + 0.5))
        # In float32 it is the same wherever a logarithm is off in its last bit.
        highest = np.float32(weight * idf * (_K1 + 1))
        if term in once:
            counts = np.minimum(counts, np.float32(1))
        scores[rows] += highest * counts / (counts + norms[rows])
        if word := instead.get(term):
            replaced[word].append((float(highest), rows))
        elif asked is None or (
            term in asked.terms and term not in replaced and (len(rows) or term not in asked.beside)
        ):
            asked_for.append([(float(highest), rows)])
    groups = [*asked_for, *replaced.values()]
    most = present = 0.0
    for group in groups:
        most += max((value for value, _ in group), default=0.0)
        present += max((value for value, rows in group if len(rows)), default=0.0)
    if languages is None:
        return Lexical(scores, most, present)
    return Lexical(scores, most, _present_by_language(groups, present, languages))


_Part = tuple[float, Rows]  # the most that a term adds, and the rows that have it


def _present_by_language(
    groups: Iterable[Iterable[_Part]], present: float, languages: Languages
) -> Doubles:
    own = np.zeros(len(languages.apart))
    for group in groups:
        highest = np.zeros(len(own))
        for value, rows in group:
            having = np.zeros(len(own))
            having[languages.of_rows[rows]] = value
            highest = np.maximum(highest, having)
        own += highest
    enough = np.append(own_part(languages.counts), 0.0)  # few rows may lack words by chance
    return present + enough * (own - present)


def renumber_postings(connection: sqlite3.Connection, new_rows: NDArray[np.int64]) -> None:
    """Merge all segments into one; row r becomes ``new_rows[r]``, or goes where that is < 0."""
    connection.execute("ALTER TABLE postings RENAME TO old_postings")
    create_postings(connection)
    connection.executemany(
        "INSERT INTO postings VALUES (?, 0, ?, ?)", _merged(connection, new_rows)
    )
    connection.execute("DROP TABLE old_postings")


def _merged(
    connection: sqlite3.Connection, new_rows: NDArray[np.int64]
) -> Iterator[tuple[str, bytes, bytes]]:
    for term, rows, counts in postings_by_term(connection, len(new_rows), "old_postings"):
        rows = new_rows[rows]
        retained = rows >= 0
        if retained.any():
            yield (
                term,
                rows[retained].astype(_ROW).tobytes(),
                counts[retained].astype(_COUNT).tobytes(),
            )


def postings_by_term(
    connection: sqlite3.Connection, count: int, table: str = "postings"
) -> Iterator[tuple[str, NDArray[np.int64], NDArray[np.float32]]]:
    """Every term in the order of its bytes, the rows that have it and how often each does, all
    segments in one.

    Args:
        connection: on one state.
        count: of the index's rows.
        table: where the postings are.

    Raises:
        CorruptArtifactError: postings that cannot be of these documents.
    """
    cursor = connection.execute(f"SELECT * FROM {table} ORDER BY term, first_row")
    for term, records in groupby(cursor, itemgetter(0)):
        rows, counts = _unpack([record[1:] for record in records], count)
        if not isinstance(term, str):
            raise _damaged()
        yield term, rows, counts


_Record = tuple[int, bytes, bytes]  # a segment's first row, packed rows, packed counts


def check_postings(
    connection: sqlite3.Connection, lengths: NDArray[np.float32], first_rows: Iterable[int]
) -> None:
    """Read every posting and hold their sums against the documents' lengths, which do not count
    compounds and what else stands beside a text's words.

    Args:
        connection: on the snapshot that ``lengths`` belongs to.
        lengths: float32 (n,), terms in each document.
        first_rows: the first row of each segment.

    Raises:
        CorruptArtifactError: a record that cannot be one of ours, or a document with fewer terms
            than recorded.
    """
    totals = np.zeros(len(lengths), np.float64)
    clipped = np.zeros(len(lengths), bool)
    segments = set(first_rows)
    cursor = connection.execute("SELECT * FROM postings ORDER BY term, first_row")
    for term, records in groupby(cursor, itemgetter(0)):
        some = [record[1:] for record in records]
        rows, counts = _unpack(some, len(lengths))
        strange = any(first_row not in segments for first_row, _, _ in some)
        if strange or not isinstance(term, str) or (np.diff(rows) <= 0).any() or not counts.all():
            raise _damaged()
        totals[rows] += counts
        clipped[rows[counts == _LARGEST_COUNT]] = True
    if (totals[~clipped] < lengths[~clipped]).any():
        raise _damaged()


def has_term(connection: sqlite3.Connection, term: str) -> bool:
    """Whether some document has a term."""
    row = connection.execute("SELECT 1 FROM postings WHERE term = ? LIMIT 1", (term,)).fetchone()
    return row is not None


def widest_share(
    connection: sqlite3.Connection, terms: Sequence[str], count: int, languages: Languages | None
) -> float:
    """The mean share of an index's rows that have a term. In an index of several languages that of
    the language in which it is largest, as far as its rows are enough to say so.

    Args:
        connection: on one state.
        terms: one at least.
        count: of the index's rows, one at least.
        languages: of the index.
    """
    shares: Doubles = np.zeros(1 if languages is None else len(languages.counts) + 1)
    for term in terms:
        rows, _ = postings_of(connection, term, count)
        shares[-1] += len(rows) / count
        if languages is not None:
            own = np.bincount(languages.of_rows[rows], minlength=len(shares))[:-1]
            counts = languages.counts[:, 0]
            shares[:-1] += own / counts * own_part(counts)
    return float(shares.max()) / len(terms)


def vocabulary_of(connection: sqlite3.Connection) -> Vocabulary:
    """All terms, and how many documents have each."""
    frequencies: dict[str, int] = {}
    cursor = connection.execute("SELECT term, length(rows) FROM postings ORDER BY term")
    for term, size in cursor:
        if not isinstance(term, str) or not isinstance(size, int):
            raise _damaged()
        frequencies[term] = frequencies.get(term, 0) + size // _ROW.itemsize
    return Vocabulary(frequencies, frequencies.__getitem__)


def postings_of(
    connection: sqlite3.Connection, term: str, count: int
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """The rows that have a term, below ``count``, rising, int64 (m,), and how often, float32 (m,).

    Raises:
        CorruptArtifactError: postings that cannot be of these documents.
    """
    sql = "SELECT first_row, rows, counts FROM postings WHERE term = ?"
    return _unpack(connection.execute(sql, (term,)).fetchall(), count)


def _unpack(
    records: Sequence[_Record], count: int
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Rows of the index, int64 (m,), below ``count``, and counts, float32 (m,), of one term's
    records.

    Joined before numpy sees them: a long query meets hundreds of short records.
    """
    try:
        first_rows, packed_rows, packed_counts = (
            zip(*records, strict=True) if records else ((),) * 3
        )
        sizes = np.array([*map(len, packed_rows)], np.int64) // _ROW.itemsize
        rows = np.frombuffer(b"".join(packed_rows), _ROW).astype(np.int64)
        counts = np.frombuffer(b"".join(packed_counts), _COUNT)
        first = np.repeat(np.array(first_rows, np.int64), sizes)
        of_counts = np.array([*map(len, packed_counts)], np.int64) // _COUNT.itemsize
        matched = np.array_equal(sizes, of_counts)
    except (TypeError, ValueError, OverflowError) as error:  # a text, a number, a cut blob
        raise _damaged() from error
    if not matched or not len(first) == len(rows) == len(counts):
        raise _damaged()
    rows += first
    # One pass: a negative row is a huge one without its sign.
    if len(rows) > count or (len(rows) and int(rows.view(np.uint64).max()) >= count):
        raise _damaged()
    return rows, counts.astype(np.float32)


def _damaged() -> CorruptArtifactError:
    found = "postings that are cut, out of order or of documents that are not there"
    return damaged(found, "a count for each row of a document")

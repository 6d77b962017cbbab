"""What the acceptance gate measures on: held-out queries over the documents of an index.

The vectors are the index's own, which devices search. Documents go by their row: the gate needs no
ids but to tell them apart.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence

import numpy as np

from pocketquery.client.views.typing_noise import mistype
from pocketquery.sdk.encoder import Encoder
from pocketquery.sdk.errors import InvalidInputError
from pocketquery.sdk.index.index import Index
from pocketquery.server.corpus import Judgements, Query
from pocketquery.server.federation.releases.gate import GateCollection

__all__ = ["judged_by_people", "judged_by_shipped"]

_TYPO_RATE = 0.08
_TYPINGS = 4  # of each query: a gain's interval is narrower by what one typing's luck adds to it


def judged_by_people(
    index: Index, queries: Sequence[Query], judgements: Judgements, *, seed: int = 0
) -> GateCollection:
    """``queries`` with relevance judgements, as they are and with 8 % of their letters mistyped;
    judgements of documents not in ``index`` do not count.

    Raises:
        InvalidInputError: no query has a relevant document in the index.
    """
    row_of = index.vectors({one for grades in judgements.values() for one in grades}).row_of
    judged = {
        query: {str(row_of[one]): grade for one, grade in grades.items() if one in row_of}
        for query, grades in judgements.items()
    }
    return _collection(index, queries, judged, seed, judges_clean=True)


def judged_by_shipped(
    index: Index, encoder: Encoder, queries: Iterable[str], *, seed: int = 0
) -> GateCollection:
    """Held-out queries that nobody judged, 8 % of their letters mistyped; relevant is the document
    that the shipped encoder finds first for the query as it was.

    It tells whether typing noise is understood better and whether the space held still. It cannot
    tell whether the shipped encoder was right.

    Raises:
        InvalidInputError: there is no query.
    """
    texts = list(queries)
    if not texts:
        raise InvalidInputError("found no held-out queries, expected at least one for the gate")
    first = index.vectors().nearest(encoder.encode_query(texts), 1)[:, 0]
    asked = [Query(str(number), text) for number, text in enumerate(texts)]
    nearest = {str(n): {str(row): 1} for n, row in enumerate(first)}
    return _collection(index, asked, nearest, seed, judges_clean=False)


def _collection(
    index: Index, queries: Sequence[Query], judgements: Judgements, seed: int, judges_clean: bool
) -> GateCollection:
    stored = index.vectors()
    rows = np.arange(len(stored))
    vectors = stored.vectors(rows)
    vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), np.float32(1e-12))
    rng = random.Random(seed)
    typings = [[mistype(one.text, _TYPO_RATE, rng) for one in queries] for _ in range(_TYPINGS)]
    return GateCollection(
        queries, [str(row) for row in rows], vectors, judgements, typings, judges_clean
    )

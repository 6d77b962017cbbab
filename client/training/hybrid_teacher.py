"""The index's hybrid ranking as the teacher of its dense ranking.

Words and meaning together find more than meaning alone, so the hybrid ranking of a query is a
better ranking than the encoder's own, and the index makes it without anybody's label:

    loss = KL(softmax(hybrid / sharpness) || softmax(cosine / temperature)) over the best documents

The training step a bundle carries knows one result that was opened among others that were shown.
Opening the results by chance, each as often as the softmax of its hybrid score says, gives that
loss's gradient on average: the cross entropy of a drawn label is, in expectation, that of the
distribution it is drawn from. So every bundle with a training step can be taught as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from pocketquery.client.local_config import LocalConfig
from pocketquery.client.training.batches import Batches
from pocketquery.client.training.prototypes import DocumentVectors, with_random
from pocketquery.client.training.step import StepBatch
from pocketquery.sdk.arrays import Floats, Rows
from pocketquery.sdk.errors import InvalidInputError
from pocketquery.sdk.index.index import Index
from pocketquery.sdk.words.query import without_operators

__all__ = ["HybridBatches", "HybridRankings", "hybrid_rankings"]


@dataclass(frozen=True)
class HybridRankings:
    """The best documents of each query.

    Attributes:
        documents: all of them.
        ranked: for each query their rows, best first.
        shares: for each query the softmax of their scores, float64, which sums to 1.
    """

    documents: DocumentVectors
    ranked: list[Rows]
    shares: list[NDArray[np.float64]]


def hybrid_rankings(
    index: Index,
    queries: Sequence[str],
    vectors: Floats,
    candidates: int,
    sharpness: float,
    *,
    temperature: float | None = None,
) -> HybridRankings:
    """What ``index`` finds by words and meaning together.

    Args:
        index: is searched once for each query.
        queries: n texts.
        vectors: float32 (n, dimension), what they mean.
        candidates: documents for each.
        sharpness: the temperature of the scores, see :class:`pocketquery.sdk.index.search.Fusion`.
        temperature: of the cosines, where ``vectors`` are those of a better encoder: half of each
            share is then the softmax of what the same documents mean.

    Raises:
        InvalidInputError: the index finds nothing for a query, so it is empty.
    """
    results = [
        index.search(without_operators(text), candidates, mode="hybrid", vector=vector)
        for text, vector in zip(queries, vectors, strict=True)
    ]
    if not all(results):
        raise InvalidInputError(
            f"the index at {index.path} holds no document; add some before adapting to it"
        )
    documents = index.vectors(sorted({hit.id for hits in results for hit in hits}))
    ranked = [np.array([documents.row_of[hit.id] for hit in hits], np.intp) for hits in results]
    shares = [_softmax(np.array([hit.score for hit in hits]), sharpness) for hits in results]
    if temperature is not None:
        cosines = (documents.vectors(rows) @ one for rows, one in zip(ranked, vectors, strict=True))
        meant = (_softmax(cosine.astype(np.float64), temperature) for cosine in cosines)
        shares = [(share + meaning) / 2 for share, meaning in zip(shares, meant, strict=True)]
    return HybridRankings(documents, ranked, shares)


class HybridBatches:
    """Batches whose opened results are drawn by the hybrid ranking.

    Args:
        batches: views, anchors and prototypes of the same queries.
        index: is searched once for each query, by its text and its anchor.
        config: how many documents are shown, how sharply they are ranked, and of which share of the
            queries the second view is taught in the place of the first and the anchor left out.

    Raises:
        InvalidInputError: the index finds nothing for a query, so it is empty.
    """

    def __init__(self, batches: Batches, index: Index, config: LocalConfig) -> None:
        self._batches = batches
        self._random = config.hybrid_candidates
        rankings = hybrid_rankings(
            index, batches.texts, batches.anchors, self._random, config.hybrid_sharpness
        )
        self._documents, self._ranked = rankings.documents, rankings.ranked
        self._up_to = [np.cumsum(shares) for shares in rankings.shares]
        # The views of byol predict one another, so they keep their places.
        self._mistyped = config.hybrid_mistyped if batches.objective == "index_byol" else 0.0

    def make(self, rows: Rows, rng: np.random.Generator, *, noisy: bool = True) -> StepBatch:
        """The batch of the queries ``rows``, see :meth:`Batches.make`.

        Args:
            rows: (B,), which queries.
            rng: draws the views, the random documents and the opened ones.
            noisy: False makes every view the clean query.
        """
        batch = self._batches.make(rows, rng, noisy=noisy)
        longest = max(len(self._ranked[row]) for row in rows)
        shape = len(rows), min(longest + self._random, len(self._documents))
        shown = np.zeros((*shape, self._documents.dimension), np.float32)
        mask = np.zeros(shape, np.float32)
        opened = np.zeros(len(rows), np.int64)
        for line, row in enumerate(rows):
            ranked = self._ranked[row]
            chosen = with_random(ranked[None], self._random, len(self._documents), rng)[0]
            shown[line, : len(chosen)] = self._documents.vectors(chosen)
            mask[line, : len(chosen)] = 1
            up_to = self._up_to[row]
            drawn = np.searchsorted(up_to, rng.random() * up_to[-1], side="right")
            opened[line] = min(int(drawn), len(ranked) - 1)  # where the product was rounded up
        weight = np.ones(len(rows), np.float32)
        batch = replace(batch, shown=shown, shown_mask=mask, opened=opened, opened_weight=weight)
        if not (self._mistyped and noisy):
            return batch
        lines = [line for line in range(len(rows)) if rng.random() < self._mistyped]
        return _second_view_first(batch, np.array(lines, np.intp))


def _second_view_first(batch: StepBatch, lines: Rows) -> StepBatch:
    """The first two online views of the queries ``lines`` changed for each other: a step teaches
    the first. The target's views stay as they are, and so do the anchors, of which a step leaves
    out those of ``lines``: pulling a mistyped view to the clean one's vector, with the weight that
    keeps clean ones in place, costs clean queries of all kinds."""
    count = len(batch.anchor)
    order = np.arange(len(batch.online_ids))
    order[lines], order[count + lines] = count + lines, lines
    return replace(
        batch,
        online_ids=batch.online_ids[order],
        online_mask=batch.online_mask[order],
        clean=order[:count],
    )


def _softmax(scores: NDArray[np.float64], temperature: float) -> NDArray[np.float64]:
    raised: NDArray[np.float64] = np.exp((scores - scores.max()) / temperature)
    raised /= raised.sum()
    return raised

"""Sets of words that represent a document, drawn and judged by its smoothed language model.

"PROP: Pre-training with Representative Words Prediction for Ad-hoc Retrieval", section 3.1. A word
is here a piece of the encoder's vocabulary, so that no list of words and no script is assumed.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

__all__ = ["WordModel"]

_TRIES = 50  # draws a word, before a set stays smaller


@dataclass(frozen=True, eq=False)
class WordModel:
    r"""The words of a collection, and of a document within it.

    .. math:: p(w \mid D) = \frac{tf_{w,D} + \mu\, p_C(w)}{|D| + \mu}

    Attributes:
        counts: how often each word occurs in the collection, (words,).
        smoothing: mu, in words; the collection's mean document length is usual.
        threshold: t of word2vec's sub-sampling: when a set is drawn, a word of frequency f counts
            only min(1, sqrt(t / f)) of its probability.
    """

    counts: NDArray[np.int64]
    smoothing: float
    threshold: float = 1e-4

    @cached_property
    def collection(self) -> NDArray[np.float64]:
        """p_C, float64 (words,)."""
        shares: NDArray[np.float64] = self.counts / max(int(self.counts.sum()), 1)
        return shares

    def log_likelihood(self, words: NDArray[np.int64], document: NDArray[np.int64]) -> float:
        """The sum of log p(w | D) over a set; minus infinity where a word occurs nowhere.

        Args:
            words: int64 (k,).
            document: its words in order, int64 (|D|,).
        """
        frequency = (document[None, :] == words[:, None]).sum(axis=1)  # (k,)
        smoothed = frequency + self.smoothing * self.collection[words]
        with np.errstate(divide="ignore"):
            return float(np.log(smoothed / (len(document) + self.smoothing)).sum())

    def draw(
        self, document: NDArray[np.int64], size: int, rng: np.random.Generator
    ) -> NDArray[np.int64]:
        """Distinct words from the document's sub-sampled model, one after another.

        The model is a mixture of the document's own words and the collection's, so that a draw
        costs a search and not a pass over the vocabulary.

        Args:
            document: its words in order, int64 (|D|,).
            size: words to be drawn.
            rng: the source of randomness.

        Returns:
            int64 (at most ``size``,); fewer where words ran out.
        """
        own = np.cumsum(self._kept[document])  # (|D|,)
        own_mass = float(own[-1]) if len(own) else 0.0
        background = self._background
        mass = own_mass + self.smoothing * float(background[-1])
        found: dict[int, None] = {}
        for _ in range(_TRIES * size if mass > 0 else 0):
            point = rng.random() * mass
            if point < own_mass:
                word = document[np.searchsorted(own, point, side="right")]
            else:
                share = (point - own_mass) / self.smoothing
                word = min(np.searchsorted(background, share, side="right"), len(background) - 1)
            found[int(word)] = None
            if len(found) == size:
                break
        return np.fromiter(found, np.int64)

    @cached_property
    def _kept(self) -> NDArray[np.float64]:
        share = np.maximum(self.collection, 1e-300)
        return np.minimum(1.0, np.sqrt(self.threshold / share))

    @cached_property
    def _background(self) -> NDArray[np.float64]:
        """Running sum of the sub-sampled p_C, float64 (words,)."""
        return np.cumsum(self._kept * self.collection)

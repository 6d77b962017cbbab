"""Texts drawn language by language, so that small languages count too."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from pocketquery.sdk.errors import InvalidInputError
from pocketquery.server.corpus.groups import Source

__all__ = ["language_quotas", "sampled_texts"]


def language_quotas(
    counts: NDArray[np.int64], most_texts: int, exponent: float
) -> NDArray[np.int64]:
    """How many texts each language gives, int64 (languages,).

    Language i with n_i texts has the share n_i^exponent / sum_j n_j^exponent: 1 leaves the
    languages as they are, 0 makes them equal ("Unsupervised Cross-lingual Representation Learning
    at Scale", section 3.1, where it is 0.3).

    Args:
        counts: int64 (languages,), texts of each.
        most_texts: of all together; fewer where there are fewer.
        exponent: in [0, 1].

    Raises:
        InvalidInputError: ``exponent`` or ``most_texts`` out of range.
    """
    if not 0 <= exponent <= 1 or most_texts < 1:
        raise InvalidInputError(
            f"exponent is {exponent} and most_texts {most_texts}; expected 0 to 1, and at least 1"
        )
    weights = np.where(counts > 0, counts.astype(np.float64) ** exponent, 0.0)
    total = min(most_texts, int(counts.sum()))
    quotas: NDArray[np.float64] = np.rint(total * weights / max(weights.sum(), 1.0))
    return quotas.astype(np.int64)


def sampled_texts(
    source: Source, *, most_texts: int, exponent: float, seed: int = 0
) -> Iterator[str]:
    """Texts of ``source``, as many of each language as :func:`language_quotas` says.

    Groups come in random order; where a language has fewer texts than its quota, they come again.
    """
    codes, counts = source.language_codes(), source.counts().astype(np.int64)
    texts = np.bincount(codes, weights=counts, minlength=len(source.languages)).astype(np.int64)
    rng = np.random.default_rng(seed)
    for code, quota in enumerate(language_quotas(texts, most_texts, exponent)):
        rows = rng.permutation((codes == code).nonzero()[0])
        yield from _cycled(source, rows, int(quota))


def _cycled(source: Source, rows: NDArray[np.int64], quota: int) -> Iterator[str]:
    """``quota`` texts of the groups at ``rows``, from the first again after the last."""
    while quota > 0:
        for row in rows.tolist():
            texts = source[row].texts[:quota]
            yield from texts
            quota -= len(texts)
            if quota <= 0:
                return

"""Which runs of tokens GUR hides: span lengths with a hump at three, placed without touching.

"Generate to Understand for Representation", span masking. Geometric lengths ("SpanBERT: Improving
Pre-training by Representing and Predicting Spans", section 3.1) hide single tokens most often; the
hump keeps their mean and halves the share of ones.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pocketquery.sdk.errors import InvalidInputError

__all__ = ["LENGTHS", "length_probabilities", "place_spans", "span_budget", "span_lengths"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

LENGTHS = ("hump", "geometric")

_LONGEST = 10
_LEAST_TOKENS = 4  # shorter sequences are not masked


def length_probabilities(kind: str = "hump") -> Floats:
    r"""P(k) for spans of k = 1..10 tokens, float64 (10,), sum 1.

    .. math:: P(k) \propto 0.66^{|k - 3|} \quad (\text{hump}), \qquad P(k) \propto 0.8^k \quad
        (\text{geometric})

    Both are truncated and renormalised ("clipped" in the paper; piling the tail onto 10 would
    raise the mean from 3.80 to 4.46).

    Raises:
        InvalidInputError: ``kind`` is neither ``"hump"`` nor ``"geometric"``.
    """
    lengths = np.arange(1.0, _LONGEST + 1)
    weights: Floats
    if kind == "hump":
        weights = 0.66 ** np.abs(lengths - 3)
    elif kind == "geometric":
        weights = 0.8**lengths
    else:
        raise InvalidInputError(f'the span lengths are "{kind}"; expected one of {LENGTHS}')
    share: Floats = weights / weights.sum()
    return share


def span_budget(tokens: int, rate: float) -> int:
    """Tokens to hide of a sequence: ``max(1, round(rate * tokens))``, none of fewer than four."""
    return max(1, round(rate * tokens)) if tokens >= _LEAST_TOKENS else 0


def span_lengths(budget: int, probabilities: Floats, rng: np.random.Generator) -> Integers:
    """Lengths drawn until they add up to ``budget``, the last one truncated; in random order.

    Args:
        budget: tokens to hide.
        probabilities: of the lengths 1, 2, ...
        rng: the source of randomness.

    Returns:
        int64 (spans,), empty for a budget of 0.
    """
    # One draw for all: no span is shorter than 1, so the budget bounds their number.
    drawn = 1 + rng.choice(len(probabilities), size=budget, p=probabilities)
    reached = np.minimum(np.cumsum(drawn), budget)
    lengths = np.diff(reached, prepend=0)
    # Shuffled: the truncated one would otherwise always be the last of the text.
    return np.asarray(rng.permutation(lengths[lengths > 0]), dtype=np.int64)


def place_spans(tokens: int, lengths: Integers, rng: np.random.Generator) -> Integers:
    """Where spans of the given lengths start; every layout without contact is equally likely.

    Between two spans at least one token stays visible, or their sentinels would stand for one
    span. So the spans take distinct slots before, between and after the visible tokens: a random
    subset of the slots is a random layout.

    Args:
        tokens: of the sequence.
        lengths: int64 (spans,), in their order in the text.
        rng: the source of randomness.

    Returns:
        int64 (merged spans, 2): first token and length of each span. Where there are too few
        visible tokens to keep all spans apart, the shortest neighbours are merged.
    """
    visible = tokens - int(lengths.sum())
    lengths = _merged(lengths, visible + 1)
    slots = np.sort(rng.choice(visible + 1, size=len(lengths), replace=False))
    starts = slots + np.cumsum(lengths) - lengths
    return np.stack([starts, lengths], axis=1).astype(np.int64)


def _merged(lengths: Integers, most: int) -> Integers:
    while len(lengths) > most:
        at = int(np.argmin(lengths[:-1] + lengths[1:]))
        lengths = np.delete(lengths, at + 1) + np.where(
            np.arange(len(lengths) - 1) == at, lengths[at + 1], 0
        )
    return lengths

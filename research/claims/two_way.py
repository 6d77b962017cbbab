"""How sure a difference of two arms is: a bootstrap over seeds and over items.

The items (questions, pairs, texts) are the same in every seed, so that both are drawn with
replacement and crossed: a resample is some of the rows and some of the columns of one table. Of few
seeds the resampled means lie too close together by sqrt((seeds - 1) / seeds); what a seed adds to
all of its items is therefore stretched by the inverse before rows are drawn.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Estimate", "estimated", "resampled", "summarised"]

LEVEL = 0.05
_SAMPLES = 10_000
_SLICE = 500  # resamples at once: bounds the memory to _SLICE x items

Table = NDArray[np.float64]


@dataclass(frozen=True)
class Estimate:
    """A mean, the interval that is left when ``LEVEL`` is cut off on either side, and p.

    Attributes:
        mean: over seeds and items.
        low: what one-sidedly the mean is above, at ``LEVEL``.
        high: what it is below.
        p: of "the mean is not above the bound", one-sided: the share of resamples that are not.
        seeds: rows that were there.
    """

    mean: float
    low: float
    high: float
    p: float
    seeds: int

    def __str__(self) -> str:
        return f"{self.interval}, p {self.p:.4f}"

    @property
    def interval(self) -> str:
        """Mean and interval in words, with the seeds they are from."""
        shown = f"{self.mean:+.4f} [{self.low:+.4f}, {self.high:+.4f}]"
        return f"{shown}, {self.seeds} seed{'s' * (self.seeds > 1)}"


def estimated(table: Table, bound: float = 0.0) -> Estimate:
    """The mean of paired differences, float64 (seeds, items), and whether it is above ``bound``."""
    return summarised(float(table.mean()), resampled([table])[0], bound, len(table))


def summarised(mean: float, means: Table, bound: float, seeds: int) -> Estimate:
    """An estimate of the figure ``mean`` from its resampled values, float64 (samples,)."""
    low, high = np.quantile(means, [LEVEL, 1 - LEVEL])
    p = (1 + (means <= bound).sum()) / (1 + len(means))
    return Estimate(mean, float(low), float(high), float(p), seeds)


def resampled(tables: list[Table], seed: int = 0) -> Table:
    """The means of several tables in the same resamples, float64 (tables, samples).

    Args:
        tables: each float64 (seeds, items), of the same seeds and the same items.
        seed: of the resampling.
    """
    stretched = np.stack([_stretched(table) for table in tables])  # (tables, seeds, items)
    seeds, items = stretched.shape[1:]
    means = np.empty((len(tables), _SAMPLES))
    for number, (of_seeds, of_items) in enumerate(_drawn(seeds, items, seed)):
        rows, columns = of_seeds / seeds, of_items / items
        drawn = slice(number * _SLICE, (number + 1) * _SLICE)
        for table, found in zip(stretched, means, strict=True):
            found[drawn] = np.einsum("ri,ri->r", rows @ table, columns)
    return means


@functools.lru_cache(maxsize=3)
def _drawn(seeds: int, items: int, seed: int) -> list[tuple[NDArray[np.int64], NDArray[np.uint8]]]:
    """How often each seed and each item is in each resample, slice by slice.

    int64 (slice, seeds) and uint8 (slice, items): an item is hardly ever in one a dozen times. Most
    links have equally many seeds and items as another one, and drawing is most of their time.
    """
    rng = np.random.default_rng(seed)
    return [
        (
            rng.multinomial(seeds, np.full(seeds, 1 / seeds), _SLICE),
            rng.multinomial(items, np.full(items, 1 / items), _SLICE).astype(np.uint8),
        )
        for _ in range(0, _SAMPLES, _SLICE)
    ]


def _stretched(table: Table) -> Table:
    seeds = len(table)
    if seeds == 1:
        return table
    of_seed = table.mean(axis=1, keepdims=True) - table.mean()  # (seeds, 1)
    stretched: Table = table + of_seed * (np.sqrt(seeds / (seeds - 1)) - 1)
    return stretched

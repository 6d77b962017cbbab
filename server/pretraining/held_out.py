"""Groups kept from training, whose texts show how the geometry develops."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pocketquery.server.corpus.groups import Source
from pocketquery.server.corpus.row_view import RowView

__all__ = ["HeldOut", "hold_out"]

_MOST_SHARE = 0.1


class HeldOut(NamedTuple):
    """What is left to train on, and one text of each group that was taken out."""

    source: Source
    texts: list[str]


def hold_out(source: Source, count: int) -> HeldOut:
    """Take out ``count`` groups with text, evenly spaced, but no more than a tenth of all.

    Args:
        source: the groups.
        count: groups to take out; 0 leaves the source as it is.
    """
    usable = np.flatnonzero(source.lengths() > 0)
    count = min(count, int(len(usable) * _MOST_SHARE))
    if count == 0:
        return HeldOut(source, [])
    places = np.linspace(0, len(usable) - 1, count).astype(np.int64)
    taken = usable[places]
    rest = np.setdiff1d(np.arange(len(source)), taken)
    texts = [max(source[int(row)].texts, key=len) for row in taken]
    return HeldOut(RowView(source, rest), texts)

"""Groups held out from training, to measure how the vectors develop."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from pocketquery.server.corpus.groups import Group, Source
from pocketquery.server.corpus.row_view import RowView

__all__ = ["HeldOut", "Split", "hold_out"]

_MOST_SHARE = 0.1


@dataclass(frozen=True)
class HeldOut:
    """Texts that are measured during a run, best some that are not trained on.

    Attributes:
        texts: n of them.
        partners: of each another text of its group; "" where the group has none. Empty: unknown.
        languages: of each; "" where it does not say. Empty: unknown.
    """

    texts: Sequence[str] = ()
    partners: Sequence[str] = ()
    languages: Sequence[str] = ()

    def __len__(self) -> int:
        return len(self.texts)

    @classmethod
    def of_groups(cls, groups: Iterable[Group], *, asked: bool = False) -> HeldOut:
        """One text of each group with its partner.

        Args:
            groups: each with some text.
            asked: only the first two texts belong together, a query and its answer: triples.
        """
        rows = [(*_pair(group.texts[: 2 if asked else None]), group.lang) for group in groups]
        texts, partners, languages = zip(*rows, strict=True) if rows else ((), (), ())
        return cls(texts, partners, languages)

    @classmethod
    def together(cls, several: Iterable[HeldOut]) -> HeldOut:
        """All of several, in their order."""
        parts = list(several)
        return cls(
            [text for one in parts for text in one.texts],
            [text for one in parts for text in one.partners or [""] * len(one)],
            [name for one in parts for name in one.languages or [""] * len(one)],
        )


class Split(NamedTuple):
    """What is left to train on, and what was taken out."""

    source: Source
    held_out: HeldOut


def hold_out(source: Source, count: int) -> Split:
    """Take out ``count`` groups with text, evenly spaced, but no more than a tenth of all.

    Args:
        source: the groups.
        count: groups to take out; 0 leaves the source as it is.
    """
    usable = np.flatnonzero(source.lengths() > 0)
    count = min(count, int(len(usable) * _MOST_SHARE))
    if count < 2:  # one text has no geometry
        return Split(source, HeldOut())
    places = np.linspace(0, len(usable) - 1, count).astype(np.int64)
    taken = usable[places]
    rest = np.setdiff1d(np.arange(len(source)), taken)
    groups = (source[int(row)] for row in taken)
    return Split(RowView(source, rest), HeldOut.of_groups(groups, asked=source.kind == "triples"))


def _pair(texts: Sequence[str]) -> tuple[str, str]:
    """The longest text, and the one after it; before it where it is the last."""
    texts = [text for text in texts if text.strip()] or texts
    place = max(range(len(texts)), key=lambda row: len(texts[row]))
    beside = place + 1 if place + 1 < len(texts) else place - 1
    return texts[place], texts[beside] if beside >= 0 else ""

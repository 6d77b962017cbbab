"""Groups held out from training, to measure how the vectors develop."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pocketquery.server.corpus.groups import Group, Kind, Source

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


class RowView:
    """The groups of ``source`` in ``rows``, in that order, without a copy of their texts.

    Args:
        source: the groups.
        rows: int64 (groups,).
    """

    def __init__(self, source: Source, rows: NDArray[np.int64]) -> None:
        self._source, self._rows = source, rows

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, row: int) -> Group:
        return self._source[int(self._rows[row])]

    @property
    def kind(self) -> Kind:
        """The source's."""
        return self._source.kind

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the source's fingerprint and the rows."""
        rows = np.ascontiguousarray(self._rows, dtype="<i8").tobytes()
        return hashlib.sha256(self._source.fingerprint.encode() + rows).hexdigest()

    @property
    def languages(self) -> tuple[str, ...]:
        """The source's."""
        return self._source.languages

    def counts(self) -> NDArray[np.int32]:
        """Texts of every group, int32 (groups,)."""
        return self._source.counts()[self._rows]

    def lengths(self) -> NDArray[np.int64]:
        """UTF-8 bytes of every group, int64 (groups,)."""
        return self._source.lengths()[self._rows]

    def language_codes(self) -> NDArray[np.int16]:
        """Index into ``languages`` of every group, int16 (groups,)."""
        return self._source.language_codes()[self._rows]


def _pair(texts: Sequence[str]) -> tuple[str, str]:
    """The longest text, and the one after it; before it where it is the last."""
    texts = [text for text in texts if text.strip()] or texts
    place = max(range(len(texts)), key=lambda row: len(texts[row]))
    beside = place + 1 if place + 1 < len(texts) else place - 1
    return texts[place], texts[beside] if beside >= 0 else ""

"""Passages: a source whose groups are runs of consecutive texts of another's groups."""

from __future__ import annotations

import hashlib
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pocketquery.sdk.errors import InvalidInputError
from pocketquery.server.corpus.groups import Group, Kind, Source
from pocketquery.server.corpus.text_store import TextStore

__all__ = ["Passages"]


class Passages:
    """Runs of consecutive texts, each as long as fits: what is trained on as one piece of text.

    A run takes texts of one group while they have at most ``most_bytes`` together; a longer text is
    a run by itself. Where the last run of a group has fewer than ``least_bytes``, it joins the one
    before. Every text is in one run; a group without a byte of text gives none.

    A passage keeps the id, the language and, where it begins with it, the title flag of its group,
    so that passages of one document are known as such.

    Args:
        source: the groups. 400 bytes are some 90 tokens of English or 60 of Chinese.
        most_bytes: UTF-8 bytes of a passage.
        least_bytes: of the last one of a group.

    Raises:
        InvalidInputError: ``most_bytes`` is below 1, or ``least_bytes`` not in [0, most_bytes].
    """

    def __init__(self, source: Source, most_bytes: int = 400, least_bytes: int = 100) -> None:
        if not (most_bytes >= 1 and 0 <= least_bytes <= most_bytes):
            raise InvalidInputError(
                f"most_bytes is {most_bytes} and least_bytes {least_bytes}; expected most_bytes "
                "from 1 and least_bytes from 0 to most_bytes"
            )
        self._source = source
        self._bounds = f"{most_bytes} {least_bytes}"
        ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(_text_lengths(source))])
        groups = np.concatenate([np.zeros(1, np.int64), np.cumsum(source.counts(), dtype=np.int64)])
        cuts = _cuts(ends, groups, most_bytes, least_bytes)
        self._runs = _runs(cuts, ends, groups)

    def __len__(self) -> int:
        return len(self._runs.rows)

    def __getitem__(self, row: int) -> Group:
        row = range(len(self))[row]  # an IndexError where there is none
        group = self._source[int(self._runs.rows[row])]
        first = int(self._runs.firsts[row])
        part = slice(first, first + int(self._runs.counts[row]))
        title = group.title and first == 0
        return Group(group.id, group.texts[part], group.roles[part], group.lang, title)

    @property
    def kind(self) -> Kind:
        """The source's."""
        return self._source.kind

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the source's fingerprint and the bounds."""
        return hashlib.sha256(f"{self._source.fingerprint} {self._bounds}".encode()).hexdigest()

    @property
    def languages(self) -> tuple[str, ...]:
        """The source's."""
        return self._source.languages

    def counts(self) -> NDArray[np.int32]:
        """Texts of every passage, int32 (passages,)."""
        return self._runs.counts

    def lengths(self) -> NDArray[np.int64]:
        """UTF-8 bytes of every passage, int64 (passages,)."""
        return self._runs.lengths

    def language_codes(self) -> NDArray[np.int16]:
        """Index into ``languages`` of every passage, int16 (passages,)."""
        return self._source.language_codes()[self._runs.rows]


class _Runs(NamedTuple):
    """Of every passage: row of its group, first text there, number of texts, bytes."""

    rows: NDArray[np.int64]
    firsts: NDArray[np.int32]
    counts: NDArray[np.int32]
    lengths: NDArray[np.int64]


def _text_lengths(source: Source) -> NDArray[np.int64]:
    """UTF-8 bytes of every text, group by group, int64 (texts,)."""
    if isinstance(source, TextStore):
        return source.text_lengths()
    groups = (source[row] for row in range(len(source)))
    sizes = (len(text.encode()) for group in groups for text in group.texts)
    return np.fromiter(sizes, np.int64)


def _cuts(
    ends: NDArray[np.int64], groups: NDArray[np.int64], most_bytes: int, least_bytes: int
) -> NDArray[np.bool_]:
    """Where a passage begins, bool (texts + 1,).

    From each text the end of the run that would begin there follows from a search in the running
    sum of bytes; all groups then step from run to run at once.
    """
    cuts = np.zeros(len(ends), np.bool_)
    at, stop = groups[:-1], groups[1:]
    at, stop = at[at < stop], stop[at < stop]
    while len(at):
        cuts[at] = True
        following = np.searchsorted(ends, ends[at] + most_bytes, side="right") - 1
        following = np.minimum(np.maximum(following, at + 1), stop)
        rest = ends[stop] - ends[following]
        more = rest >= max(least_bytes, 1)  # otherwise the run takes what is left as well
        at, stop = following[more], stop[more]
    return cuts


def _runs(cuts: NDArray[np.bool_], ends: NDArray[np.int64], groups: NDArray[np.int64]) -> _Runs:
    starts = cuts.nonzero()[0]
    stops = np.append(starts[1:], len(ends) - 1)[: len(starts)]
    is_filled = ends[stops] > ends[starts]  # bytes
    starts, stops = starts[is_filled], stops[is_filled]
    rows = np.searchsorted(groups, starts, side="right") - 1
    firsts = (starts - groups[rows]).astype(np.int32)
    return _Runs(rows, firsts, (stops - starts).astype(np.int32), ends[stops] - ends[starts])

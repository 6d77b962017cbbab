"""Some rows of a source, as a source."""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray

from pocketquery.server.corpus.groups import Group, Kind, Source

__all__ = ["RowView"]


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

"""The unit of every corpus: an ordered group of texts, be it a document, a session or a pair."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from pocketquery.sdk.errors import CorpusError

__all__ = ["Group", "GroupList", "Kind", "Source"]

Kind = Literal["documents", "sessions", "pairs", "triples", "queries"]


@dataclass(frozen=True)
class Group:
    """Texts that belong together, in their order.

    Attributes:
        id: names the group within its corpus.
        texts: a document's sentences (its title first, where ``title`` is set), a session's turns,
            a pair's two texts, a triple's query, positive and negatives, or one query.
        roles: a session's: who said each text, say ``"user"`` or ``"agent"``; else empty.
        lang: BCP 47 code of the language, ``""`` where it is unknown.
        title: whether ``texts[0]`` is the title of what follows.
    """

    id: str
    texts: tuple[str, ...]
    roles: tuple[str, ...] = ()
    lang: str = ""
    title: bool = False

    def __post_init__(self) -> None:
        if self.roles and len(self.roles) != len(self.texts):
            raise CorpusError(
                f"the group {self.id!r} has {len(self.texts)} texts and {len(self.roles)} roles; "
                "expected one role a text, or none at all"
            )


class Source(Protocol):
    """Groups that can be read in any order, in memory or on disk."""

    @property
    def kind(self) -> Kind:
        """What the groups are."""

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the content: a run that resumes on other content is refused."""

    @property
    def languages(self) -> tuple[str, ...]:
        """The languages that occur, sorted."""

    def __len__(self) -> int: ...

    def __getitem__(self, row: int) -> Group: ...

    def counts(self) -> NDArray[np.int32]:
        """Texts of every group, int32 (groups,)."""

    def lengths(self) -> NDArray[np.int64]:
        """UTF-8 bytes of every group's texts together, int64 (groups,): a measure of its cost."""

    def language_codes(self) -> NDArray[np.int16]:
        """Index into ``languages`` of every group, int16 (groups,)."""


class GroupList:
    """A :class:`Source` in memory."""

    def __init__(self, groups: Sequence[Group], kind: Kind) -> None:
        self._groups = tuple(groups)
        self.kind: Kind = kind

    def __len__(self) -> int:
        return len(self._groups)

    def __getitem__(self, row: int) -> Group:
        return self._groups[row]

    @cached_property
    def fingerprint(self) -> str:
        digest = hashlib.sha256(self.kind.encode())
        for group in self._groups:
            digest.update(repr(group).encode())
        return digest.hexdigest()

    @cached_property
    def languages(self) -> tuple[str, ...]:
        return tuple(sorted({group.lang for group in self._groups}))

    def counts(self) -> NDArray[np.int32]:
        return np.array([len(group.texts) for group in self._groups], dtype=np.int32)

    def lengths(self) -> NDArray[np.int64]:
        sizes = [sum(len(text.encode()) for text in group.texts) for group in self._groups]
        return np.array(sizes, dtype=np.int64)

    def language_codes(self) -> NDArray[np.int16]:
        codes = {language: code for code, language in enumerate(self.languages)}
        return np.array([codes[group.lang] for group in self._groups], dtype=np.int16)

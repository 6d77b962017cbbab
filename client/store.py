"""What the user searched for and opened, as the local training sees it."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Example"]


@dataclass(frozen=True)
class Example:
    """A query as it was typed, and what came of it.

    Attributes:
        query: the text.
        shown: ids of the documents that the search returned, best first; empty where unknown.
        opened: the one of them that the user opened, or None.
    """

    query: str
    shown: tuple[str, ...] = ()
    opened: str | None = None

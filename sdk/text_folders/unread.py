"""The error of a file that is not read, which is counted and does not stop a reader."""

from __future__ import annotations

from pocketquery.sdk.errors import InvalidInputError

__all__ = ["UnreadError"]


class UnreadError(InvalidInputError):
    """A file that cannot be read as text.

    Attributes:
        kind: of the reason, to count by: "encrypted", "without text".
    """

    def __init__(self, kind: str, why: str) -> None:
        super().__init__(why)
        self.kind = kind

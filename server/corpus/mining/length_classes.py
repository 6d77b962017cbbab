"""Two classes of pairs by length, so that short ones need not be padded to the long ones'.

"Generate to Understand for Representation" trains texts of fewer than 64 characters at 32 tokens
and the others at 128, with a batch size for each.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pocketquery.sdk.errors import InvalidInputError
from pocketquery.server.corpus.groups import Group

__all__ = ["LENGTHS", "SHORT", "is_short", "of_length"]

LENGTHS = ("all", "short", "long")
SHORT = 64
"""Texts of fewer characters are short."""


def is_short(group: Group) -> bool:
    """Whether every text of the group is short."""
    return all(len(text) < SHORT for text in group.texts)


def of_length(groups: Iterable[Group], length: str) -> Iterator[Group]:
    """The groups of one of :data:`LENGTHS`.

    Raises:
        InvalidInputError: another name.
    """
    if length not in LENGTHS:
        raise InvalidInputError(f'length is "{length}"; expected one of {", ".join(LENGTHS)}')
    return (group for group in groups if length == "all" or is_short(group) == (length == "short"))

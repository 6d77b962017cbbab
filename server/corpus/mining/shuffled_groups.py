"""Groups of texts shuffled and de-duplicated on disk, however many there are."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path

from pocketquery.server.corpus.groups import Group
from pocketquery.server.corpus.mining.external_sort import (
    MEMORY,
    shuffled_lines,
    unique_shuffled_lines,
)
from pocketquery.server.corpus.mining.matching_text import matching_form

__all__ = ["shuffle_groups", "unique_groups"]


def shuffle_groups(
    groups: Iterable[Group], seed: int, beside: Path | str, *, memory: int = MEMORY
) -> Iterator[Group]:
    """``groups`` in a random order.

    Args:
        groups: read once, one at a time.
        seed: of the order.
        beside: what is being made of them; temporary files go next to it.
        memory: bytes of groups held at a time.
    """
    for line in shuffled_lines(map(_line, groups), seed, beside, memory=memory):
        yield _group(line)


def unique_groups(
    groups: Iterable[Group], seed: int, beside: Path | str, *, memory: int = MEMORY
) -> Iterator[Group]:
    """One group of each set of texts, in a random order; arguments as :func:`shuffle_groups`.

    Texts count as equal where they differ in letter case, spelling (NFKC) and spaces only, and
    their order does not matter: (a, b) and (b, a) are one pair.
    """
    identified = ((_identity(group), _line(group)) for group in groups)
    for line in unique_shuffled_lines(identified, seed, beside, memory=memory):
        yield _group(line)


def _identity(group: Group) -> bytes:
    forms = sorted(matching_form(text) for text in group.texts)
    return "\n".join(forms).encode("utf-8", "surrogatepass")  # a form holds no line feed


def _line(group: Group) -> bytes:
    entry = [group.id, group.texts, group.roles, group.lang, group.title]
    return json.dumps(entry).encode()  # in ASCII, so that any text can be held


def _group(line: bytes) -> Group:
    id, texts, roles, lang, title = json.loads(line)
    return Group(id, tuple(texts), tuple(roles), lang, title)

"""The simulated users of a simulation: read from a file, or made of plain queries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pocketquery.client.store.store import Example
from pocketquery.sdk.errors import CorpusError, InvalidInputError
from pocketquery.server.corpus.readers.json_lines import field_name, json_objects, text_field
from pocketquery.server.corpus.readers.lines import bad_line, identifier

__all__ = ["DealtStores", "SimulatedStore", "by_topic", "read_clients"]

_PREFIX = "client-"


@dataclass(frozen=True)
class SimulatedStore:
    """The queries of a simulated user, who consents and erases nothing."""

    kept: tuple[Example, ...]
    consent: bool = True
    epoch: str = "simulated"

    def examples(self, limit: int | None = None) -> list[Example]:
        """The queries, oldest first; of more than ``limit``, the newest."""
        return list(self.kept[-(limit or 0) :])

    def tidy(self) -> None:
        """Nothing expires."""


def read_clients(path: Path | str) -> dict[str, SimulatedStore]:
    """Users and their queries from JSON Lines, plain, gzip or xz, in the order users first appear.

    A line has ``client`` and ``query`` (or ``text``), and may have ``shown``, ids of documents with
    the best first, and ``opened``, one of them.

    Raises:
        ArtifactNotFoundError: there is no such file.
        CorpusError: a line is not such an object, or there is none; names file and line.
    """
    examples: dict[str, list[Example]] = {}
    for number, entry in json_objects(path):
        name = field_name(path, number, entry, "client", "user")
        text = field_name(path, number, entry, "query", "text")
        example = Example(
            text_field(path, number, entry[text], text),
            _shown(path, number, entry.get("shown")),
            _opened(path, number, entry.get("opened")),
        )
        if not example.query.strip():
            raise bad_line(path, number, "an empty query", "some text")
        if example.opened is not None and example.opened not in example.shown:
            raise bad_line(path, number, f"opened {example.opened!r}", "one of the ids shown")
        client = identifier(path, number, entry[name], name)
        examples.setdefault(client, []).append(example)
    if not examples:
        raise CorpusError(f"{path}: found no line, expected queries of simulated clients")
    return {client: SimulatedStore(tuple(kept)) for client, kept in examples.items()}


def by_topic(
    queries: Sequence[str], nearest: NDArray[np.intp], clients: int, each: int
) -> DealtStores:
    """Users who each ask about neighbouring documents, as people have a few interests.

    The queries are put in the order of the documents they are nearest to, and each user gets
    ``each`` that stand together; users share queries where there are too few.

    Args:
        queries: the texts.
        nearest: intp (queries,), the row of the document nearest to each.
        clients: how many users.
        each: queries of each.

    Raises:
        InvalidInputError: there is no query, or a number is below 1.
    """
    if not queries or clients < 1 or each < 1:
        raise InvalidInputError(
            f"found {len(queries)} queries for {clients} clients with {each} each, expected at "
            "least one of each"
        )
    order = np.argsort(nearest, kind="stable")
    return DealtStores([queries[place] for place in order], clients, each)


@dataclass(frozen=True)
class DealtStores(Mapping[str, SimulatedStore]):
    """Stores of users who share a list of queries; each is made when it is asked for, so memory
    does not grow with the users.

    Attributes:
        queries: the texts, those of neighbouring documents together.
        users: how many; they are called ``client-00000`` and so on.
        each: queries of each, who begins at the user's share of the list.
    """

    queries: Sequence[str]
    users: int
    each: int

    def __getitem__(self, name: str) -> SimulatedStore:
        digits = name.removeprefix(_PREFIX)
        place = int(digits) if digits.isdecimal() else -1
        if place not in range(self.users) or name != _named(place):
            raise KeyError(name)
        count = len(self.queries)
        start = place * count // self.users
        taken = range(start, start + min(self.each, count))
        return SimulatedStore(tuple(Example(self.queries[one % count]) for one in taken))

    def __iter__(self) -> Iterator[str]:
        return map(_named, range(self.users))

    def __len__(self) -> int:
        return self.users


def _named(place: int) -> str:
    return f"{_PREFIX}{place:05d}"


def _opened(path: Path | str, number: int, value: Any) -> str | None:
    return None if value is None else identifier(path, number, value, "opened")


def _shown(path: Path | str, number: int, value: Any) -> tuple[str, ...]:
    if value is None:
        return ()
    if not isinstance(value, list):
        raise bad_line(path, number, f"shown is {type(value).__name__}", "a list of document ids")
    return tuple(identifier(path, number, one, "shown") for one in value)

"""Pairs of questions with a label, and their split into training, dev and test."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from pocketquery.sdk.errors import InvalidInputError
from pocketquery.sdk.validation import check, number, one_of
from pocketquery.server.corpus.readers.lines import bad_line, numbered_lines

__all__ = [
    "DuplicatePair",
    "DuplicateSplit",
    "connected_pairs",
    "read_duplicate_pairs",
    "split_duplicates",
]

_COLUMNS = ("label", "question1", "question2")


class DuplicatePair(NamedTuple):
    """Two questions, and whether somebody said that they ask the same."""

    first: str
    second: str
    duplicate: bool


@dataclass(frozen=True)
class DuplicateSplit:
    """Duplicates to train on; dev and test with as many pairs that are none."""

    train: tuple[DuplicatePair, ...]
    dev: tuple[DuplicatePair, ...]
    test: tuple[DuplicatePair, ...]


def read_duplicate_pairs(path: Path | str) -> list[DuplicatePair]:
    """Pairs of a tsv, plain, gzip or xz, whose header has label (0 or 1), question1 and question2.

    Raises:
        CorpusError: another header, a line with too few columns, or another label.
    """
    lines = numbered_lines(path)
    number, header = next(lines, (0, ""))
    names = header.split("\t")
    if not set(_COLUMNS) <= set(names):
        raise bad_line(path, number, f"the header {names}", f"columns {', '.join(_COLUMNS)}")
    places = [names.index(column) for column in _COLUMNS]
    pairs = []
    for number, line in lines:
        cells = line.split("\t")
        if len(cells) <= max(places):
            raise bad_line(path, number, f"{len(cells)} columns", f"{len(names)}")
        label, first, second = (cells[place] for place in places)
        if label not in ("0", "1"):
            raise bad_line(path, number, f"the label {label!r}", "0 or 1")
        pairs.append(DuplicatePair(first, second, label == "1"))
    return pairs


def split_duplicates(
    pairs: Sequence[DuplicatePair],
    *,
    split: str = "component",
    train_share: float = 0.8,
    seed: int = 0,
) -> DuplicateSplit:
    """Split pairs: a share of the duplicates trains, the rest is halved into dev and test.

    With four fifths in training, test has a quarter as many pairs as training, half of them
    duplicates, as *Query-BERT* has it; dev is its like.

    Args:
        pairs: any number.
        split: ``component``: no question is in two parts, since whole components of the graph of
            duplicates are dealt out, and a pair that is none is used where both its questions
            belong to one part; ``random``: pairs are dealt out alone, as in the report, and
            questions may be in several parts.
        train_share: of the duplicates.
        seed: of the order.

    Raises:
        InvalidInputError: another split, a share outside (0, 1), or too few pairs for dev and test.
    """
    check("split", split, one_of("component", "random"))
    check("train_share", train_share, number(above=0, below=1))
    rng = random.Random(seed)
    shuffled = rng.sample(list(dict.fromkeys(pairs)), len(set(pairs)))
    duplicates = [pair for pair in shuffled if pair.duplicate]
    others = [pair for pair in shuffled if not pair.duplicate]
    deal = _by_component if split == "component" else _by_pair
    train, *held_out = deal(duplicates, others, train_share)
    dev, test = (_balanced(part) for part in held_out)
    if not (train and dev and test):
        raise InvalidInputError(
            f"{len(duplicates)} duplicates and {len(others)} other pairs are too few to split; "
            "expected enough for training, dev and test"
        )
    return DuplicateSplit(tuple(p for p in train if p.duplicate), dev, test)


def _by_pair(
    duplicates: list[DuplicatePair], others: list[DuplicatePair], train_share: float
) -> list[list[DuplicatePair]]:
    first = round(train_share * len(duplicates))
    second = (first + len(duplicates)) // 2
    dev, test = duplicates[first:second], duplicates[second:]
    middle = len(others) // 2
    return [duplicates[:first], dev + others[:middle], test + others[middle:]]


def _by_component(
    duplicates: list[DuplicatePair], others: list[DuplicatePair], train_share: float
) -> list[list[DuplicatePair]]:
    ends = [train_share, (1 + train_share) / 2, 1.0]
    parts: list[list[DuplicatePair]] = [[], [], []]
    home: dict[str, int] = {}
    dealt = 0
    for component in connected_pairs(duplicates):
        part = next(place for place, end in enumerate(ends) if dealt < end * len(duplicates))
        parts[part] += component
        dealt += len(component)
        home |= {text: part for pair in component for text in (pair.first, pair.second)}
    wanted = [len(part) for part in parts]  # as many others as duplicates, of use in dev and test
    for pair in others:
        known = {home[text] for text in (pair.first, pair.second) if text in home}
        if len(known) > 1:
            continue  # its questions are in two parts
        part = known.pop() if known else (1 if wanted[1] >= wanted[2] else 2)
        parts[part].append(pair)
        wanted[part] -= 1
        home |= {pair.first: part, pair.second: part}
    return parts


def connected_pairs(duplicates: Sequence[DuplicatePair]) -> list[list[DuplicatePair]]:
    """Pairs that hang together by their questions, in the order of their first pair."""
    parent: dict[str, str] = {}

    def root(text: str) -> str:
        parent.setdefault(text, text)
        while parent[text] != text:
            parent[text] = parent[parent[text]]
            text = parent[text]
        return text

    for pair in duplicates:
        parent[root(pair.second)] = root(pair.first)
    families: dict[str, list[DuplicatePair]] = {}
    for pair in duplicates:
        families.setdefault(root(pair.first), []).append(pair)
    return list(families.values())


def _balanced(part: list[DuplicatePair]) -> tuple[DuplicatePair, ...]:
    duplicates = [pair for pair in part if pair.duplicate]
    others = [pair for pair in part if not pair.duplicate]
    size = min(len(duplicates), len(others))
    return (*duplicates[:size], *others[:size])

"""Read the public sets' files: tables, packed or not, and packed JSON Lines."""

from __future__ import annotations

import csv
import gzip
import json
import lzma
from collections.abc import Iterator
from pathlib import Path
from typing import Any

__all__ = ["objects", "rows", "table"]


def rows(path: Path) -> Iterator[list[str]]:
    """The rows of a gzipped, tab-separated table, without its header."""
    found = table(path)
    next(found)
    yield from found


def table(path: Path) -> Iterator[list[str]]:
    """The rows of a tab-separated table that has no header, or whose header is wanted."""
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8", newline="\n") as file:
        yield from csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE)


def objects(path: Path) -> Iterator[dict[str, Any]]:
    """The objects of a JSON Lines file, packed by gzip or xz."""
    opened = lzma.open if path.suffix == ".xz" else gzip.open
    with opened(path, "rt", encoding="utf-8") as file:
        yield from map(json.loads, file)

"""What fields documents have, and how many documents have each value of one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

__all__ = ["FacetCount", "count_fields", "count_values", "fields_of", "values_at"]


class FacetCount(NamedTuple):
    """A value of a field and how many documents have it."""

    value: str | float | bool
    documents: int


def values_at(metadata: Mapping[str, Any], field: str) -> list[Any] | None:
    """What a filter compares ``field`` with: its value, or the items of a list; None: absent."""
    if field in metadata:
        values = [metadata[field]]
    else:
        values = [metadata]
        for name in field.split(".") if "." in field else []:
            inner = [item for one in values for item in (one if isinstance(one, list) else [one])]
            values = [one[name] for one in inner if isinstance(one, Mapping) and name in one]
        if not values or values[0] is metadata:
            return None
    return [item for one in values for item in (one if isinstance(one, list) else [one])]


def fields_of(query: Mapping[str, object]) -> Iterator[str]:
    """The fields that a filter, which was compiled before, asks for."""
    for name, value in query.items():
        if not name.startswith("$"):
            yield name
        elif isinstance(value, Mapping):
            yield from fields_of(value)
        elif isinstance(value, Sequence):
            for part in value:
                yield from fields_of(part)


def count_values(metadata: Iterable[Mapping[str, Any]], field: str) -> list[FacetCount]:
    """The values of ``field``, most frequent first, of equal ones numbers, then texts, rising.

    A list counts once for each of its values; null, lists in it and objects do not count.

    Args:
        metadata: of each document.
        field: as in a filter.
    """
    counts: Counter[tuple[bool, str | float]] = Counter()  # 1 and true are equal in Python
    for one in metadata:
        values = values_at(one, field) or []
        plain = (value for value in values if isinstance(value, (str, int, float)))
        counts.update({(isinstance(value, bool), value) for value in plain})
    found = [FacetCount(value, count) for (_, value), count in counts.items()]
    return sorted(found, key=lambda one: (-one.documents, _order(one.value)))


def count_fields(metadata: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """How many documents have each field, most frequent first; a field in an object by dots."""
    counts: Counter[str] = Counter()
    for one in metadata:
        counts.update(set(_fields(one)))
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def _fields(record: Mapping[str, Any], within: str = "") -> Iterator[str]:
    for name, value in record.items():
        if within and "." in name:  # which no filter reaches
            continue
        items = value if isinstance(value, list) else [value]
        objects = [one for one in items if isinstance(one, Mapping)]
        if len(objects) < max(len(items), 1):
            yield within + name
        for one in [] if "." in name else objects:
            yield from _fields(one, f"{within}{name}.")


def _order(value: Any) -> tuple[bool, bool, Any]:
    return isinstance(value, str), not isinstance(value, bool), value

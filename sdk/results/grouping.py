"""One hit a group: the best passage of each file, of each author, of each value of a field."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

from pocketquery.sdk.results.facets import values_at
from pocketquery.sdk.results.hits import Hit, Hits
from pocketquery.sdk.validation import check_text

__all__ = ["best_of_groups"]

_COUNTED = 100  # of the best hits: those in which others of a group are counted


def best_of_groups(search: Callable[[int], Hits], field: str, k: int, offset: int) -> Hits:
    """The best hit of each group; ``others`` of it says how many more are among the hundred best.

    Args:
        search: gives so many of the best hits, fewer only where there are no more; the first ones
            do not depend on how many.
        field: as in a filter. A hit without it is a group of its own; a list is one value.
        k: how many groups.
        offset: how many of the best groups are passed over.
    """
    check_text(field, "group_by")
    depth = max(_COUNTED, offset + k)
    while True:
        hits = search(depth)
        keys = [_key(hit, field, place) for place, hit in enumerate(hits)]
        firsts: dict[str | int, int] = {}
        for place, key in enumerate(keys):
            firsts.setdefault(key, place)
        if len(firsts) >= offset + k or len(hits) < depth:
            break
        depth *= 4
    others = Counter(keys[:_COUNTED])
    groups = list(firsts.items())[offset : offset + k]
    return Hits(replace(hits[place], others=max(others[key] - 1, 0)) for key, place in groups)


def _key(hit: Hit, field: str, place: int) -> str | int:
    values = values_at(hit.metadata, field)
    if values is None:
        return place
    equal = [int(v) if isinstance(v, float) and v.is_integer() else v for v in values]
    return json.dumps(equal, sort_keys=True)

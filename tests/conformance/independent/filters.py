"""Filters by docs/formats, "Filters"."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from tests.conformance.independent.artefacts import Refused, require

_OPPOSITE = {"$ne": "$eq", "$nin": "$in"}
_ORDER = ("$gt", "$gte", "$lt", "$lte")
_ABSENT = object()


def matches(condition: Any, metadata: Mapping[str, Any]) -> bool:
    """Whether ``metadata`` meets ``condition``, which must be well-formed."""
    require(isinstance(condition, Mapping), "no mapping")
    return all(_one(name, value, metadata) for name, value in condition.items())


def check(condition: Any, depth: int = 0) -> None:
    """Raise Refused where ``condition`` is no filter."""
    require(isinstance(condition, Mapping) and depth <= 10, "no mapping, or too deep")
    for name, value in condition.items():
        if name == "$not":
            check(value, depth + 1)
        elif name in ("$and", "$or"):
            require(isinstance(value, list) and len(value) <= 300, "no list")
            for part in value:
                check(part, depth + 1)
        else:
            require(not name.startswith("$"), "an unknown operator")
            require(value != {}, "nothing asked")
            tests = value.items() if isinstance(value, Mapping) else [("$eq", value)]
            for operator, wanted in tests:
                _check_test(operator, wanted)


def _check_test(operator: str, wanted: Any) -> None:
    kinds = ("$eq", "$ne", "$in", "$nin", *_ORDER, "$exists")
    require(operator in kinds, "an unknown operator")
    if operator in ("$in", "$nin"):
        require(isinstance(wanted, list), "no list")
        for one in wanted:
            _check_value(one)
    elif operator == "$exists":
        require(isinstance(wanted, bool), "neither true nor false")
    else:
        _check_value(wanted)
        require(operator in ("$eq", "$ne") or _kind(wanted) in ("text", "number"), "no order")


def _check_value(wanted: Any) -> None:
    require(_kind(wanted) != "other", "a list or an object")
    require(not (isinstance(wanted, float) and math.isnan(wanted)), "NaN")


def _one(name: str, value: Any, metadata: Mapping[str, Any]) -> bool:
    if name == "$not":
        return not matches(value, metadata)
    if name in ("$and", "$or"):
        held = [matches(part, metadata) for part in value]
        return all(held) if name == "$and" else any(held)
    tests = value.items() if isinstance(value, Mapping) else [("$eq", value)]
    return all(_test(metadata.get(name, _ABSENT), operator, wanted) for operator, wanted in tests)


def _test(found: Any, operator: str, wanted: Any) -> bool:
    if operator in _OPPOSITE:
        return not _test(found, _OPPOSITE[operator], wanted)
    if operator == "$exists":
        return bool((found is not _ABSENT) == wanted)
    if operator == "$in":
        return any(_test(found, "$eq", one) for one in wanted)
    if wanted is None and found is _ABSENT:
        return True
    items: Sequence[Any] = found if isinstance(found, list) else [found]
    return any(_holds(item, operator, wanted) for item in items)


def _holds(found: Any, operator: str, wanted: Any) -> bool:
    kind = _kind(found)
    if kind != _kind(wanted) or kind == "other":
        return False
    if kind in ("null", "boolean"):
        return operator == "$eq" and found is wanted
    if kind == "number":
        found, wanted = _number(found), _number(wanted)
    else:
        found, wanted = found.encode(), wanted.encode()
    if operator == "$eq":
        return bool(found == wanted)
    if operator == "$gt":
        return bool(found > wanted)
    if operator == "$gte":
        return bool(found >= wanted)
    return bool(found < wanted if operator == "$lt" else found <= wanted)


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, (int, float)):
        return "number"
    return "text" if isinstance(value, str) else "other"


def _number(value: float) -> float:
    """Whole numbers beyond 64 bits are the nearest float64."""
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        return float(value) if abs(value) < 2**1023 else math.inf if value > 0 else -math.inf
    return value


def parsed(text: str) -> Any:
    """A filter of the vectors."""
    return json.loads(text, object_hook=_written)


def _written(value: dict[str, Any]) -> Any:
    if "$bigint" in value:
        return int(value["$bigint"])
    return float(value["$number"]) if "$number" in value else value


__all__ = ["Refused", "check", "matches", "parsed"]

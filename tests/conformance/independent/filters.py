"""Filters by docs/formats, "Filters"."""

from __future__ import annotations

import calendar
import json
import math
import unicodedata
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
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
    kinds = ("$eq", "$ne", "$in", "$nin", "$all", *_ORDER, "$prefix", "$contains", "$exists")
    require(operator in kinds, "an unknown operator")
    if operator in ("$prefix", "$contains"):
        require(isinstance(wanted, str), "no text")
    elif operator in ("$in", "$nin", "$all"):
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
    return all(_test(_found(metadata, name), operator, wanted) for operator, wanted in tests)


def _found(metadata: Mapping[str, Any], name: str) -> Any:
    if name in metadata or "." not in name:
        return metadata.get(name, _ABSENT)
    values = _inside(metadata, name.split("."))
    if not values:
        return _ABSENT
    return [item for one in values for item in (one if isinstance(one, list) else [one])]


def _inside(value: Any, names: list[str]) -> list[Any]:
    if not names:
        return [value]
    items = value if isinstance(value, list) else [value]
    inner = [one[names[0]] for one in items if isinstance(one, dict) and names[0] in one]
    return [found for one in inner for found in _inside(one, names[1:])]


def _test(found: Any, operator: str, wanted: Any) -> bool:
    if operator in _OPPOSITE:
        return not _test(found, _OPPOSITE[operator], wanted)
    if operator == "$exists":
        return bool((found is not _ABSENT) == wanted)
    if operator == "$in":
        return any(_test(found, "$eq", one) for one in wanted)
    if operator == "$all":
        return all(_test(found, "$eq", one) for one in wanted)
    if wanted is None and found is _ABSENT:
        return True
    items = found if isinstance(found, list) else [found]
    return any(_holds(item, operator, wanted) for item in items)


def _holds(found: Any, operator: str, wanted: Any) -> bool:
    kind = _kind(found)
    if kind != _kind(wanted) or kind == "other":
        return False
    if kind in ("null", "boolean"):
        return operator == "$eq" and found is wanted
    if kind == "number":
        found, wanted = _number(found), _number(wanted)
    elif operator == "$prefix":
        return bool(found.startswith(wanted))
    elif operator == "$contains":
        found, wanted = (unicodedata.normalize("NFC", one.upper()) for one in (found, wanted))
        return wanted in found
    else:
        own, bound = _times(found), _times(wanted)
        if operator != "$eq" and own and bound and len(found + wanted) > 8:
            found, wanted = own[0], bound[0] if operator in ("$gte", "$lt") else bound[1]
            return bool(found >= wanted if operator in ("$gte", "$gt") else found < wanted)
        if operator != "$eq" and bound and len(wanted) > 4:
            return False
        found, wanted = found.encode(), wanted.encode()
    if operator == "$eq":
        return bool(found == wanted)
    if operator == "$gt":
        return bool(found > wanted)
    if operator == "$gte":
        return bool(found >= wanted)
    return bool(found < wanted if operator == "$lt" else found <= wanted)


def _times(text: str) -> tuple[datetime, datetime] | None:
    """First and last moment of a date; the years 1 and 9999 are not asked for."""
    for form in ("%Y", "%Y-%m", "%Y-%m-%d"):
        if len(text) == {"%Y": 4, "%Y-%m": 7, "%Y-%m-%d": 10}[form] and text.isascii():
            try:
                day = datetime.strptime(text, form).replace(tzinfo=UTC)
            except ValueError:
                return None
            month = 12 if form == "%Y" else day.month
            last = day.day if "d" in form else calendar.monthrange(day.year, month)[1]
            return day, day.replace(month=month, day=last) + timedelta(days=1)
    if len(text) < 16 or text[10] not in "Tt " or text[13] != ":" or "," in text:
        return None
    if text[11:13] == "24":  # which later releases of Python take
        return None
    try:
        moment = datetime.fromisoformat(text.upper())
    except ValueError:
        return None
    moment = moment.replace(tzinfo=moment.tzinfo or UTC)
    return moment, moment + timedelta(microseconds=1)


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

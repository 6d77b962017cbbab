"""``--where``: a condition as people type one, ``year>=2020``, as a filter."""

from __future__ import annotations

import json
import re
from typing import Any

from pocketquery.sdk.errors import InvalidInputError

__all__ = ["parse_condition"]

_OPERATORS = {
    "=": "$in",
    "!=": "$nin",
    ">": "$gt",
    ">=": "$gte",
    "<": "$lt",
    "<=": "$lte",
    "^=": "$prefix",
    "~": "$contains",
}
_CONSTANTS = ("true", "false", "null")
_CONDITION = re.compile(r"\s*([^=!<>^~]+?)\s*(!=|>=|<=|\^=|==?|[<>~])\s*(.*)", re.DOTALL)


def parse_condition(text: str) -> dict[str, Any]:
    """The filter that ``text`` stands for: a field, an operator and a value. ::

        tags=garden   path^=garden/   title~pump   date>=2024-05   year<2020   done!=true

    A value that is a number, true, false or null (True and FALSE, too) is that, and a text too.

    Raises:
        InvalidInputError: it is none.
    """
    matched = _CONDITION.fullmatch(text)
    if matched is None:
        raise InvalidInputError(
            f'the condition is "{text}", expected a field, one of {" ".join(_OPERATORS)} and a '
            "value: year>=2020"
        )
    field, sign, value = matched.groups()
    operator = _OPERATORS["=" if sign == "==" else sign]
    values = [value, *_as_json(value)]
    if operator in ("$in", "$nin"):
        return {field: {operator: values}}
    if operator in ("$prefix", "$contains"):
        return {field: {operator: value}}
    numbers = [one for one in values if not isinstance(one, bool) and one is not None]
    return {"$or": [{field: {operator: one}} for one in numbers]}


def _as_json(value: str) -> list[Any]:
    try:
        read = json.loads(value.lower() if value.lower() in _CONSTANTS else value)
    except ValueError:
        return []
    return [] if isinstance(read, (str, list, dict)) or read != read else [read]

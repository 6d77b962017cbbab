"""The filter language: conditions on metadata, as SQL with every value a parameter.

::

    {"lang": "en", "year": {"$gte": 2000}}              all of them
    {"tag": {"$in": ["news", "sport"]}}                 one of the values
    {"$or": [{"lang": "en"}, {"$not": {"year": 1999}}]}
    {"path": {"$prefix": "garden/"}, "author.name": "Ada", "date": {"$gte": "2024-01-01"}}

A field is a name at the top of the metadata. Where a document has no such name, dots lead into
objects, and into each object of a list. Operators: ``$eq``, ``$ne``, ``$in``, ``$nin``, ``$all``,
``$gt``, ``$gte``, ``$lt``, ``$lte``, ``$prefix``, ``$contains``, ``$exists``; ``$and``, ``$or``,
``$not``. A list in the metadata matches where one of its values does. Values compare within their
kind (numbers, texts, booleans, null), so ``{"year": {"$gt": 2000}}`` does not match "2001". Texts
compare by code point, dates by time (:mod:`pocketquery.sdk.results.dates`); ``$contains`` ignores
case. ``$ne``, ``$nin`` and ``$not`` are exact opposites, so they match where the field is absent;
``null`` equals null and absent alike.
"""

from __future__ import annotations

import contextlib
import json
import math
import sqlite3
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pocketquery.sdk.arrays import NDArray, Rows
from pocketquery.sdk.errors import InvalidInputError
from pocketquery.sdk.fields import no_constant
from pocketquery.sdk.languages.scripts import LANGUAGE_CODE, usual_letters
from pocketquery.sdk.results.dates import in_order, span
from pocketquery.sdk.results.facets import values_at
from pocketquery.sdk.validation import check_text

__all__ = [
    "Condition",
    "add_functions",
    "compile_filter",
    "condition_of",
    "language_filter",
    "matching_rows",
]

_ORDER = {"$gt": ">", "$gte": ">=", "$lt": "<", "$lte": "<="}
_LOGICAL_OPERATORS = ("$and", "$or", "$not")
_OPERATORS = ("$eq", "$ne", "$in", "$nin", "$all", *_ORDER, "$prefix", "$contains", "$exists")
_VALUES = "filter_values(documents.metadata, ?)"  # see add_functions
_MOST_DEPTH = 10  # SQLite's parser has a stack of its own
_MOST_PARTS = 300  # joined by one operator
_MOST_CONDITIONS = 500  # in all: each is looked at for every document
_MOST_VALUES = 100_000  # of lists, in all
_MOST_BYTES = 1 << 22  # of names and texts, in all, as UTF-8
_INT64 = 2**63
_FLOAT64 = 2**1023
_TEXT = "('text')"
_NUMBER = "('integer', 'real')"
_TYPE = "coalesce(json_type(documents.metadata, ?), 'absent')"
_IN_JSON_LIST = "IN (SELECT value FROM json_each(?))"


@dataclass(frozen=True)
class Condition:
    """A piece of a WHERE clause over ``documents`` and the values of its question marks."""

    sql: str
    parameters: tuple[str | float, ...] = ()

    def negated(self) -> Condition:
        """The opposite; no condition here is ever NULL, so it is exact."""
        return Condition(f"NOT ({self.sql})", self.parameters)


def condition_of(
    query: Mapping[str, object] | None, languages: Iterable[str] | None = None
) -> Condition | None:
    """The condition of a search's filter, and of the languages it is to find; None for any.

    Raises:
        InvalidInputError: as :func:`compile_filter` and :func:`language_filter`.
    """
    if languages is not None:
        query = {"$and": [query or {}, language_filter(languages)]}
    return None if query is None or query == {} else compile_filter(query)


def language_filter(languages: Iterable[str]) -> dict[str, object]:
    """A filter for documents in one of these languages: whose field ``language`` is the code, in
    capitals or not, or one of its regions. ::

        index.search("Bremse", filter=language_filter(["de", "en"]))

    Raises:
        InvalidInputError: no codes.
    """
    codes = [languages] if isinstance(languages, str) else list(languages)
    for code in codes:
        if not isinstance(code, str) or not LANGUAGE_CODE.fullmatch(code.lower()):
            raise InvalidInputError(
                f'languages has {code!r}, expected codes such as "de", "en", "pt-BR"'
            )
    if not codes:
        raise InvalidInputError('languages is empty; expected codes such as "de", or None for any')
    either = list(dict.fromkeys([*codes, *map(usual_letters, codes)]))
    regions = [{"language": {"$prefix": f"{code}-"}} for code in either]
    return {"$or": [{"language": {"$in": either}}, *regions]}


def compile_filter(query: Mapping[str, object]) -> Condition:
    """The condition that ``query`` states; an empty one is true of every document.

    Raises:
        InvalidInputError: an unknown operator, a value the operator cannot take, or more than is
            allowed: 500 conditions, 100,000 values in lists, 4 MiB of text, 10 levels.
    """
    _check_size(query)
    return _all_of(query, 0)


def matching_rows(
    connection: sqlite3.Connection, condition: Condition, count: int, among: Rows | None = None
) -> NDArray[np.bool_]:
    """Which rows meet the condition, bool (count,); deleted documents meet none.

    Args:
        connection: on one state.
        condition: the filter.
        count: of the index's rows.
        among: only these are checked, the others are False; None for all.
    """
    sql, parameters = f"SELECT row FROM documents WHERE ({condition.sql})", condition.parameters
    if among is not None:
        sql += " AND row IN (SELECT value FROM json_each(?))"
        parameters = (*parameters, json.dumps(among.tolist()))
    matching = np.zeros(count, bool)
    add_functions(connection)
    matching[[row for (row,) in connection.execute(sql, parameters).fetchall()]] = True
    return matching


def add_functions(connection: sqlite3.Connection) -> None:
    """Give ``connection`` what conditions need beyond SQL: fields with dots or signs in their
    names, dates, texts in any case."""
    with contextlib.suppress(sqlite3.OperationalError):  # it has none of them
        connection.execute("SELECT filter_contains('', '')")
        return
    for name, count, function in (
        ("filter_values", 2, _values_json),
        ("filter_order", 3, _of_texts(in_order)),
        ("filter_contains", 2, _of_texts(lambda text, folded: folded in _folded(text))),
    ):
        connection.create_function(name, count, function, deterministic=True)


def _values_json(metadata: str, field: str) -> str | None:
    values = values_at(json.loads(metadata, parse_constant=no_constant), field)
    return None if values is None else f"[{','.join(map(_item_json, values))}]"


def _item_json(value: object) -> str:
    if isinstance(value, (Mapping, list)):
        return "{}"  # equals nothing
    if value in (math.inf, -math.inf):  # 1e999 in a file from elsewhere
        return f"{value}".replace("inf", "9e999")
    return json.dumps(value)


def _of_texts(holds: Callable[..., bool]) -> Callable[..., bool]:
    """SQLite may ask before it has looked at the value's type."""
    return lambda value, *others: isinstance(value, str) and holds(value, *others)


def _folded(text: str) -> str:
    """``text`` without what makes letters of one word differ: case, and how accents are coded."""
    return unicodedata.normalize("NFC", text.upper())


def _check_size(query: object) -> None:
    """Count before anything is made of it; what holds itself has no end and so too many values."""
    conditions = values = size = 0
    waiting = [query]
    while waiting:
        one = waiting.pop()
        values += 1
        if isinstance(one, str):
            size += len(one.encode("utf-8", "surrogatepass"))
        elif isinstance(one, Mapping):
            items = list(one.items())
            parts = [
                name in _LOGICAL_OPERATORS or isinstance(value, Mapping) for name, value in items
            ]
            conditions += max(len(parts) - sum(parts), not parts)
            conditions += sum(len(v) for n, v in items if n == "$all" and isinstance(v, Sequence))
            waiting += [part for item in items for part in item]
        elif isinstance(one, Sequence) and not isinstance(one, (bytes, bytearray, memoryview)):
            values += len(one)
            if values <= _MOST_VALUES:
                waiting += one
                values -= len(one)
        for count, most, what in (
            (conditions, _MOST_CONDITIONS, "conditions"),
            (values, _MOST_VALUES, "names and values"),
            (size, _MOST_BYTES, "bytes of text"),
        ):
            if count > most:
                raise InvalidInputError(
                    f"the filter has {count} {what} or more, at most {most} are possible; use $in "
                    "for many values of one field, and search with several filters for more"
                )


def _all_of(query: object, depth: int) -> Condition:
    if not isinstance(query, Mapping):
        raise InvalidInputError(
            f"a filter is a {type(query).__name__}, expected a mapping such as "
            '{"lang": "en", "year": {"$gte": 2000}}'
        )
    if depth > _MOST_DEPTH:
        raise InvalidInputError(f"the filter is nested more than {_MOST_DEPTH} deep")
    return _join("AND", [_one(name, value, depth) for name, value in query.items()], "1")


def _one(name: object, value: object, depth: int) -> Condition:
    if not isinstance(name, str):
        raise InvalidInputError(f"a filter's field is {_show(name)}, expected a name (str)")
    if name == "$not":
        return _all_of(value, depth + 1).negated()
    if name in ("$and", "$or"):
        parts = [_all_of(part, depth + 1) for part in _listed(name, value)]
        return _join(name[1:].upper(), parts, "1" if name == "$and" else "0")
    if name.startswith("$"):
        raise _unknown(name, "$and, $or, $not or a field's name")
    check_text(name, "a filter's field")
    if not isinstance(value, Mapping):
        return _compare(name, "$eq", value)
    if not value:
        raise InvalidInputError(
            f"the filter asks nothing of {_show(name)}; expected a value or an operator such as "
            '{"$gte": 2000}'
        )
    return _join("AND", [_compare(name, str(key), item) for key, item in value.items()], "1")


def _compare(field: str, operator: str, value: object) -> Condition:
    if operator == "$eq":
        return _equal(field, value)
    if operator == "$in":
        return _member(field, _listed(operator, value))
    if operator == "$all":
        values = _listed(operator, value)
        return _join("AND", [_compare(field, "$eq", one) for one in values], "1")
    if operator in ("$prefix", "$contains"):
        return _part_of_text(field, operator, value)
    if operator in ("$ne", "$nin"):
        return _compare(field, {"$ne": "$eq", "$nin": "$in"}[operator], value).negated()
    if operator in _ORDER:
        return _ordered(field, operator, value)
    if operator == "$exists":
        if not isinstance(value, bool):
            raise InvalidInputError(f"$exists takes true or false, found {_show(value)}")
        exists = _exists(field)
        return exists if value else exists.negated()
    raise _unknown(operator, ", ".join(_OPERATORS))


def _member(field: str, values: Sequence[object]) -> Condition:
    texts = [check_text(value, "a value of $in") for value in values if isinstance(value, str)]
    others, compared = [], list[object]()
    for value in values:  # null, true and false, each once; or what is none, which is an error
        if not _is_plain(value) and not any(value is before for before in compared):
            compared.append(value)
            others.append(_equal(field, value))
    numbers = [_number("$in", v) for v in values if _is_plain(v) and not isinstance(v, str)]
    parts = [_typed(field, _TEXT, _IN_JSON_LIST, json.dumps(texts)), *others]
    finite = json.dumps([number for number in numbers if math.isfinite(number)])
    return _join("OR", [*parts, _typed(field, _NUMBER, _IN_JSON_LIST, finite)], "0")


def _is_plain(value: object) -> bool:
    return isinstance(value, (str, int, float)) and not isinstance(value, bool)


def _equal(field: str, value: object) -> Condition:
    if value is None:
        return _join("OR", [_any_value(field, "{type} = 'null'"), _exists(field).negated()], "0")
    if isinstance(value, bool):
        return _any_value(field, f"{{type}} = '{'true' if value else 'false'}'")
    return _ordered(field, "$eq", value)


def _ordered(field: str, operator: str, value: object) -> Condition:
    comparison = f"{_ORDER.get(operator, '=')} ?"
    if isinstance(value, str):
        check_text(value, f"the value of {operator}")
        if operator in _ORDER and span(value):
            text = f"{{type}} IN {_TEXT} AND filter_order({{value}}, '{operator}', ?)"
            return _any_value(field, text, value)
        return _typed(field, _TEXT, comparison, value)
    return _typed(field, _NUMBER, comparison, _number(operator, value))


def _part_of_text(field: str, operator: str, value: object) -> Condition:
    if not isinstance(value, str):
        raise InvalidInputError(f"{operator} takes a text, found {_show(value)}")
    check_text(value, f"the value of {operator}")
    if operator == "$prefix":
        condition = f"{{type}} IN {_TEXT} AND substr({{value}}, 1, ?) = ?"
        return _any_value(field, condition, len(value), value)
    condition = f"{{type}} IN {_TEXT} AND filter_contains({{value}}, ?)"
    return _any_value(field, condition, _folded(value))


def _exists(field: str) -> Condition:
    path = _path(field)
    if path is None:
        return Condition(f"{_VALUES} IS NOT NULL", (field,))
    return Condition(f"{_TYPE} <> 'absent'", (path,))


def _typed(field: str, kind: str, comparison: str, value: str | float) -> Condition:
    condition = f"{{type}} IN {kind} AND {{value}} {comparison}"
    return _any_value(field, condition, value)


def _any_value(field: str, condition: str, *parameters: str | float) -> Condition:
    """``condition`` holds for the field's value, or for one of them where it is a list."""
    path = _path(field)
    if path is None:
        return Condition(_listed_in(_VALUES, condition), (field, *parameters))
    listed = _listed_in("documents.metadata, ?", condition)
    of_field = condition.format(type=_TYPE, value="json_extract(documents.metadata, ?)")
    paths = (path,) * of_field.count("metadata, ?")
    return Condition(
        f"CASE {_TYPE} WHEN 'array' THEN {listed} ELSE {of_field} END",
        (path, path, *parameters, *paths, *parameters),
    )


def _listed_in(source: str, condition: str) -> str:
    of_item = condition.format(type="item.type", value="item.value")
    return f"EXISTS (SELECT 1 FROM json_each({source}) AS item WHERE {of_item})"


def _path(field: str) -> str | None:
    """SQLite's path to ``field``; None for one with dots, which may be a name or lead into objects,
    or where SQLite's releases differ on how to quote the name."""
    if not field or any(character in '."\\' or character < " " for character in field):
        return None
    return f'$."{field}"'


def _number(operator: str, value: object) -> float:
    if not isinstance(value, (int, float)) or isinstance(value, bool) or value != value:  # NaN
        raise InvalidInputError(
            f"{operator} is given {_show(value)}, expected a text or a number"
            + (", true, false or null" if operator == "$eq" else "")
        )
    if isinstance(value, int) and not -_INT64 <= value < _INT64:  # SQLite holds these as reals
        return float(value) if abs(value) < _FLOAT64 else math.inf * (1 if value > 0 else -1)
    return value


def _listed(operator: str, value: object) -> Sequence[object]:
    if isinstance(value, (str, bytes)) or not isinstance(value, Sequence):
        raise InvalidInputError(f"{operator} takes a list, found {_show(value)}")
    return value


def _join(word: str, parts: Sequence[Condition], empty: str) -> Condition:
    if len(parts) > _MOST_PARTS:
        raise InvalidInputError(
            f"the filter joins {len(parts)} conditions, at most {_MOST_PARTS} are possible; "
            "use $in for many values of one field"
        )
    if not parts:
        return Condition(empty)
    sql = f" {word} ".join(f"({part.sql})" for part in parts)
    return Condition(sql, tuple(value for part in parts for value in part.parameters))


def _show(value: object) -> str:
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # an int of thousands of digits, a list in itself
        text = f"a {type(value).__name__}"
    return text if len(text) <= 80 else f"{text[:77]}..."


def _unknown(name: str, expected: str) -> InvalidInputError:
    return InvalidInputError(
        f"the filter has the unknown operator {_show(name)}; expected {expected}"
    )

"""Rows of Parquet files, as the objects that JSON Lines would hold.

JSON has no dates, bytes or decimals. Dates and times become ISO 8601 text ("2024-01-31",
"2024-01-31T09:30:00+00:00"), durations seconds, decimals numbers (text where a float64 would round
them), maps objects, UUIDs text. Bytes are text where they are UTF-8, as old writers leave theirs.
What is left has no meaning as metadata and is refused by its column's name.
"""

from __future__ import annotations

import datetime
import math
from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

from pocketquery.sdk.errors import CorpusError, MissingExtraError
from pocketquery.server.corpus.readers.lines import open_bytes, url_errors

__all__ = ["is_parquet", "parquet_objects"]

_MAGIC = b"PAR1"
_BATCH_ROWS = 512  # rows
_TEXT_COLUMNS = ("text", "sentences")


def is_parquet(path: Path | str) -> bool:
    """Whether the file begins as Parquet files do, whatever its name.

    Raises:
        ArtifactNotFoundError: there is no such file.
    """
    with url_errors(path), open_bytes(path) as file:
        return file.read(len(_MAGIC)) == _MAGIC


def parquet_objects(path: Path | str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (row number from 1, values by column), some hundred rows in memory at a time.

    A null counts as a field that is not there, since a column has a place for every row; but for
    the text, which is then empty.

    Raises:
        ArtifactNotFoundError: there is no such file.
        CorpusError: it is damaged, two columns have one name, a value has no form in JSON (names
            the column and the row), or a URL's server gives an error.
        MissingExtraError: pyarrow is not installed (extra "shards").
    """
    try:
        import pyarrow
        import pyarrow.parquet
    except ModuleNotFoundError as error:
        raise MissingExtraError.of("pyarrow", "shards") from error
    number = 0
    with url_errors(path), open_bytes(path) as file:
        try:
            table = pyarrow.parquet.ParquetFile(file)
            twice = [name for name, count in Counter(table.schema_arrow.names).items() if count > 1]
            if twice:  # a row would keep the last one's value alone
                raise CorpusError(
                    f"{path}: two columns have the name {twice[0]!r}; expected a name for each. "
                    "Rename one"
                )
            for batch in table.iter_batches(_BATCH_ROWS):
                columns = [_column(path, number, *one) for one in _columns(batch)]
                for row in zip(*columns, strict=True) if columns else ():
                    number += 1
                    named = zip(batch.schema.names, row, strict=True)
                    yield (
                        number,
                        {
                            name: one
                            for name, one in named
                            if one is not None or name in _TEXT_COLUMNS
                        },
                    )
        except (pyarrow.ArrowException, OSError) as error:
            raise CorpusError(
                f"{path}: after row {number} found damaged Parquet ({error}); expected a whole "
                "file; copy it again"
            ) from error


def _columns(batch: Any) -> Iterator[tuple[str, Any]]:
    """Names and arrays; of times the nanoseconds go, which Python's have not."""
    import pyarrow

    for name, array in zip(batch.schema.names, batch.columns, strict=True):
        unit = getattr(array.type, "unit", "")
        if unit == "ns" and pyarrow.types.is_timestamp(array.type):
            array = array.cast(pyarrow.timestamp("us", array.type.tz), safe=False)
        elif unit == "ns" and pyarrow.types.is_duration(array.type):
            array = array.cast(pyarrow.duration("us"), safe=False)
        elif unit == "ns":
            array = array.cast(pyarrow.time64("us"), safe=False)
        yield name, array


def _column(path: Path | str, before: int, name: str, array: Any) -> list[Any]:
    """The values of a column; ``before`` counts the rows before it."""
    values = list[Any]()
    try:
        for value in array.to_pylist():
            values.append(_plain(value))
    except (ValueError, OverflowError) as error:  # to_pylist's too: dates beyond Python's years
        raise CorpusError(
            f"{path}, row {before + len(values) + 1}: the column {name!r} ({array.type}) has "
            f"{error}; expected text, finite numbers, booleans, dates, or lists and objects of "
            "them. Write it as text, or leave the column out"
        ) from error
    return values


def _plain(value: Any) -> Any:
    """``value`` as JSON has it.

    Raises:
        ValueError: it has no form there; says what it is.
    """
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            if not math.isfinite(value):
                raise ValueError(f"the number {value}")
            return value
        case bytes():
            try:
                return value.decode("utf-8")
            except UnicodeDecodeError:
                raise ValueError(f"{len(value)} bytes that are not UTF-8 text") from None
        case datetime.date() | datetime.time():  # a datetime is a date
            return value.isoformat()
        case datetime.timedelta():
            return value.total_seconds()
        case Decimal():
            if value == value.to_integral_value():
                return int(value)
            return float(value) if Decimal(repr(float(value))) == value else str(value)
        case UUID():
            return str(value)
        case dict():
            return {str(key): _plain(item) for key, item in value.items()}
        case list():
            pairs = bool(value) and all(isinstance(one, tuple) and len(one) == 2 for one in value)
            if pairs:  # a map
                entries = {str(_plain(key)): _plain(item) for key, item in value}
                if len(entries) < len(value):
                    raise ValueError("a map with a key twice")
                return entries
            return [_plain(item) for item in value]
    if hasattr(value, "item"):  # of numpy, as half floats come
        return _plain(value.item())
    raise ValueError(f"a {type(value).__name__}")

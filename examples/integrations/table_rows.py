"""Tables: rows of a pandas DataFrame or a Hugging Face Dataset into an index, hits out as rows.

Copy this file into your project. Neither package is imported here: a DataFrame's rows are
``frame.to_dict("records")``, a Dataset's are the Dataset.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pocketquery import sdk


def documents_of(
    rows: Iterable[Mapping[str, Any]], *, id: str = "id", text: str = "text"
) -> Iterator[sdk.Document]:
    """A document for each row; what lies in the other columns becomes metadata.

    Cells without a value (None, NaN, NaT) are left out, dates become ISO texts, numpy's numbers
    Python's.

    Args:
        rows: a mapping a row; they are read once, so that a streamed Dataset will do.
        id: the column of the ids, which must be unique; numbers become texts.
        text: the column of the texts.

    Raises:
        InvalidInputError: a row has no such column, or no text in it; names the row.
    """
    for number, row in enumerate(rows):
        for column in (id, text):
            if _plain(row.get(column)) is None:
                raise sdk.InvalidInputError(
                    f"row {number} has no value in the column {column!r}, expected one; its "
                    f"columns are {', '.join(map(str, row))}. Name the columns: id=, text="
                )
        values = {str(name): _plain(value) for name, value in row.items() if name not in (id, text)}
        metadata = {name: value for name, value in values.items() if value is not None}
        yield sdk.Document(str(_plain(row[id])), str(row[text]), metadata)


def rows_of(hits: Iterable[sdk.Hit]) -> list[dict[str, Any]]:
    """A row for each hit: id, score, text and its metadata; for ``pandas.DataFrame`` or
    ``Dataset.from_list``."""
    return [{**hit.metadata, "id": hit.id, "score": hit.score, "text": hit.text} for hit in hits]


def _plain(value: Any) -> Any:
    """The value as JSON has it; None where there is none."""
    if hasattr(value, "tolist"):  # numpy's scalars and arrays
        value = value.tolist()
    if value is None or value != value or (isinstance(value, float) and math.isinf(value)):
        return None
    return value.isoformat() if hasattr(value, "isoformat") else value

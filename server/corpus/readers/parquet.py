"""Rows of Parquet files, as the objects that JSON Lines would hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pocketquery.sdk.errors import CorpusError, MissingExtraError
from pocketquery.server.corpus.readers.lines import open_bytes, url_errors

__all__ = ["is_parquet", "parquet_objects"]

_MAGIC = b"PAR1"
_AT_A_TIME = 512  # rows


def is_parquet(path: Path | str) -> bool:
    """Whether the file begins as Parquet files do, whatever its name.

    Raises:
        ArtifactNotFoundError: there is no such file.
    """
    with url_errors(path), open_bytes(path) as file:
        return file.read(len(_MAGIC)) == _MAGIC


def parquet_objects(path: Path | str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (row number from 1, values by column), some hundred rows in memory at a time.

    A null counts as a field that is not there: a column has a place for every row.

    Raises:
        ArtifactNotFoundError: there is no such file.
        CorpusError: it is damaged, two columns have one name, or a URL's server gives an error.
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
            for batch in table.iter_batches(_AT_A_TIME):
                for row in batch.to_pylist():
                    number += 1
                    yield number, {name: value for name, value in row.items() if value is not None}
        except (pyarrow.ArrowException, OSError) as error:
            raise CorpusError(
                f"{path}: after row {number} found damaged Parquet ({error}); expected a whole "
                "file; copy it again"
            ) from error
